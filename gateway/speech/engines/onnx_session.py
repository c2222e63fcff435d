# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens ONNX models so that several engines can share a small machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime


def open_session(model: Path, threads: int) -> Any:
    """An `onnxruntime.InferenceSession` on the CPU with ``threads`` workers that sleep when they have nothing to do.

    By default the workers spin for a while after each run, which takes the cores from the recogniser; and the memory
    of the longest sentence is kept for the next one, 100 MB a voice, which buys Piper nothing.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False  # shapes differ with each sentence: patterns would only pile up
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model), sess_options=options, providers=["CPUExecutionProvider"])
