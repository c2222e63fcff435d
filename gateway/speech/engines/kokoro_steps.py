# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds the length of what Kokoro speaks up to whole steps, so that few different lengths occur.

A runtime makes its kernels anew for every length it has not seen, and no two sentences have the same. The model decides
on the length itself: its encoder gives every frame of the sentence its sound, pitch and energy, and its decoder, which
costs nearly all the time, makes samples of them. So the graph is changed between the two: the last frame, which is
silence, is repeated up to a whole step. How many frames that added is a second output, and is cut off again.

Measured over 76 sentences and pieces on OpenVINO, with 200 kernels kept: 8 % less time, waveforms that correlate by
0.97, as loud within 0.5 dB, as long within 20 ms. With 1,000 kept, which costs each worker 350 MB, it is 15 %.

Lengthening the last phoneme's duration instead, where the encoder sums durations up, drawls the last syllable by up to
0.15 s: its predictor of pitch and energy sees the longer sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

STEP_FRAMES = 16
FRAME_SAMPLES = 600
ADDED = "added_frames"
"""The output that says how many frames were added."""
_SOUND = "/encoder/MatMul_1_output_0"  # shape (1, channels, frames)
_CURVES = ("/encoder/Reshape_output_0", "/encoder/Reshape_1_output_0")  # pitch, energy: shape (1, 2 * frames)


def in_steps(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with a decoder that is given whole steps; as it is, when it lacks the known border between the two.

    Changes ``model`` and returns it.
    """
    from onnx import TensorProto, helper, numpy_helper  # noqa: PLC0415  # needed once for each model

    graph = model.graph
    made = {name for node in graph.node for name in node.output}
    if not {_SOUND, *_CURVES} <= made:
        return model
    for name, value in (
        ("step", np.array([STEP_FRAMES], np.int64)),
        ("two", np.array([2], np.int64)),
        ("frames_axis", np.array([2], np.int64)),
        ("before_sound", np.zeros(5, np.int64)),
        ("before_curve", np.zeros(3, np.int64)),
    ):
        graph.initializer.append(numpy_helper.from_array(value, f"steps/{name}"))

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs, [output], name=f"{output}_node", **attributes)

    counted = [
        node("Shape", [_SOUND], "steps/shape"),
        node("Gather", ["steps/shape", "steps/frames_axis"], "steps/frames"),
        node("Neg", ["steps/frames"], "steps/negative"),
        node("Mod", ["steps/negative", "steps/step"], ADDED),  # has the sign of the step
        node("Mul", [ADDED, "steps/two"], "steps/added_twice"),
        node("Concat", ["steps/before_sound", ADDED], "steps/sound_pads", axis=0),
        node("Concat", ["steps/before_curve", "steps/added_twice"], "steps/curve_pads", axis=0),
    ]
    longer = {name: f"{name}_in_steps" for name in (_SOUND, *_CURVES)}
    for name, wider in longer.items():
        pads = "steps/sound_pads" if name == _SOUND else "steps/curve_pads"
        counted.append(node("Pad", [name, pads], wider, mode="edge"))
    for one in graph.node:
        if one.name.startswith("/decoder"):
            one.input[:] = [longer.get(name, name) for name in one.input]
    last = max(at for at, one in enumerate(graph.node) if any(name in longer for name in one.output))
    for place, one in enumerate(counted, last + 1):
        graph.node.insert(place, one)
    graph.output.append(helper.make_tensor_value_info(ADDED, TensorProto.INT64, [1]))
    return model
