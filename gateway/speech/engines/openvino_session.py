# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens ONNX models on OpenVINO, whose wide float convolutions are faster than ONNX Runtime's on a processor.

A dynamically quantised model is given its float weights back first (`dequantize`), which takes some seconds. The
result is kept beside the user's models and found again by the model's name, size and date; it can be deleted at any
time. What OpenVINO is slow at is said in other operations (`openvino_graph`). Where the processor multiplies bfloat16,
OpenVINO does so by itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.speech.store import cache_dir

# OpenVINO's conversion tools can report their use to their makers. Nothing here calls them, and without the reporter
# they use an empty one: this program tells nobody anything.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # how Python marks what may not be imported

import openvino  # noqa: E402

from gateway.speech.engines.openvino_graph import quickened  # noqa: E402

if TYPE_CHECKING:
    import onnx

# Kernels are made for each new length of sentence. Measured: with thousands kept, 60 sentences left 1 GB behind and
# were no faster; with none, memory stays flat, and a short piece takes a tenth longer; 200 cost 280 MB in all.
_KERNELS_KEPT = "200"


class OpenVinoSession:
    """One model with ``threads`` threads, used by one caller at a time.

    ``change`` changes its graph once, before it is kept; ``changed`` names that change, for what is kept.
    """

    def __init__(
        self,
        model: Path,
        threads: int,
        change: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda graph: graph,
        changed: str = "",
    ) -> None:
        core = openvino.Core()
        graph = core.read_model(_float_model(model, change, changed))
        quickened(graph)  # here, because what is kept has constants of half the bytes
        compiled = core.compile_model(
            graph,
            "CPU",
            {
                "INFERENCE_NUM_THREADS": threads,
                "PERFORMANCE_HINT": "LATENCY",
                "CPU_RUNTIME_CACHE_CAPACITY": _KERNELS_KEPT,
                "ENABLE_CPU_PINNING": False,  # workers share the cores
            },
        )
        self._request = compiled.create_infer_request()

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The model's outputs for these arrays by name, in their order, as arrays of their own."""
        made = self._request.infer(dict(inputs))
        return {output.get_any_name(): np.array(array) for output, array in made.items()}


def _float_model(model: Path, change: Callable[[onnx.ModelProto], onnx.ModelProto], changed: str) -> Path:
    """The model with float weights in OpenVINO's format, made when it is not there yet."""
    facts = model.stat()
    told = f"{model.resolve()}|{facts.st_size}|{facts.st_mtime_ns}|{changed}"
    name = hashlib.sha256(told.encode()).hexdigest()[:16]
    folder = cache_dir() / "float"
    ready = folder / f"{model.stem}-{name}.xml"
    if ready.is_file() and ready.with_suffix(".bin").is_file():
        return ready
    import onnx  # noqa: PLC0415  # needed once for each model

    from gateway.speech.engines.dequantize import dequantized  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    graph = openvino.Core().read_model(change(dequantized(onnx.load(model))).SerializeToString())
    # several workers may do this at once: each writes its own, the weights are put in place first
    own = folder / f"{ready.stem}-{os.getpid()}.xml"
    openvino.save_model(graph, own, compress_to_fp16=True)
    own.with_suffix(".bin").replace(ready.with_suffix(".bin"))
    return own.replace(ready)
