# SPDX-License-Identifier: GPL-3.0-or-later
"""The binding's own shared object, for the few functions of PJSIP that pjsua2 does not wrap.

Builds may hide their symbols; whoever asks here has to do without them then. All of it belongs to the owner thread.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import pjsua2 as pj


@functools.cache
def library() -> ctypes.CDLL | None:
    """The shared object that is already loaded in this process; None when it cannot be opened."""
    pj.Endpoint  # noqa: B018 - loads the binding
    module = next((m for name, m in sys.modules.items() if name.endswith("_pjsua2")), None)
    path = getattr(module, "__file__", None)
    try:
        return ctypes.CDLL(path) if path else None
    except OSError:
        return None


def answer_in_dialog(received: Any, code: int) -> bool:
    """Answer a request inside a dialog (an INFO) that the library would refuse with 500; False where that cannot be.

    Only from the callback of the request's transaction in state TRYING, with its ``pjRxData``: the library looks at
    the transaction afterwards, and leaves one alone that has its answer (pjsip_dialog.c, pjsip_dlg_on_rx_request).
    """
    native = library()
    if native is None or not hasattr(native, "pjsip_rdata_get_dlg") or not hasattr(native, "pjsip_dlg_respond"):
        return False
    find, respond = native.pjsip_rdata_get_dlg, native.pjsip_dlg_respond
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    respond.restype = ctypes.c_int
    respond.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 3]
    dialog = find(int(received))
    return bool(dialog) and respond(dialog, int(received), code, None, None, None) == 0


def answer_options(code: int) -> bool:
    """Answer OPTIONS with a refusal from now on, or with 0 as the library does; False where the build cannot.

    Only the gateway's own build can (scripts/pjsua2/options-code.patch): the library takes OPTIONS before anybody else.
    """
    native = library()
    if native is None or not hasattr(native, "pjsua_options_code"):
        return False
    ctypes.c_int.in_dll(native, "pjsua_options_code").value = code
    return True
