# SPDX-License-Identifier: GPL-3.0-or-later
"""Language tags (BCP 47): all that this program knows of a language is kept by its base code."""

from __future__ import annotations

import re
from functools import cache


@cache
def base_language(code: str) -> str:
    """``pt`` for ``pt-BR``, ``pt_BR`` or ``PT``."""
    return re.split(r"[-_]", code.strip().lower(), maxsplit=1)[0]
