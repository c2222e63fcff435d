# SPDX-License-Identifier: GPL-3.0-or-later
"""Gives a dynamically quantised ONNX graph its float weights back.

A graph that was quantised "dynamically" measures and rounds every layer's input while it runs, multiplies integers,
and scales the result::

    x ─ DynamicQuantizeLinear ─ ConvInteger ─ (Add bias) ─ Cast ─ Mul(scale of x · scale of w) ─ y

That makes the file small; it does not make wide convolutions fast: few runtimes have good integer kernels for them.
Here each such chain becomes ``y = Conv(x, w · scale of w, bias)``, which fast float (and bfloat16) kernels can run, and
which is nearer to the model as it was trained, because its inputs are no longer rounded to 8 bits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

_FLOAT_OF = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}


def dequantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with float convolutions and products; what does not follow the pattern above stays as it is.

    Changes ``model`` and returns it.
    """
    graph = _Graph(model.graph)
    for node in list(model.graph.node):
        if node.op_type in _FLOAT_OF:
            graph.restore(node)
    graph.sweep()
    return model


class _Graph:
    """A graph with an index of who makes and who reads each value."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.constants = {one.name: one for one in graph.initializer}
        self.maker = {name: node for node in graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.readers[name].append(node)

    def restore(self, node: Any) -> None:
        """Replace the chain that begins with an integer product, if it is one that is known."""
        rounding = self.maker.get(node.input[0])
        if rounding is None or rounding.op_type != "DynamicQuantizeLinear" or node.input[1] not in self.constants:
            return
        chain = self._chain(node)
        if chain is None:
            return
        bias, last, scale = chain
        weights = self._float_weights(node, scale)
        inputs = [rounding.input[0], weights, *([bias] if bias else [])]
        float_node = helper.make_node(_FLOAT_OF[node.op_type], inputs, [last.output[0]], name=f"{node.name}_float")
        float_node.attribute.extend(node.attribute)
        last.CopyFrom(float_node)  # in the place of the chain's end, so that the order of the nodes stays valid

    def _chain(self, node: Any) -> tuple[str | None, Any, str] | None:
        """(bias, the final Mul, the constant scale of the weights) of an integer product."""
        after = self._only_reader(node)
        bias = None
        if after is not None and after.op_type == "Add":
            bias = self._constant_behind(_other(after, node.output[0]))
            if bias is None:
                return None
            after = self._only_reader(after)
        if after is None or after.op_type != "Cast":
            return None
        last = self._only_reader(after)
        if last is None or last.op_type != "Mul":
            return None
        scales = self.maker.get(_other(last, after.output[0]))
        if scales is None or scales.op_type != "Mul":
            return None
        constant = [name for name in scales.input if name in self.constants]
        return (bias, last, constant[0]) if len(constant) == 1 else None

    def _only_reader(self, node: Any) -> Any | None:
        readers = self.readers[node.output[0]]
        return readers[0] if len(readers) == 1 else None

    def _constant_behind(self, name: str) -> str | None:
        """The float bias, from which an integer one is computed at run time: divide, round, cast, reshape."""
        while name not in self.constants:
            maker = self.maker.get(name)
            if maker is None or maker.op_type not in ("Reshape", "Cast", "Floor", "Round", "Div"):
                return None
            name = maker.input[0]
        return name

    def _float_weights(self, node: Any, scale: str) -> str:
        name = f"{node.input[1]}_float"
        if name not in self.constants:
            whole = numpy_helper.to_array(self.constants[node.input[1]]).astype(np.float32)
            zero = self._array(node.input[3]) if len(node.input) > 3 and node.input[3] else np.zeros(1, np.float32)
            factor = self._array(scale)
            if node.op_type == "ConvInteger":  # one scale per output channel, which is the first axis
                shape = (-1, *[1] * (whole.ndim - 1))
                zero, factor = zero.reshape(shape), factor.reshape(shape)
            self.constants[name] = numpy_helper.from_array((whole - zero) * factor, name)
            self.graph.initializer.append(self.constants[name])
        return name

    def _array(self, name: str) -> Any:
        return numpy_helper.to_array(self.constants[name]).astype(np.float32).reshape(-1)

    def sweep(self) -> None:
        """Drop what nobody reads any more."""
        used = {one.name for one in self.graph.output}
        kept = []
        for node in reversed(self.graph.node):
            if any(name in used for name in node.output):
                used.update(node.input)
                kept.append(node)
        constants = [one for one in self.graph.initializer if one.name in used]
        del self.graph.node[:]
        del self.graph.initializer[:]
        self.graph.node.extend(reversed(kept))
        self.graph.initializer.extend(constants)


def _other(node: Any, name: str) -> str:
    """The input of a two-input node that is not ``name``."""
    first, second = (str(one) for one in node.input)
    return second if first == name else first
