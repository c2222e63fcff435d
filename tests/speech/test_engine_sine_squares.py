# SPDX-License-Identifier: GPL-3.0-or-later
"""Squares of sines out of multiplications: the same numbers, and nothing else of a graph is touched."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import openvino
import openvino.opset13 as op
import pytest

from gateway.speech.engines.sine_squares import with_fast_sine_squares

pytestmark = pytest.mark.unit


def snake(exponent: float, *, half: bool = False) -> Any:
    """x + sin(x)^exponent + sin(x), as a vocoder has it; the exponent kept as a half-precision number if asked."""
    x = op.parameter([-1], np.float32, name="x")
    sine = op.sin(x)
    kept = op.convert(op.constant(np.float16(exponent)), "f32") if half else op.constant(np.float32(exponent))
    return openvino.Model([op.add(op.add(x, op.power(sine, kept)), op.sin(x))], [x], "snake")


def computed(model: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """In single precision, whatever the processor likes better."""
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return np.array(compiled(x)[0])


@pytest.mark.parametrize("half", [False, True])
def test_the_same_numbers_from_any_angle(half: bool) -> None:
    x = np.concatenate([np.linspace(-40, 40, 20_001), np.arange(-9, 10) * np.pi / 2]).astype(np.float32)
    model = snake(2, half=half)
    assert with_fast_sine_squares(model) == 1
    kinds = Counter(node.get_type_name() for node in model.get_ordered_ops())
    assert (kinds["Sin"], kinds["Power"]) == (1, 0)  # the sine that is not squared stays
    assert np.abs(computed(model, x) - (x + np.sin(x) ** 2 + np.sin(x))).max() < 2e-5


def test_other_powers_of_a_sine_stay_as_they_are() -> None:
    model = snake(3)
    assert with_fast_sine_squares(model) == 0
    assert Counter(node.get_type_name() for node in model.get_ordered_ops())["Power"] == 1
