# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations said in others: the same numbers, and nothing else of a graph is touched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as op
import pytest

from gateway.speech.engines.openvino_graph import quickened

pytestmark = pytest.mark.unit

Array = np.ndarray[Any, Any]


def model(result: Any, *inputs: Any) -> Any:
    return openvino.Model([result], list(inputs), "test")


def computed(made: Any, *inputs: Array) -> Array:
    """In single precision, whatever the processor likes better."""
    compiled = openvino.Core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(inputs)[0])


def kinds(made: Any) -> Counter[str]:
    return Counter(node.get_type_name() for node in made.get_ordered_ops())


def snake(exponent: float, *, half: bool = False) -> Any:
    """x + sin(x)^exponent + sin(x), as a vocoder has it; the exponent kept as a half-precision number if asked."""
    x = op.parameter([-1], np.float32, name="x")
    sine = op.sin(x)
    kept = op.convert(op.constant(np.float16(exponent)), "f32") if half else op.constant(np.float32(exponent))
    return model(op.add(op.add(x, op.power(sine, kept)), op.sin(x)), x)


@pytest.mark.parametrize("half", [False, True])
def test_squares_of_sines_at_any_angle(half: bool) -> None:
    x = np.concatenate([np.linspace(-40, 40, 20_001), np.arange(-9, 10) * np.pi / 2]).astype(np.float32)
    made = snake(2, half=half)
    assert quickened(made)["sine_squares"] == 1
    assert kinds(made)["Sin"] == 1  # the sine that is not squared stays
    assert np.abs(computed(made, x) - (x + np.sin(x) ** 2 + np.sin(x))).max() < 1e-3


def test_other_powers_of_a_sine_stay_as_they_are() -> None:
    made = snake(3)
    before = kinds(made)
    assert quickened(made)["sine_squares"] == 0
    assert kinds(made) == before


def upsampler(step: int, size: int, pad: int, *, half: bool = False) -> Any:
    """4 channels to 3, with the kernel kept as half-precision numbers if asked."""
    kernel = np.random.default_rng(7).normal(size=(4, 3, size)).astype(np.float16 if half else np.float32)
    x = op.parameter([1, 4, -1], np.float32, name="x")
    kept = op.convert(op.constant(kernel), "f32") if half else op.constant(kernel)
    return model(op.convolution_backprop_data(x, kept, [step], pads_begin=[pad], pads_end=[pad]), x)


@pytest.mark.parametrize("step", [2, 6, 10])
@pytest.mark.parametrize("half", [False, True])
def test_transposed_convolutions_of_any_length(step: int, half: bool) -> None:
    plain, made = (upsampler(step, 2 * step, step // 2, half=half) for _ in range(2))
    assert quickened(made)["transposed_convolutions"] == 1
    assert kinds(made)["ConvolutionBackpropData"] == 0
    for length in (1, 2, 17):
        x = np.random.default_rng(length).normal(size=(1, 4, length)).astype(np.float32)
        wanted = computed(plain, x)
        assert wanted.shape == (1, 3, step * length)
        np.testing.assert_allclose(computed(made, x), wanted, atol=1e-4)


@pytest.mark.parametrize(("step", "size", "pad"), [(4, 8, 1), (4, 9, 2), (3, 6, 1), (5, 20, 0)])
def test_other_transposed_convolutions_stay_as_they_are(step: int, size: int, pad: int) -> None:
    made = upsampler(step, size, pad)
    assert quickened(made)["transposed_convolutions"] == 0
    assert kinds(made)["ConvolutionBackpropData"] == 1


def transform(size: int, step: int, *, frames_last: bool = False) -> Any:
    x = op.parameter([1, -1], np.float32, name="x")
    window = op.constant(np.hanning(size + 1)[:-1].astype(np.float32))
    sizes = (op.constant(np.int64(each)) for each in (size, step))
    from openvino import opset15  # the first set that has it

    return model(opset15.stft(x, window, *sizes, frames_last), x)


def test_a_short_transform_has_the_same_bins() -> None:
    plain, made = transform(20, 5), transform(20, 5)
    assert quickened(made)["short_transforms"] == 1
    assert kinds(made)["STFT"] == 0
    for length in (20, 99, 1000):
        x = np.random.default_rng(length).normal(size=(1, length)).astype(np.float32)
        wanted = computed(plain, x)
        assert wanted.shape == (1, (length - 20) // 5 + 1, 11, 2)
        np.testing.assert_allclose(computed(made, x), wanted, atol=1e-4)


def test_silence_has_an_angle_in_every_bin() -> None:
    """0/0 would be no number, and spread to every sample behind it."""
    made = transform(20, 5)
    quickened(made)
    for constant in (0.0, 0.25):
        bins = computed(made, np.full((1, 100), constant, np.float32))
        assert np.all(np.any(bins != 0, axis=-1))


@pytest.mark.parametrize(("size", "frames_last"), [(256, False), (21, False), (20, True)])
def test_other_transforms_stay_as_they_are(size: int, frames_last: bool) -> None:
    made = transform(size, 5, frames_last=frames_last)
    assert quickened(made)["short_transforms"] == 0
    assert kinds(made)["STFT"] == 1
