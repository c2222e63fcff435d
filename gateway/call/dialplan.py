# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is called, in which languages, when a number is dialled.

A dial plan is a list of routes; the longest match wins, an exact number before a prefix. A trusted trunk may name
the language pair itself with ``X-Translate: en-pt``. A route with a menu asks the caller for both (`menu_plan`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gateway.call.menu_plan import DESTINATION, LANGUAGE, DialRule, MenuPlan, parse_menu

_SIMPLE_URI = re.compile(
    r"sips?:(?P<user>[^\s@<>\"?;:]+)@(?P<host>[A-Za-z0-9.-]+)(:(?P<port>\d{1,5}))?"
    r"(;transport=(udp|tcp|tls)|;user=(phone|ip))*\Z",
    re.IGNORECASE,
)
_ANY = "~any~"  # stands in a destination for what was dialled; no number can hold a tilde
_DIALLED = re.compile(r"^[0-9A-Za-z+*#._-]{1,64}$")
_KEYS = {"number", "prefix", "from", "to", "destination", "mode", "voices", "register", "name", "menu", "languages"}
_FIXED = ("from", "to", "destination")
MODES = ("consecutive", "simultaneous")
AUTO = "auto"
"""In place of a language: it is found out from what the party says."""


class DialPlanError(ValueError):
    """A dial plan file that cannot be used; the text names the file, the route and the remedy."""


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the plan. ``rest`` in the destination stands for what was dialled behind the prefix."""

    name: str
    source: str
    """Language of the caller, ISO 639-1."""
    target: str
    """Language of the called party."""
    destination: str
    mode: str = "consecutive"
    number: str | None = None
    prefix: str | None = None
    voices: Mapping[str, str] | None = None
    """Voice by language, over the settings' choice."""
    register: str = ""
    """The tone asked of the translators, such as ``formal``."""
    languages: tuple[str, ...] = ()
    """What a party whose language is `AUTO` may speak, the first assumed until then; empty: whatever can be served."""
    menu: MenuPlan | None = None
    """The caller is asked; until then the languages are the first two of the menu, and there is no destination."""

    def pairs(self) -> set[tuple[str, str]]:
        """(caller's language, called party's language) that a call by this route may need."""
        return self.menu.pairs() if self.menu is not None else {(self.source, self.target)}


@dataclass(frozen=True, slots=True)
class Match:
    """What a dialled number leads to."""

    route: Route
    destination: str
    first: str | None = None
    """URI of the first party, when the gateway dials both (click-to-call); None: the first party dialled us."""
    trunk: str = ""
    """The trunk that the call came in by, if it did: its terms hold."""
    candidates: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """What the first and the second party may speak, where that is to be found out (`auto`)."""


class DialPlan:
    """An immutable set of routes."""

    def __init__(self, routes: tuple[Route, ...]) -> None:
        self.routes = routes
        self._exact = {route.number: route for route in routes if route.number is not None}
        self._prefixes = sorted(
            (route for route in routes if route.prefix is not None), key=lambda r: len(r.prefix or ""), reverse=True
        )

    def match(self, dialled: str, headers: Mapping[str, str] | None = None, *, trusted: bool = False) -> Match | None:
        """The route for a dialled number, or None. LookupError: the X-Translate header is not a language pair."""
        if not _DIALLED.match(dialled):
            return None
        route = self._exact.get(dialled)
        rest = ""
        if route is None:
            route = next((r for r in self._prefixes if dialled.startswith(r.prefix or "")), None)
            if route is None:
                return None
            rest = dialled[len(route.prefix or "") :]
            if "{rest}" in route.destination and not rest:
                return None
        wish = (headers or {}).get("x-translate", "").strip().lower()
        if wish and trusted and route.menu is None:
            source, _, target = wish.partition("-")
            if not (_is_language(source) and _is_language(target)):
                raise LookupError(f"X-Translate: {wish[:20]!r} is not a language pair such as en-pt")
            route = replace(route, source=source, target=target)
        return Match(route, route.destination.replace("{rest}", rest).replace("{number}", dialled))

    def leads_to(self, uri: str, language: str) -> bool:
        """Whether some route, or a rule of a menu, calls this address, and for a party that speaks this language.

        The address has to be one that the route's destination can become, to the port; of parameters only ``transport``
        and ``user`` are taken, because others send the call elsewhere (RFC 3261 section 19.1.1: maddr, headers).
        """
        address = _Address.of(uri)
        if address is None:
            return False
        for route in self.routes:
            if route.menu is None:
                if route.target in (language, AUTO) and _reaches(route, address):
                    return True
            elif any(
                language in ((rule.target,) if rule.target else route.menu.languages) and _reaches(rule, address)
                for rule in route.menu.rules
            ):
                return True
        return False


@dataclass(frozen=True, slots=True)
class _Address:
    user: str
    host: str

    @classmethod
    def of(cls, uri: str) -> _Address | None:
        found = _SIMPLE_URI.match(uri)
        return cls(found["user"], f"{found['host'].lower()}:{found['port'] or 5060}") if found else None


def _reaches(route: Route | DialRule, address: _Address) -> bool:
    template = _Address.of(route.destination.replace("{rest}", _ANY).replace("{number}", _ANY))
    if template is None or template.host != address.host:
        return False
    if route.number is not None:
        return template.user.replace(_ANY, route.number) == address.user
    before, blank, after = template.user.partition(_ANY)
    if not blank:
        return template.user == address.user
    if not (address.user.startswith(before) and address.user.endswith(after)):
        return False
    filled = address.user[len(before) : len(address.user) - len(after)]
    whole = "{number}" in route.destination
    allowed = _DIALLED.match(filled) if isinstance(route, Route) else filled.isascii() and filled.isdigit()
    return bool(allowed) and (not whole or filled.startswith(route.prefix or ""))


def load_dialplan(path: Path, default_mode: str = "consecutive") -> DialPlan:
    """Read a dial plan from YAML; routes without a mode take the default. DialPlanError names every fault at once."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DialPlanError(f"{path}: no such dial plan; set dialplan.file, or copy dialplans/default.yaml") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DialPlanError(f"{path}: cannot be read as YAML: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("routes"), list):
        raise DialPlanError(f"{path}: must be a mapping with a list 'routes'")
    faults: list[str] = []
    unknown = set(document) - {"routes"}
    faults += [f"unknown key {key!r}{_did_you_mean(str(key), {'routes'})}" for key in unknown]
    routes = [
        route for n, entry in enumerate(document["routes"], 1) if (route := _route(n, entry, default_mode, faults))
    ]
    seen: set[tuple[str, str]] = set()
    for route in routes:
        key = ("number", route.number) if route.number is not None else ("prefix", route.prefix or "")
        if key in seen:
            faults.append(f"{key[0]} {key[1]!r} appears twice")
        seen.add(key)
    if faults:
        raise DialPlanError("\n".join(f"{path}: {fault}" for fault in faults))
    return DialPlan(tuple(routes))


def _route(n: int, entry: Any, default_mode: str, faults: list[str]) -> Route | None:
    where = f"route {n}"
    if not isinstance(entry, dict):
        faults.append(f"{where}: must be a mapping")
        return None
    before = len(faults)
    faults += [f"{where}: unknown key {key!r}{_did_you_mean(str(key), _KEYS)}" for key in set(entry) - _KEYS]
    if ("number" in entry) == ("prefix" in entry):
        faults.append(f"{where}: needs either 'number' or 'prefix'")
    for key in ("number", "prefix"):
        if key in entry and not (isinstance(entry[key], str) and _DIALLED.match(entry[key])):
            faults.append(f'{where}: {key} must be a quoted string of digits or letters, such as "7001"')
    menu = parse_menu(entry["menu"], f"{where}, menu", faults) if "menu" in entry else None
    if "menu" in entry:
        faults += [f"{where}: the menu asks for it: leave out {key!r}" for key in _FIXED if key in entry]
    else:
        _check_fixed(entry, where, faults)
    mode = entry.get("mode", default_mode)
    if mode not in MODES:
        faults.append(f"{where}: mode {mode!r} is not one of {', '.join(MODES)}")
    voices = entry.get("voices")
    if voices is not None and not (
        isinstance(voices, dict) and all(isinstance(k, str) and isinstance(v, str) for k, v in voices.items())
    ):
        faults.append(f"{where}: voices must map a language to a voice")
    register = entry.get("register", "")
    if not isinstance(register, str):
        faults.append(f"{where}: register must be a word such as formal")
    languages = entry.get("languages", [])
    if not isinstance(languages, list) or not all(isinstance(one, str) and LANGUAGE.match(one) for one in languages):
        faults.append(f"{where}: languages must be a list of codes such as [en, pt]")
    elif languages and AUTO not in (entry.get("from"), entry.get("to")):
        faults.append(f"{where}: languages is what an auto party may speak: write from: auto, or to: auto")
    if len(faults) > before:
        return None
    return Route(
        name=str(entry.get("name", entry.get("number", entry.get("prefix")))),
        source=menu.languages[0] if menu else entry["from"],
        target=menu.languages[1] if menu else entry["to"],
        destination="" if menu else entry["destination"],
        mode=mode,
        number=entry.get("number"),
        prefix=entry.get("prefix"),
        voices=voices,
        register=register,
        languages=tuple(languages),
        menu=menu,
    )


def _check_fixed(entry: Mapping[str, Any], where: str, faults: list[str]) -> None:
    """The languages and the destination of a route without a menu."""
    for key in ("from", "to"):
        if not (isinstance(entry.get(key), str) and _is_language(entry[key])):
            faults.append(
                f"{where}: {key} must be a language code such as en, or auto (quote it if YAML reads it as a bool)"
            )
    destination = entry.get("destination")
    sample = str(destination).replace("{rest}", "0").replace("{number}", "0")
    if not isinstance(destination, str) or not DESTINATION.match(sample):
        faults.append(f"{where}: destination must be a SIP URI such as sip:{{rest}}@192.0.2.10:5060")


def _is_language(text: str) -> bool:
    return text == AUTO or LANGUAGE.match(text) is not None


def _did_you_mean(key: str, known: set[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
