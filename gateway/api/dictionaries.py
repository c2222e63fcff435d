# SPDX-License-Identifier: GPL-3.0-or-later
"""Changing dictionaries while calls run (SPEC S1.19): checked before they are stored, in force from the next utterance.

The gateway's dictionary holds for all calls, a call's own stands before it and ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from gateway.api.problems import INVALID, Problem
from gateway.call.glossary import Snapshot
from gateway.call.glossary_document import GlossaryError, read_document


class TermStore(Protocol):
    """The part of the state store that this needs."""

    async def get_terms(self, scope: str) -> Snapshot:
        """The snapshot in force."""

    async def set_terms(self, scope: str, data: Mapping[str, Any]) -> Snapshot:
        """Replace it for everybody."""


class Dictionaries:
    """Reads and writes whole documents; changes of one gateway do not overtake each other."""

    def __init__(self, store: TermStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()

    async def read(self, scope: str) -> dict[str, Any]:
        """``{"version", "dictionary"}``."""
        return _told(await self._store.get_terms(scope))

    async def replace(self, scope: str, document: dict[str, Any]) -> dict[str, Any]:
        """Put another document in its place. Problem when it cannot be used."""
        async with self._lock:
            return await self._write(scope, document)

    async def merge(self, scope: str, change: dict[str, Any]) -> dict[str, Any]:
        """Add what is new; replace what says something about the same word."""
        async with self._lock:
            present = (await self._store.get_terms(scope)).data
            return await self._write(scope, merged(present, change))

    async def set_hotwords(self, scope: str, hotwords: dict[str, list[str]]) -> dict[str, Any]:
        """Replace the hotwords and leave the rest."""
        async with self._lock:
            present = (await self._store.get_terms(scope)).data
            return await self._write(scope, {**present, "hotwords": hotwords})

    async def _write(self, scope: str, document: dict[str, Any]) -> dict[str, Any]:
        try:
            await asyncio.to_thread(read_document, document)  # 2,000 terms take 15 ms, which the calls' loop has not
        except GlossaryError as error:
            faults = [{"where": "body", "message": line[:200]} for line in str(error).splitlines()]
            raise Problem(INVALID, "the dictionary cannot be used", {"errors": faults}) from None
        try:
            return _told(await self._store.set_terms(scope, document))
        except ValueError as error:
            raise Problem(INVALID, str(error)) from None


def merged(present: Any, change: Any) -> Any:
    """Objects are joined key by key, lists get what they lack, anything else is replaced."""
    if isinstance(present, dict) and isinstance(change, dict):
        return present | {key: merged(present.get(key), value) for key, value in change.items()}
    if isinstance(present, list) and isinstance(change, list):
        keys = {_key(item) for item in change}
        return [item for item in present if _key(item) not in keys] + change
    return change


def _key(item: Any) -> str:
    """What an entry of a list is about: its languages and its first form, idiom or written word."""
    if not isinstance(item, dict):
        return repr(item)
    forms = item.get("forms") or item.get("written") or item.get("say")
    first = next(iter(forms)) if isinstance(forms, list | dict) else forms
    return repr((item.get("from") or item.get("language"), item.get("to"), first))


def plain_terms(words: Mapping[str, str], source: str, target: str) -> dict[str, Any]:
    """A plain ``{"myocardial_infarction": "…"}`` as a dictionary: an underscore stands for a space as well."""
    terms = [
        {"from": source, "to": target, "forms": list(dict.fromkeys((word.replace("_", " "), word))), "target": meaning}
        for word, meaning in words.items()
    ]
    return {"terms": terms}


def _told(snapshot: Snapshot) -> dict[str, Any]:
    return {"version": snapshot.version, "dictionary": snapshot.data}
