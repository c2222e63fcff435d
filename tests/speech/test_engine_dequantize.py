# SPDX-License-Identifier: GPL-3.0-or-later
"""A quantised graph gets its float weights back, and then says what the float graph said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from gateway.speech.engines.dequantize import dequantized

pytestmark = pytest.mark.unit


def float_model(path: Path) -> Path:
    """Two convolutions, the first with a bias, and a product."""
    random = np.random.default_rng(7)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(0.0, 0.3, shape).astype(np.float32), name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["y1"], name="wide", pads=[1, 1], kernel_shape=[3]),
            helper.make_node("Relu", ["y1"], ["z1"]),
            helper.make_node("Conv", ["z1", "w2"], ["y2"], name="narrow", kernel_shape=[1]),
            helper.make_node("MatMul", ["y2", "w3"], ["y"], name="product"),
        ],
        "sound",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 5])],
        [constant("w1", 6, 4, 3), constant("b1", 6), constant("w2", 3, 6, 1), constant("w3", 16, 5)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def run(model: bytes, x: np.ndarray) -> np.ndarray:
    return np.asarray(onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0])


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_float_graph_is_back(tmp_path: Path, weights: QuantType, per_channel: bool) -> None:
    original, small = float_model(tmp_path / "float.onnx"), tmp_path / "int8.onnx"
    quantize_dynamic(original, small, weight_type=weights, per_channel=per_channel)
    x = np.random.default_rng(8).normal(0.0, 1.0, (1, 4, 16)).astype(np.float32)
    wanted, rounded = run(original.read_bytes(), x), run(small.read_bytes(), x)

    restored = dequantized(onnx.load(small))
    onnx.checker.check_model(restored)
    heard = run(restored.SerializeToString(), x)

    kinds = [node.op_type for node in restored.graph.node]
    assert not {"ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"} & set(kinds), kinds
    scale = float(np.abs(wanted).max())
    assert np.abs(heard - wanted).max() < 0.02 * scale  # only the weights' own rounding is left
    assert np.abs(heard - wanted).max() < np.abs(rounded - wanted).max()  # the inputs' rounding is gone


def test_a_graph_without_integers_stays_as_it_is(tmp_path: Path) -> None:
    original = onnx.load(float_model(tmp_path / "float.onnx"))
    before = original.SerializeToString(deterministic=True)
    assert dequantized(original).SerializeToString(deterministic=True) == before


def test_an_integer_bias_becomes_the_float_one_again() -> None:
    """Some tools add the bias before scaling: as integers, divided by the scale while the graph runs."""
    random = np.random.default_rng(9)
    weights = random.integers(-90, 90, (6, 4, 1)).astype(np.int8)
    scale, bias = np.float32(0.01), random.normal(0.0, 1.0, 6).astype(np.float32)
    constants = [
        numpy_helper.from_array(weights, "w"),
        numpy_helper.from_array(np.int8(0), "w_zero"),
        numpy_helper.from_array(scale, "w_scale"),
        numpy_helper.from_array(bias, "bias"),
        numpy_helper.from_array(np.array([1, 6, 1]), "shape"),
    ]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "x_scale", "x_zero"]),
        helper.make_node("ConvInteger", ["xq", "w", "x_zero", "w_zero"], ["whole"], name="conv"),
        helper.make_node("Mul", ["x_scale", "w_scale"], ["scale"]),
        helper.make_node("Div", ["bias", "scale"], ["bias_scaled"]),
        helper.make_node("Floor", ["bias_scaled"], ["bias_floor"]),
        helper.make_node("Cast", ["bias_floor"], ["bias_whole"], to=TensorProto.INT32),
        helper.make_node("Reshape", ["bias_whole", "shape"], ["bias_shaped"]),
        helper.make_node("Add", ["whole", "bias_shaped"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["sum_float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["sum_float", "scale"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "biased",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 9])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = random.normal(0.0, 1.0, (1, 4, 9)).astype(np.float32)
    wanted = np.einsum("oi,bit->bot", weights[:, :, 0] * scale, x) + bias[None, :, None]

    restored = dequantized(model)
    assert [node.op_type for node in restored.graph.node] == ["Conv"]
    assert np.allclose(run(restored.SerializeToString(), x), wanted, atol=1e-4)


def test_integers_that_somebody_else_reads_stay(tmp_path: Path) -> None:
    small = tmp_path / "int8.onnx"
    quantize_dynamic(float_model(tmp_path / "float.onnx"), small, weight_type=QuantType.QInt8)
    model = onnx.load(small)
    first = next(node for node in model.graph.node if node.op_type == "ConvInteger")
    model.graph.node.append(helper.make_node("Identity", [first.output[0]], ["also"], name="reader"))
    model.graph.output.append(helper.make_tensor_value_info("also", TensorProto.INT32, None))
    kinds = [node.op_type for node in dequantized(model).graph.node]
    assert kinds.count("ConvInteger") == 1 and kinds.count("Conv") == 1


@pytest.mark.model
def test_every_layer_of_kokoro_is_known(model_dir: Callable[[str], Path]) -> None:
    model = dequantized(onnx.load(model_dir("kokoro-82m-int8") / "model.onnx"))
    assert not [node.name for node in model.graph.node if node.op_type in ("ConvInteger", "MatMulInteger")]


def test_the_runtime_reports_to_nobody() -> None:
    code = "import gateway.speech.engines.openvino_session, sys; print(sys.modules['openvino_telemetry'])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "None"
