# SPDX-License-Identifier: GPL-3.0-or-later
"""Every setting of the gateway, with its default and its limits.

This is the rim: pydantic checks what people write, the rooms get plain values. The prose for each key (unit,
reason for the default) is in ``config/gateway.yaml``; a test keeps the two equal. Languages are data here: the
keys of ``speech.voices`` and the names of the models say which ones a gateway speaks.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_core import PydanticCustomError


def _not_bool(value: object) -> object:
    """YAML's ``true`` is no number, though Python would take it for 1."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError("must be an IP address of this machine, or 0.0.0.0 for all of them") from None


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as fault:
        raise ValueError(f"must be an IP address or a network such as 192.0.2.0/24 ({fault})") from None


def _redis_url(value: str) -> str:
    if not re.match(r"(redis|rediss)://[^/]+|unix://.+", value):
        raise ValueError("must be redis://host:port/db, rediss://host:port/db or unix:///path/to/socket")
    return value


Int = Annotated[int, BeforeValidator(_not_bool)]
Seconds = Annotated[float, BeforeValidator(_not_bool)]
Decibels = Annotated[float, BeforeValidator(_not_bool)]
Port = Annotated[Int, Field(ge=1, le=65535)]
Address = Annotated[str, AfterValidator(_address)]
Network = Annotated[str, AfterValidator(_network)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]
Registrar = Annotated[str, Field(pattern=r"^sip:[A-Za-z0-9.-]+(:\d{1,5})?(;transport=(udp|tcp|tls))?$")]
"""``sip:host``, ``sip:host:port``, with ``;transport=tcp`` where the PBX wants that."""
PingPause = Annotated[Seconds, Field(ge=0, le=3600)]
"""Seconds between two OPTIONS to a peer; 0 asks none."""
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
"""An ISO 639 code, with region or script where that matters (``pt``, ``pt-BR``, ``yue``)."""
EngineModel = Annotated[str, Field(pattern=r"^[a-z0-9_]+:[^:\s]+$")]
"""``engine:model``, the model by its name in the manifest."""
EngineVoice = Annotated[str, Field(pattern=r"^[a-z0-9_]+:[^:\s]+(:[^:\s]+)?$")]
"""``engine:model`` or ``engine:model:voice``."""


def _rule(key: str, message: str) -> PydanticCustomError:
    """A fault between keys of one section; ``key`` is the one to point at."""
    return PydanticCustomError("rule", "{message}", {"key": key, "message": message})


class Section(BaseModel):
    """A group of settings: no key beyond the known ones, no change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Trunk(Section):
    """A peer that may send calls by its IP address (SPEC A4)."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    networks: Annotated[tuple[Network, ...], Field(min_length=1)]
    trusted: bool = False
    max_calls: Annotated[Int, Field(ge=1, le=4096)] | None = None
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.!~*'()+-]+$")] | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    addresses: tuple[Registrar, ...] = ()
    ping_s: PingPause = 60

    @model_validator(mode="after")
    def _password_has_a_user(self) -> Self:
        given = (self.password is not None) + (self.password_file is not None)
        if given != (self.user is not None):
            raise _rule("user", "user goes with one of password_file and password: give both, or neither")
        return self


class Registration(Section):
    """An extension of a PBX that the gateway registers as (SPEC A4)."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    registrars: Annotated[tuple[Registrar, ...], Field(min_length=1)]
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.!~*'()+-]+$")]
    password: SecretStr | None = None
    password_file: Path | None = None
    domain: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+$")] | None = None
    expires_s: Annotated[Int, Field(ge=10, le=86_400)] = 300
    trusted: bool = False
    ping_s: PingPause = 60

    @model_validator(mode="after")
    def _has_one_password(self) -> Self:
        if (self.password is None) == (self.password_file is None):
            raise _rule("password_file", "needs either password_file or password")
        return self


class Sip(Section):
    """The SIP user agent: where it listens, what it offers, whom it believes."""

    bind: Address = "127.0.0.1"
    port: Port = 5060
    public_address: str | None = None
    transports: Annotated[tuple[Literal["udp", "tcp", "tls"], ...], Field(min_length=1)] = ("udp", "tcp")
    rtp_port_min: Annotated[Int, Field(ge=1024, le=65534)] = 16384
    rtp_port_max: Annotated[Int, Field(ge=1025, le=65535)] = 16583
    rtp_networks: tuple[Network, ...] = ()
    codecs: Annotated[tuple[Literal["PCMU", "PCMA", "G722"], ...], Field(min_length=1)] = ("PCMU", "PCMA")
    media_rate_hz: Literal[8000, 16000] = 8000
    from_user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.!~*'()+-]+$")] = "interpreter"
    max_legs: Annotated[Int, Field(ge=1, le=4096)] | None = None
    allow_loopback: bool = True
    trunks: tuple[Trunk, ...] = ()
    registrations: tuple[Registration, ...] = ()
    calls_per_s: Annotated[Seconds, Field(gt=0, le=1000)] = 20
    calls_burst: Annotated[Int, Field(ge=1, le=10_000)] = 100
    tls_port: Port = 5061
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_verify: bool = False
    srtp: Literal["off", "optional", "mandatory"] = "off"
    log_level: Annotated[Int, Field(ge=0, le=6)] = 3

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if ("tls" in self.transports) and (self.tls_certificate is None or self.tls_key is None):
            raise _rule("transports", "tls needs sip.tls_certificate and sip.tls_key (PEM files)")
        if self.tls_verify and self.tls_ca is None:
            raise _rule("tls_verify", "needs tls_ca: the PEM file of those who may sign the peers' certificates")
        return self

    @model_validator(mode="after")
    def _ports_suffice(self) -> Self:
        if "G722" in self.codecs and self.media_rate_hz < 16_000:
            raise _rule("codecs", "G722 carries 16 kHz: set sip.media_rate_hz to 16000, or leave it out")
        pairs = (self.rtp_port_max - self.rtp_port_min + 1) // 2
        if self.rtp_port_min % 2:
            raise _rule("rtp_port_min", "must be even: RTP takes the even port, RTCP the next (RFC 3550 §11)")
        if pairs < (self.max_legs or 1):
            raise _rule("rtp_port_max", f"leaves {pairs} port pairs, fewer than the legs; each leg takes two ports")
        names = [trunk.name for trunk in self.trunks] + [each.name for each in self.registrations]
        if len(set(names)) < len(names):
            raise _rule("trunks", "every trunk and registration needs a name of its own")
        return self


class Dialplan(Section):
    """Which number leads to which languages and which destination."""

    file: Path = Path("dialplans/default.yaml")
    ring_timeout_s: Annotated[Seconds, Field(ge=1, le=600)] = 30


class Call(Section):
    """What holds for every call unless the dial plan or the API says otherwise."""

    mode: Literal["consecutive", "simultaneous"] = "consecutive"
    disclosure: bool = True
    prompts: Path | None = None
    prompt_dir: Path | None = None
    controls: Literal["both", "caller", "off"] = "both"
    pass_digits: bool = False
    waiting_cue_s: Annotated[Seconds, Field(ge=0, le=60)] = 2.5
    longest_s: Annotated[Seconds, Field(ge=10, le=86_400)] = 14_400
    silence_hangup_s: Annotated[Seconds, Field(ge=0, le=86_400)] = 0
    comfort_noise_dbfs: Annotated[Decibels, Field(ge=-80, le=-40)] | None = None


class Turns(Section):
    """Who speaks when: interruptions, nods, echoes, and legs whose language is found out (SPEC B3, B6, B7)."""

    barge_in_ms: Annotated[Int, Field(ge=0, le=10_000)] = 700
    barge_in_grace_s: Annotated[Seconds, Field(ge=0, le=30)] = 1.0
    stale_s: Annotated[Seconds, Field(ge=0, le=60)] = 2.0
    backchannels: bool = True
    echo_guard: bool = True
    echo_hits: Annotated[Int, Field(ge=0, le=100)] = 6
    echo_window_s: Annotated[Seconds, Field(ge=1, le=600)] = 30
    echo_pause_s: Annotated[Seconds, Field(ge=1, le=120)] = 10
    safety_below_db: Annotated[Decibels, Field(ge=0, le=30)] = 10.0
    safety_after_s: Annotated[Seconds, Field(ge=1, le=60)] = 5.0
    language_agree: Annotated[Int, Field(ge=1, le=10)] = 2
    language_cooldown_s: Annotated[Seconds, Field(ge=0, le=600)] = 15


class Endpoint(Section):
    """When speech begins and ends (SPEC S4)."""

    frame_ms: Literal[10, 20, 30] = 20
    vad_aggressiveness: Annotated[Int, Field(ge=0, le=3)] = 2
    start_frames: Annotated[Int, Field(ge=1, le=50)] = 3
    start_window: Annotated[Int, Field(ge=1, le=50)] = 5
    pre_roll_ms: Annotated[Int, Field(ge=0, le=2000)] = 300
    prepare_ms: Annotated[Int, Field(ge=0, le=5000)] = 100
    end_ms: Annotated[Int, Field(ge=60, le=5000)] = 400
    clause_end_ms: Annotated[Int, Field(ge=60, le=5000)] = 240
    keep_tail_ms: Annotated[Int, Field(ge=0, le=5000)] = 400
    longest_utterance_ms: Annotated[Int, Field(ge=2000, le=28_000)] = 20_000
    long_silence_ms: Annotated[Int, Field(ge=1000, le=600_000)] = 10_000

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.start_frames > self.start_window:
            raise _rule("start_frames", f"must not exceed start_window ({self.start_window})")
        for key, end_ms in (("end_ms", self.end_ms), ("clause_end_ms", self.clause_end_ms)):
            if self.prepare_ms >= end_ms:
                raise _rule("prepare_ms", f"must be shorter than {key} ({end_ms})")
        if self.long_silence_ms <= self.end_ms:
            raise _rule("long_silence_ms", f"must be longer than end_ms ({self.end_ms})")
        return self


class Speech(Section):
    """Which engines and models listen, translate and speak, and how much of the machine they take."""

    workers: Annotated[Int, Field(ge=1, le=256)] = 2
    threads_per_worker: Annotated[Int, Field(ge=0, le=256)] = 0
    recognizer: EngineModel = "whisper:whisper-base"
    translators: tuple[EngineModel, ...] = ("firefox:firefox-en-pt", "firefox:firefox-pt-en")
    voices: dict[Language, EngineVoice] = {
        "en": "piper:piper-en_US-joe-medium",
        "pt": "kokoro:kokoro-82m-int8:jm_kumo",
    }
    """``borrowed:LANGUAGE`` in place of a voice takes the one of another language."""
    previews: bool = True
    confidence_temperature: Annotated[Seconds, Field(gt=0, le=10)] = 0.42
    repeat_below: Annotated[Seconds, Field(ge=0, le=1)] = 0.2
    follow_talker: bool = True
    style: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] = "neutral"
    styles: Path | None = None
    vary: bool = False
    first_sound_ms: Annotated[Int, Field(ge=0, le=10_000)] = 200
    begin_ahead: bool = True
    queue_finals: Annotated[Int, Field(ge=1, le=65_536)] = 64
    queue_clauses: Annotated[Int, Field(ge=1, le=65_536)] = 64
    queue_prepares: Annotated[Int, Field(ge=1, le=65_536)] = 16
    queue_previews: Annotated[Int, Field(ge=1, le=65_536)] = 16
    task_deadline_s: Annotated[Seconds, Field(ge=1, le=600)] = 30

    @model_validator(mode="after")
    def _lenders_have_voices(self) -> Self:
        for language, line in self.voices.items():
            lender = line.removeprefix("borrowed:")
            if lender != line and self.voices.get(lender, "borrowed:").startswith("borrowed:"):
                raise _rule("voices", f"{language} borrows from {lender}, which has no voice of its own to lend")
        return self

    def voice_line(self, language: str) -> str:
        """``engine:model[:voice]`` that speaks a language, be it borrowed. KeyError for an unknown language."""
        line = self.voices[language]
        return self.voices[lender] if (lender := line.removeprefix("borrowed:")) != line else line


class Original(Section):
    """The talker's own voice under the translation (SPEC A9)."""

    enabled: bool = True
    open_db: Annotated[Decibels, Field(ge=-60, le=0)] = -6.0
    under_db: Annotated[Decibels, Field(ge=-60, le=0)] = -20.0
    attack_ms: Annotated[Int, Field(ge=1, le=1000)] = 40
    hold_ms: Annotated[Int, Field(ge=0, le=5000)] = 300
    release_ms: Annotated[Int, Field(ge=1, le=5000)] = 400

    @model_validator(mode="after")
    def _sinks(self) -> Self:
        if self.under_db > self.open_db:
            raise _rule("under_db", f"must not exceed open_db ({self.open_db:g}): the voice sinks, it does not rise")
        return self


class Models(Section):
    """Where the model files lie, and whose conditions are agreed to."""

    dir: Path | None = None
    accepted_licences: tuple[str, ...] = ()


class Redis(Section):
    """The state store; without a URL the gateway runs a server of its own."""

    url: RedisUrl | None = None
    password: SecretStr | None = None
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")] = "gw"
    ttl_s: Annotated[Int, Field(ge=60, le=2_592_000)] = 86_400
    timeout_s: Annotated[Seconds, Field(ge=0.05, le=10)] = 0.5


class Recording(Section):
    """Sound on disk (SPEC A13)."""

    enabled: bool = False
    dir: Path | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if self.enabled and self.dir is None:
            raise _rule("enabled", "needs recording.dir: say where the recordings go")
        return self


class Terms(Section):
    """The term list every call starts with (SPEC B8)."""

    file: Path | None = None
    idioms: bool = True


class Webhook(Section):
    """A server that is told of events, with a signature."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s@]+$", max_length=2000)]
    secret: Annotated[SecretStr, Field(min_length=24)] | None = None
    secret_file: Path | None = None
    events: Annotated[tuple[str, ...], Field(min_length=1)] = ("call-started", "call-phase", "call-ended")
    allow_private: bool = False

    @model_validator(mode="after")
    def _has_a_secret(self) -> Self:
        if (self.secret is None) == (self.secret_file is None):
            raise _rule("secret", "give either secret or secret_file: events are signed with it")
        return self


class Api(Section):
    """The control API: where it listens, whom it believes, what it may do."""

    enabled: bool = True
    bind: Address = "127.0.0.1"
    port: Annotated[Int, Field(ge=0, le=65535)] = 8080
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    allow_plain_http: bool = False
    tokens: Path | None = None
    open_on_loopback: bool = False
    open_metrics: bool = False
    destinations: tuple[str, ...] = ()
    requests_per_s: Annotated[Seconds, Field(gt=0, le=10_000)] = 50
    largest_body_bytes: Annotated[Int, Field(ge=1024, le=1_048_576)] = 262_144
    transcript_ttl_s: Annotated[Int, Field(ge=0, le=2_592_000)] = 3600
    webhooks: tuple[Webhook, ...] = ()

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        loopback = ipaddress.ip_address(self.bind).is_loopback
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise _rule("tls_certificate", "tls_certificate and tls_key belong together")
        if not loopback and self.tls_certificate is None and not self.allow_plain_http:
            raise _rule(
                "bind",
                "is not loopback: tokens would travel unencrypted; give tls_certificate and tls_key, "
                "or set allow_plain_http behind a proxy that encrypts",
            )
        if self.open_on_loopback and not loopback:
            raise _rule("open_on_loopback", "needs bind to be loopback: nobody else may call without a token")
        return self


class Log(Section):
    """What is logged and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"
    pii: bool = False


class Settings(Section):
    """All of it."""

    sip: Sip = Sip()
    dialplan: Dialplan = Dialplan()
    call: Call = Call()
    turns: Turns = Turns()
    endpoint: Endpoint = Endpoint()
    speech: Speech = Speech()
    original: Original = Original()
    models: Models = Models()
    redis: Redis = Redis()
    recording: Recording = Recording()
    terms: Terms = Terms()
    api: Api = Api()
    log: Log = Log()
