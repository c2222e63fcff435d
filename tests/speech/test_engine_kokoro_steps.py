# SPDX-License-Identifier: GPL-3.0-or-later
"""Kokoro's decoder is given whole steps of frames, and how many were added is told; nothing else changes."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from gateway.speech.engines.kokoro_steps import ADDED, STEP_FRAMES, in_steps

pytestmark = pytest.mark.unit

CHANNELS = 3


def two_halves(border: str = "/encoder") -> onnx.ModelProto:
    """An encoder that gives sound, pitch and energy by frame, and a decoder that adds them up, with Kokoro's border."""
    graph = helper.make_graph(
        [
            helper.make_node("Identity", ["sound"], [f"{border}/MatMul_1_output_0"], name=f"{border}/MatMul_1"),
            helper.make_node("Identity", ["pitch"], [f"{border}/Reshape_output_0"], name=f"{border}/Reshape"),
            helper.make_node("Identity", ["energy"], [f"{border}/Reshape_1_output_0"], name=f"{border}/Reshape_1"),
            helper.make_node(
                "ReduceSum", [f"{border}/MatMul_1_output_0", "axis"], ["one"], name="/decoder/sum", keepdims=0
            ),
            helper.make_node(
                "Add", [f"{border}/Reshape_output_0", f"{border}/Reshape_1_output_0"], ["two"], name="/decoder/add"
            ),
            helper.make_node("Concat", ["one", "two"], ["audio"], name="/decoder/join", axis=1),
        ],
        "kokoro",
        [
            helper.make_tensor_value_info("sound", TensorProto.FLOAT, [1, CHANNELS, "frames"]),
            helper.make_tensor_value_info("pitch", TensorProto.FLOAT, [1, "curve"]),
            helper.make_tensor_value_info("energy", TensorProto.FLOAT, [1, "curve"]),
        ],
        [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1, "samples"])],
        [numpy_helper.from_array(np.array([1], np.int64), "axis")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(model: onnx.ModelProto, frames: int) -> list[np.ndarray]:
    chance = np.random.default_rng(frames)
    inputs = {
        "sound": chance.normal(size=(1, CHANNELS, frames)).astype(np.float32),
        "pitch": chance.normal(size=(1, 2 * frames)).astype(np.float32),
        "energy": chance.normal(size=(1, 2 * frames)).astype(np.float32),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, inputs)]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5 * STEP_FRAMES))
def test_the_decoder_gets_whole_steps_whose_last_frame_is_repeated(frames: int) -> None:
    (plain,) = run(two_halves(), frames)
    stepped = in_steps(two_halves())
    onnx.checker.check_model(stepped)
    audio, added = run(stepped, frames)
    (more,) = added.tolist()
    assert 0 <= more < STEP_FRAMES and (frames + more) % STEP_FRAMES == 0
    long = frames + more
    assert audio.shape == (1, 3 * long)
    one, two = audio[0, :long], audio[0, long:]
    assert np.array_equal(one[:frames], plain[0, :frames]) and np.array_equal(two[: 2 * frames], plain[0, frames:])
    assert np.all(one[frames:] == one[frames - 1]) and np.all(two[2 * frames :] == two[2 * frames - 1])


def test_a_graph_with_another_border_stays_as_it_is() -> None:
    plain, stepped = two_halves("/elsewhere"), in_steps(two_halves("/elsewhere"))
    assert stepped.SerializeToString(deterministic=True) == plain.SerializeToString(deterministic=True)
    assert ADDED not in [output.name for output in stepped.graph.output]
