# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes over the wire, in and out: the shapes that OpenAPI documents and pydantic checks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.call.safety_mode import SafetyWish

Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$", max_length=35)]
AUTO = "auto"
LanguageWish = Language | Literal["auto"]
"""``auto``: it is found out from what the party says."""
Voice = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Mode = Literal["consecutive", "simultaneous"]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Hotwords = dict[Language, Annotated[list[Word], Field(max_length=1000)]]


class Shape(BaseModel):
    """What comes in: no field beyond the known ones."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class PartyOrder(Shape):
    """Somebody to be dialled."""

    to: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="A number of the dial plan, or a SIP URI that the settings or the role allow.",
        examples=["7001", "sip:ana@192.0.2.10"],
    )
    language: LanguageWish | None = Field(
        default=None,
        description="What this party speaks and hears. A dial plan number brings its own.",
        examples=["en"],
    )
    voice: Voice | None = Field(default=None, description="The voice in which this party hears the other.")


class CallOrder(Shape):
    """Two parties to be connected; the first one rings first."""

    a: PartyOrder
    b: PartyOrder
    mode: Mode | None = None
    hotwords: Hotwords | None = None


class PartyChange(Shape):
    """What changes for one party from the next utterance on."""

    language: LanguageWish | None = None
    voice: Voice | None = None
    mode: Mode | None = Field(default=None, description="How what this party says is interpreted.")
    original: bool | None = Field(default=None, description="Hear the other's own voice under the translation.")
    tempo: Annotated[float, Field(ge=0.6, le=1.6)] | None = Field(
        default=None, description="How fast this party is spoken to; 1 is the voice's own speed."
    )

    @property
    def pinned(self) -> str | None:
        """The language that is named; None when it is to stay, or to be found out."""
        return None if self.language == AUTO else self.language


class CallChange(Shape):
    """What changes in a live call from the next utterance on; what is left out stays."""

    mode: Mode | None = Field(default=None, description="Both directions at once.")
    a: PartyChange | None = None
    b: PartyChange | None = None
    paused: bool | None = Field(default=None, description="true: interpret nothing until it is false again.")
    hotwords: Hotwords | None = Field(default=None, description="Replaces the call's own hotwords.")
    safety_words: SafetyWish | None = Field(
        default=None, description="Translate safety words alone: on, off, or auto, where the noise decides."
    )


class TransferOrder(Shape):
    """A party is to talk to somebody else; the other one leaves the call when that one answers."""

    party: Literal["a", "b"] = Field(description="Who is transferred: the one who stays to talk.")
    to: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="Whom to: a number of the dial plan, or a SIP URI that the settings or the role allow.",
        examples=["7002", "sip:201@192.0.2.10"],
    )
    language: LanguageWish | None = Field(
        default=None,
        description="What they speak. By default the dial plan's, else what the one who leaves has spoken.",
    )
    interpreted: bool = Field(
        default=True,
        description="false: the party's own PBX makes the call, and the gateway leaves with the interpreter (REFER).",
    )


class PartyView(BaseModel):
    """One party of a call."""

    language: str
    safety_words: bool = Field(
        default=False, description="Only safety words of this party are translated: it is too noisy, or was asked for."
    )
    codec: str = Field(description="Empty until sound flows.")
    snr_db: float | None = Field(
        default=None, description="How far this party's speech stands out of the noise around it; null until known."
    )


class CallView(BaseModel):
    """A call. Numbers and words of the parties are not part of it."""

    id: str
    gateway: str = Field(description="The instance that holds it; empty when it is over.")
    state: Literal["live", "ended", "lost"] = Field(description="lost: the gateway that held it no longer lives.")
    phase: str
    route: str
    mode: str
    paused: bool = Field(description="Nothing is interpreted now: by request, or because a party is on hold.")
    a: PartyView
    b: PartyView
    started_at: float = Field(description="Seconds since 1970.")
    duration_s: float
    bridged_s: float
    result: str | None
    reason: str | None
    utterances: dict[str, int]


class CallDetail(CallView):
    """A call with the counters of its stages."""

    statistics: dict[str, Any]


class CallList(BaseModel):
    """Calls, by id; those that are over come latest first."""

    calls: list[CallView]


class TranscriptLine(BaseModel):
    """One segment; times in ms from the beginning of the call, null for never."""

    segment_id: str
    party: str
    source_language: str
    target_language: str
    source_text: str
    target_text: str
    said_ms: int | None
    said_end_ms: int | None
    heard_ms: int | None
    confidence: float
    lost: str | None = Field(description="Why nobody heard a translation, if so.")
    cut_ms: int | None = Field(default=None, description="So much was heard of it when its listener interrupted.")


class Transcript(BaseModel):
    """What was said in a call, in both languages."""

    call: str
    over: bool
    lines: list[TranscriptLine]


class DictionaryView(BaseModel):
    """A dictionary in force. ``version`` counts its changes; 0: there never was one."""

    model_config = ConfigDict(extra="allow")

    scope: str
    version: int
    dictionary: dict[str, Any]


class HotwordsView(BaseModel):
    """The hotwords of a dictionary."""

    scope: str
    version: int
    hotwords: dict[str, list[str]]


class FallbackView(BaseModel):
    """What is makeshift in one direction: expect more mistakes there."""

    via: list[str] = Field(description="Languages that the text passes through, for want of a model for the pair.")
    voice_of: str | None = Field(description="The language in whose voice it is spoken, for want of its own.")


class LanguageView(BaseModel):
    """A language that the gateway speaks."""

    language: str
    voices: list[str]
    to: list[str] = Field(description="Languages whose speakers can be interpreted to and from this one.")
    fallback: dict[str, FallbackView] = Field(description="Of those, into which only by a makeshift, and which.")


class LanguageList(BaseModel):
    """What the gateway can interpret."""

    languages: list[LanguageView]
    modes: list[str]


class PeerAddressView(BaseModel):
    """What an address says to OPTIONS."""

    address: str
    health: Literal["unknown", "up", "down"]
    code: int = Field(description="Its last word; 408 when it said nothing, 0 before the first question.")
    round_trip_ms: float


class PeerView(BaseModel):
    """A trunk or a registration."""

    name: str
    registered: bool | None = Field(description="Whether the PBX sends calls here; null for a trunk.")
    registrar: str | None = Field(description="Where; null for a trunk.")
    addresses: list[PeerAddressView] = Field(description="Best first; empty when nothing is asked.")


class PeerList(BaseModel):
    """The peers of this gateway, by name."""

    peers: list[PeerView]


class ModelView(BaseModel):
    """A model of the manifest."""

    id: str
    kind: str
    languages: list[str]
    licence: str
    size_bytes: int
    state: str
    in_use: bool


class ModelList(BaseModel):
    """All known models."""

    models: list[ModelView]


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(BaseModel):
    """Calls are taken. ``state_store`` away: they are taken all the same."""

    ready: bool
    state_store: Literal["connected", "away"]


class ProblemView(BaseModel):
    """A refusal (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None
