# SPDX-License-Identifier: GPL-3.0-or-later
"""The same numbers out of operations that OpenVINO computes fast.

Vocoders spend much of their time in three operations for which OpenVINO has plain loops only. Each can be said in
others that vectorise or, where the processor multiplies tiles of bfloat16, use those. A second of Kokoro's speech takes
0.20 s of processor instead of 0.37 in bfloat16, 0.59 instead of 0.66 in float32, and as many words are read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import openvino.opset13 as op
from numpy.typing import NDArray

LONGEST_STFT = 64  # samples: above, a fast Fourier transform is the better choice
TERMS = (9.80175751, -30.76672405, 30.29110153)
"""sin²(πr) by r², r⁴, r⁶ on [-½, ½]; off by 0.0008 at most, where bfloat16 near 1 is off by 0.002."""
_NEARLY_NOTHING = 1e-20


def quickened(model: Any) -> dict[str, int]:
    """Change an OpenVINO model; how many of each operation were said in another way."""
    return {
        "sine_squares": sum(_sine_square(node) for node in _all(model, "Power")),
        "transposed_convolutions": sum(_transposed(node) for node in _all(model, "ConvolutionBackpropData")),
        "short_transforms": sum(_short_transform(node) for node in _all(model, "STFT")),
    }


def _sine_square(power: Any) -> bool:
    """sin², of "snake" activations (x + sin²(ax)/a; Ziyin et al., 2020): a fifth of Kokoro's time.

    It has the period π: with r = ⌊t + ½⌋ - t, t = x/π, it is an even function of r on [-½, ½].
    """
    sine, exponent = power.input_value(0).get_node(), _constant(power.input_value(1))
    if sine.get_type_name() != "Sin" or exponent is None or not np.all(exponent == 2):
        return False
    # the turns are negative, because then the sum behind the floor fuses with it
    turns = op.multiply(sine.input_value(0), _number(-1 / np.pi))
    rest = op.add(op.floor(op.add(op.multiply(turns, _number(-1)), _number(0.5))), turns)
    square = op.power(rest, _number(2))
    total = op.multiply(square, _number(TERMS[-1]))
    for term in TERMS[-2::-1]:
        total = op.multiply(op.add(total, _number(term)), square)
    power.output(0).replace(total.output(0))
    return True


def _transposed(node: Any) -> bool:
    """A transposed convolution that makes ``s`` samples of each, with a kernel of ``2s``: a plain one of width 3.

    The plain one has ``s`` times as many channels, one for each place between two samples, and these are laid side by
    side. A third of its kernel is zero.
    """
    kernel, facts = _constant(node.input_value(1)), node.get_attributes()
    if kernel is None or kernel.ndim != 3 or node.get_input_size() != 2:
        return False
    step, (pad,), (other,) = facts["strides"][0], facts["pads_begin"], facts["pads_end"]
    ins, outs, size = kernel.shape
    plain = facts["dilations"] == [1] and facts["output_padding"] == [0] and facts["auto_pad"] == "explicit"
    if not plain or (size, 2 * pad, 2 * other) != (2 * step, step, step):
        return False
    wide = np.zeros((outs, step, ins, 3), np.float32)
    for place in range(step):
        for shift in (-1, 0, 1):
            tap = place + pad - step * shift
            if 0 <= tap < size:
                wide[:, place, :, shift + 1] = kernel[:, :, tap].T
    made = op.convolution(node.input_value(0), op.constant(wide.reshape(outs * step, ins, 3)), [1], [1], [1], [1])
    apart = op.reshape(made, _shape(0, outs, step, -1), special_zero=True)
    beside = op.reshape(op.transpose(apart, _shape(0, 1, 3, 2)), _shape(0, outs, -1), special_zero=True)
    node.output(0).replace(beside.output(0))
    return True


def _short_transform(node: Any) -> bool:
    """A short-time Fourier transform of few samples: a convolution with the windowed waves.

    Their weights stand in two parts, each of which bfloat16 holds; the sum is as good as float32's. The lowest and the
    highest bin have no imaginary part, but the operation leaves rounding noise in the highest one's. A model that takes
    the angle of a bin divides one part by the other: so that 0/0 never occurs, next to nothing is added.
    """
    window, size, step = (_constant(node.input_value(at)) for at in (1, 2, 3))
    last_first = bool(node.get_attributes()["transpose_frames"])
    if window is None or size is None or step is None or last_first or size > LONGEST_STFT or size % 2:
        return False
    length, bins = int(size), int(size) // 2 + 1
    angles = 2 * np.pi * np.outer(np.arange(bins), np.arange(length)) / length
    waves = np.stack([np.cos(angles), -np.sin(angles)], axis=1) * window
    waves[[0, -1], 1] = 0
    waves = waves.reshape(2 * bins, 1, length).astype(np.float32)
    coarse = _bfloat16(waves)
    twice = op.unsqueeze(node.input_value(0), _shape(1))
    twice = op.concat([twice, twice], 1)
    both = op.constant(np.concatenate([coarse, waves - coarse], axis=1))
    never_nothing = np.zeros((1, bins, 2, 1), np.float32)
    never_nothing[0, :, 0] = never_nothing[0, -1, 1] = _NEARLY_NOTHING
    made = op.add(
        op.convolution(twice, both, [int(step)], [0], [0], [1]), op.constant(never_nothing.reshape(1, 2 * bins, 1))
    )
    frames = op.transpose(op.reshape(made, _shape(0, bins, 2, -1), special_zero=True), _shape(0, 3, 1, 2))
    node.output(0).replace(frames.output(0))
    return True


def _all(model: Any, kind: str) -> Iterator[Any]:
    return (node for node in model.get_ordered_ops() if node.get_type_name() == kind)


def _constant(output: Any) -> NDArray[Any] | None:
    """The value, when it is a constant; None otherwise."""
    node = output.get_node()
    while node.get_type_name() == "Convert":  # constants may be kept in half the bytes
        node = node.input_value(0).get_node()
    return np.asarray(node.get_data()) if node.get_type_name() == "Constant" else None


def _bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rounded to the nearest number that bfloat16 has: the upper half of float32's bits."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _number(value: float) -> Any:
    return op.constant(np.float32(value))


def _shape(*numbers: int) -> Any:
    return op.constant(np.array(numbers, np.int64))
