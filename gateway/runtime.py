# SPDX-License-Identifier: GPL-3.0-or-later
"""The composition root: builds every room from the settings, and starts and stops them in order.

Redis first, then SIP, which answers 503 while the models load; then the speech workers and the prompts; only then
are calls taken. Stopping goes the other way round, and every step is taken whatever became of the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import hashlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import structlog

from gateway.api.server import ControlApi
from gateway.audio.original import Ducking
from gateway.call.delivery import Delivery, load_delivery, shipped_styles
from gateway.call.desk import Booth, CallLimits, Desk
from gateway.call.dialplan import DialPlan, load_dialplan
from gateway.call.events import CallEvent, EventBus, Subscription
from gateway.call.fallback import Fallbacks
from gateway.call.glossary import GLOBAL_SCOPE, Glossaries, Glossary, load_glossary
from gateway.call.glossary_document import GlossaryError, read_document
from gateway.call.glossary_file import GlossaryFile
from gateway.call.menu import MENU_PROMPTS
from gateway.call.prompt_files import load_recordings
from gateway.call.prompts import NEEDED, PromptBook, PromptError, load_prompt_texts, shipped_prompts
from gateway.call.switchboard import Switchboard
from gateway.call.turns import TurnRules
from gateway.call.voices import measure_speeds
from gateway.settings import Loaded
from gateway.settings.model import Log, Settings
from gateway.settings.model import Registration as RegistrationSettings
from gateway.settings.model import Sip as SipSection
from gateway.settings.model import Trunk as TrunkSettings
from gateway.sip.access import Trunk
from gateway.sip.agent import SipUserAgent
from gateway.sip.digest import Login
from gateway.sip.errors import BadSettings
from gateway.sip.events import SipEvent
from gateway.sip.registration import Registration
from gateway.sip.settings import SipSettings, Tls
from gateway.speech.engines.engine_set import EngineSet, EngineSpec, build_engines
from gateway.speech.local import Engines
from gateway.speech.own_models import refuse_unaccepted
from gateway.speech.protocols import SpeechService
from gateway.speech.scheduler import Bounds
from gateway.speech.service import LocalSpeechService
from gateway.speech.store import ModelStore, cache_dir, models_dir
from gateway.state import StateStore, open_store
from gateway.stream.plan import EndpointPlan, Mode
from gateway.telemetry.logs import Level, configure_logging

log = structlog.get_logger(__name__)

DRAIN_S = 30.0
TERMS_FILE_S = 2.0  # between two looks at the term list's file
IDLE_LOOK_S = 1.0
CONTROLLING = {"both": frozenset("ab"), "caller": frozenset("a"), "off": frozenset[str]()}
MOST_THREADS = 4  # models of this size gain nothing from more


class Gateway:
    """All rooms together. `start` raises the first room's own error, and leaves nothing behind."""

    def __init__(self, loaded: Loaded, *, events_file: Path | None = None) -> None:
        self.settings = loaded.settings
        self._loaded = loaded
        self._events_file = events_file
        self.bus = EventBus()
        self.dialplan = load_dialplan(loaded.find(self.settings.dialplan.file), self.settings.call.mode)
        self._prompts = prompt_book(loaded)
        check_menus(self.dialplan, self._prompts)
        sip = self.settings.sip
        peers: tuple[TrunkSettings | RegistrationSettings, ...] = (*sip.trunks, *sip.registrations)
        trusted = frozenset(peer.name for peer in peers if peer.trusted)
        self.switchboard = Switchboard(self.dialplan, trusted_trunks=trusted)
        self.user_agent: SipUserAgent | None = None
        self.speech: LocalSpeechService | None = None
        self.state: StateStore | None = None
        self.api: ControlApi | None = None
        self._closing = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Bring everything up; returns when calls are taken."""
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack)
            self._closing = stack.pop_all()

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self.settings
        if self._events_file is not None:
            await self._write_events(stack, self._events_file)
        self.state = await self._open_state()
        stack.push_async_callback(self.state.close)
        self.user_agent = user_agent = SipUserAgent(sip_settings(settings), self._from_sip())
        await asyncio.to_thread(user_agent.start)
        stack.push_async_callback(asyncio.to_thread, user_agent.stop)
        user_agent.accept_calls(False)  # until the models are there
        self.switchboard.connect(user_agent)
        if settings.api.enabled:
            self.api = ControlApi(
                self._loaded,
                switchboard=self.switchboard,
                state=self.state,
                bus=self.bus,
                dialplan=self.dialplan,
                statistics=self.statistics,
                models=functools.partial(known_models, self._loaded),
            )
            stack.push_async_callback(self.api.stop)
            await self.api.start()
        styled = deliveries(self._loaded)
        self.speech = speech = speech_service(self._loaded)
        stack.push_async_callback(speech.close)
        await speech.start()
        stack.push_async_callback(self.switchboard.stop)
        prompts = self._prompts
        await prompts.load(speech, NEEDED)
        desk = Desk(
            booth=booth(settings, speech, prompts, await measure_speeds(speech, settings.speech.voices), styled),
            glossaries=await self._glossaries(stack),
            user_agent=user_agent,
            register=self.state,
            bus=self.bus,
            limits=CallLimits(
                settings.dialplan.ring_timeout_s, settings.call.longest_s, settings.call.silence_hangup_s
            ),
            leads_to=self.dialplan.leads_to,
            disclosure=settings.call.disclosure,
            recordings=settings.recording.dir if settings.recording.enabled else None,
            ducking=ducking(settings),
            comfort_dbfs=settings.call.comfort_noise_dbfs,
            waiting_cue_s=settings.call.waiting_cue_s,
            controls=CONTROLLING[settings.call.controls],
            pass_digits=settings.call.pass_digits,
        )
        if self.api is not None:
            self.api.opened(speech.capabilities())
        self.switchboard.open(desk, frozenset(speech.capabilities()["pairs"]))
        rest = asyncio.create_task(prompts.load(speech, idle=self._until_idle), name="prompts")
        stack.push_async_callback(_cancelled, rest)
        # A search for garbage holds the interpreter lock: 38 ms for the 80,000 objects that the imports alone leave. It
        # is also done more often then, so that the objects of ended calls do not pile up.
        gc.collect()
        gc.freeze()
        gc.collect()  # counts what is left: full searches are put off until a quarter more than that has come
        ports = {"sip_port": user_agent.bound_port, "api_port": self.api.port if self.api else None}
        user_agent.accept_calls(True)
        self.bus.publish(CallEvent("ready", "", time.monotonic_ns(), ports))
        log.info("gateway_ready", sip_port=user_agent.bound_port, legs=user_agent.max_legs)

    async def stop(self, drain_s: float = 0.0) -> None:
        """Take no more calls, give those that live ``drain_s`` to end, end everything."""
        if self.user_agent is not None:
            self.user_agent.accept_calls(False)
        await self.switchboard.stop(drain_s)
        await self._closing.aclose()
        self.bus.close()

    # --- parts ------------------------------------------------------------------------------------------------------

    async def _until_idle(self) -> None:
        """Wait until nobody talks: the first start's prompts must not take the processor from a call."""
        while self.switchboard.statistics()["live"]:  # noqa: ASYNC110 - a gap of a second is long enough
            await asyncio.sleep(IDLE_LOOK_S)

    def _from_sip(self) -> Callable[[SipEvent], None]:
        loop = asyncio.get_running_loop()

        def deliver(event: SipEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed: nobody is left to tell
                loop.call_soon_threadsafe(self.switchboard.on_sip, event)

        return deliver

    async def _open_state(self) -> StateStore:
        redis = self.settings.redis
        return await open_store(
            url=redis.url,
            instance=f"{socket.gethostname()}:{self.settings.sip.port}",
            password=redis.password.get_secret_value() if redis.password else None,
            prefix=redis.prefix,
            ttl_s=redis.ttl_s,
            timeout_s=redis.timeout_s,
            transcript_ttl_s=self.settings.api.transcript_ttl_s if self.settings.api.enabled else 0,
        )

    async def _glossaries(self, stack: contextlib.AsyncExitStack) -> Glossaries:
        """The glossaries in force: Redis' own, after the file's was put there. Reading them costs a call nothing."""
        assert self.state is not None
        await self.state.get_terms(GLOBAL_SCOPE)
        if self.settings.terms.file is not None:
            file = GlossaryFile(self._loaded.find(self.settings.terms.file))
            await self.state.set_terms(GLOBAL_SCOPE, file.read())
            stack.push_async_callback(_cancelled, asyncio.create_task(self._follow(file), name="terms-file"))
        loop = asyncio.get_running_loop()
        glossaries = Glossaries(
            self.state,
            shipped=self.settings.terms.idioms,
            spawn=lambda work: loop.run_in_executor(None, work),
        )
        self.state.on_terms_changed(glossaries.changed)
        return glossaries

    async def _follow(self, file: GlossaryFile) -> None:
        """Put the file's list in force again whenever it was edited; a bad one is told and changes nothing."""
        assert self.state is not None
        while True:
            await asyncio.sleep(TERMS_FILE_S)
            try:
                data = await asyncio.to_thread(file.news)
                if data is not None:
                    terms = await self.state.set_terms(GLOBAL_SCOPE, data)
                    log.info("terms_file_read", version=terms.version)
            except (GlossaryError, ValueError) as error:
                log.warning("terms_file_refused", faults=len(str(error).splitlines()))

    async def _write_events(self, stack: contextlib.AsyncExitStack, path: Path) -> None:
        """Every call event as a JSON line. It holds what people said: the operator asked for it by name."""
        subscription = self.bus.subscribe()
        path.parent.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context(os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w"))

        async def write() -> None:
            async for event in subscription:
                file.write(json.dumps(event.as_json(), ensure_ascii=False) + "\n")
                file.flush()

        task = asyncio.create_task(write(), name="events-file")
        stack.push_async_callback(_finished, self.bus, subscription, task)

    def statistics(self) -> dict[str, Any]:
        """Every room's counters."""
        return {
            "switchboard": self.switchboard.statistics(),
            "calls": self.switchboard.calls(),
            "sip": self.user_agent.statistics() if self.user_agent else {},
            "speech": self.speech.statistics() if self.speech else {},
            "state": self.state.statistics() if self.state else {},
            "events": self.bus.statistics(),
            "api": self.api.statistics() if self.api else {},
        }


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _finished(bus: EventBus, subscription: Subscription, task: asyncio.Task[None]) -> None:
    bus.unsubscribe(subscription)
    await asyncio.gather(task, return_exceptions=True)


# --- settings to the rooms' own values ----------------------------------------------------------------------------


def sip_settings(settings: Settings) -> SipSettings:
    """The SIP room's view of the settings."""
    sip = settings.sip
    return SipSettings(
        bind_address=sip.bind,
        port=sip.port,
        public_address=sip.public_address,
        transports=tuple(sip.transports),
        rtp_port_min=sip.rtp_port_min,
        rtp_port_max=sip.rtp_port_max,
        rtp_networks=tuple(sip.rtp_networks),
        codecs=tuple(sip.codecs),
        media_rate_hz=sip.media_rate_hz,
        trunks=tuple(_trunk(each) for each in sip.trunks),
        allow_loopback=sip.allow_loopback,
        tls=_tls(sip) if "tls" in sip.transports else None,
        srtp=sip.srtp,
        calls_per_s=sip.calls_per_s,
        calls_burst=sip.calls_burst,
        registrations=tuple(_registration(each) for each in sip.registrations),
        from_user=sip.from_user,
        max_legs=sip.max_legs,
        log_level=sip.log_level,
    )


def _tls(sip: SipSection) -> Tls:
    return Tls(str(sip.tls_certificate), str(sip.tls_key), sip.tls_port, str(sip.tls_ca or ""), sip.tls_verify)


def _trunk(wanted: TrunkSettings) -> Trunk:
    """The trunk with its password. BadSettings as in `_password`."""
    login = Login(wanted.user, _password("trunks", wanted)) if wanted.user is not None else None
    return Trunk(wanted.name, wanted.networks, wanted.trusted, wanted.max_calls, login, wanted.addresses, wanted.ping_s)


def _registration(wanted: RegistrationSettings) -> Registration:
    """The extension with its password. BadSettings as in `_password`."""
    password = _password("registrations", wanted)
    return Registration(
        wanted.name,
        wanted.registrars,
        wanted.user,
        password,
        wanted.domain or "",
        wanted.expires_s,
        wanted.trusted,
        wanted.ping_s,
    )


def _password(section: str, peer: TrunkSettings | RegistrationSettings) -> str:
    """A peer's password. BadSettings names the file that cannot be read, and holds nothing of it."""
    if peer.password_file is None:
        assert peer.password is not None
        return peer.password.get_secret_value()
    try:
        return peer.password_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(
            f"sip.{section} {peer.name!r}: password_file {peer.password_file} cannot be read "
            f"({type(error).__name__}); check its path and mode"
        ) from None


def booth(
    settings: Settings,
    speech: SpeechService,
    prompts: PromptBook,
    speeds: Mapping[str, float] | None = None,
    deliveries: Mapping[str, Delivery] | None = None,
) -> Booth:
    """What every direction works with."""
    return Booth(
        speech=speech,
        prompts=prompts,
        endpoint=endpoint_plan(settings, prompts.rate_hz),
        clause_end_ms=settings.endpoint.clause_end_ms,
        previews=settings.speech.previews,
        temperature=settings.speech.confidence_temperature,
        repeat_below=settings.speech.repeat_below,
        vad_aggressiveness=settings.endpoint.vad_aggressiveness,
        speeds=speeds or {},
        first_sound_ms=settings.speech.first_sound_ms,
        begin_ahead=settings.speech.begin_ahead,
        deliveries=deliveries or {},
        varies=settings.speech.vary,
        turns=TurnRules(**settings.turns.model_dump()),
        follow_talker=settings.speech.follow_talker,
        fallbacks=Fallbacks(speech.capabilities()),
    )


def deliveries(loaded: Loaded) -> dict[str, Delivery]:
    """How the voice of each language speaks in the style of the settings. StyleError when there is no such style."""
    speech = loaded.settings.speech
    file = loaded.find(speech.styles) if speech.styles else shipped_styles()
    return {language: load_delivery(file, speech.style, voice) for language, voice in speech.voices.items()}


def ducking(settings: Settings) -> Ducking:
    """The talker's own voice under the translation, as a call begins."""
    original = settings.original
    return Ducking(
        on=original.enabled,
        open_db=original.open_db,
        under_db=original.under_db,
        attack_ms=original.attack_ms,
        hold_ms=original.hold_ms,
        release_ms=original.release_ms,
    )


def file_glossary(loaded: Loaded) -> Glossary:
    """The lists of a pipeline without calls: the settings' file, and the idioms that ship. GlossaryError."""
    terms = loaded.settings.terms
    documents = (read_document(load_glossary(loaded.find(terms.file))),) if terms.file is not None else ()
    return Glossary(documents=documents, shipped=terms.idioms)


def prompt_book(loaded: Loaded, rate_hz: int | None = None) -> PromptBook:
    """The prompts of all languages with a voice, at the legs' rate. PromptError, naming each file that is no use."""
    settings = loaded.settings
    rate_hz = rate_hz or settings.sip.media_rate_hz
    file = loaded.find(settings.call.prompts) if settings.call.prompts else shipped_prompts()
    known = load_prompt_texts(shipped_prompts(), ())
    names = {name for texts in known.values() for name in texts}
    folder = settings.call.prompt_dir
    recorded = load_recordings(loaded.find(folder), names, rate_hz=rate_hz) if folder else {}
    voices, store = settings.speech.voices, model_store(loaded)
    return PromptBook(
        load_prompt_texts(file, list(voices), recorded),
        {
            language: f"{voice}@{_model_sum(store, settings.speech.voice_line(language))}"
            for language, voice in voices.items()
        },
        rate_hz=rate_hz,
        cache=prompt_cache(),
        recorded=recorded,
    )


def check_menus(dialplan: DialPlan, prompts: PromptBook) -> None:
    """PromptError when a menu offers a language in which something that it says has neither text nor recording."""
    faults = [
        f"dial plan route {route.name!r}: language {language!r} lacks the prompts {', '.join(lacking)}; "
        "add them to the file of call.prompts, or record them into call.prompt_dir"
        for route in dialplan.routes
        if route.menu is not None
        for language in route.menu.languages
        if (lacking := prompts.lacks(language, MENU_PROMPTS))
    ]
    if faults:
        raise PromptError("\n".join(faults))


def _model_sum(store: ModelStore, voice: str) -> str:
    """What the model of a voice is, byte for byte: prompts of an older model under the same name are made anew."""
    model = store.manifest.get(voice.split(":")[1])
    return hashlib.sha256("".join(file.sha256 for file in model.files).encode()).hexdigest()[:16]


def endpoint_plan(settings: Settings, rate_hz: int | None = None) -> EndpointPlan:
    """The end-pointer's thresholds, bound to the rate they are used at: the legs', if no other is named."""
    endpoint = settings.endpoint
    return EndpointPlan(
        rate_hz=rate_hz or settings.sip.media_rate_hz,
        frame_ms=endpoint.frame_ms,
        mode=Mode.CONSECUTIVE,
        start_frames=endpoint.start_frames,
        start_window=endpoint.start_window,
        pre_roll_ms=endpoint.pre_roll_ms,
        prepare_ms=endpoint.prepare_ms,
        end_ms=endpoint.end_ms,
        keep_tail_ms=endpoint.keep_tail_ms,
        longest_utterance_ms=endpoint.longest_utterance_ms,
        long_silence_ms=endpoint.long_silence_ms,
    )


def engine_spec(settings: Settings) -> EngineSpec:
    """The engines' view of the settings."""
    speech = settings.speech
    return EngineSpec(
        recognizer=speech.recognizer,
        translators=tuple(speech.translators),
        voices=tuple(speech.voices.items()),
        threads=worker_threads(settings),
    )


def worker_threads(settings: Settings) -> int:
    """Threads of each worker; 0 in the settings takes the machine's cores, up to what the models can use."""
    return settings.speech.threads_per_worker or min(MOST_THREADS, len(os.sched_getaffinity(0)))


def model_store(loaded: Loaded) -> ModelStore:
    """The store that the settings name."""
    folder = loaded.settings.models.dir
    return ModelStore(models_dir(loaded.find(folder) if folder else None))


def known_models(loaded: Loaded) -> list[dict[str, Any]]:
    """The manifest's models as the API shows them: what each is, whether it is there, whether it is in use."""
    store, used = model_store(loaded), engine_spec(loaded.settings).models()
    return [
        {
            "id": model.id,
            "kind": model.kind.value,
            "languages": list(model.languages) or sorted({language for pair in model.pairs for language in pair}),
            "licence": model.licence.spdx,
            "size_bytes": model.size_bytes,
            "state": store.status(model.id).state.value,
            "in_use": model.id in used,
        }
        for model in store.manifest.models
    ]


def make_engines(spec: EngineSpec, folders: Mapping[str, Path]) -> Engines:
    """Runs inside a worker: builds the engines from models that the media process has checked."""
    engines: EngineSet = build_engines(spec, lambda model: folders[model])
    return engines


def _worker_engines(spec: EngineSpec, folders: Mapping[str, Path], level: str, log_settings: Log) -> Engines:
    """The same in a spawned worker, which begins without any log set-up: not even the rule about personal data."""
    configure_logging(cast(Level, level), log_settings.format, pii=log_settings.pii)
    return make_engines(spec, folders)


def speech_service(loaded: Loaded) -> LocalSpeechService:
    """Workers for the settings' engines. ModelMissing, with the remedy, when the store lacks one."""
    settings = loaded.settings
    store, spec = model_store(loaded), engine_spec(settings)
    refuse_unaccepted(map(store.manifest.get, spec.models()), settings.models.accepted_licences)
    folders = {model: store.ensure_verified(model) for model in spec.models()}
    speech = settings.speech
    level = logging.getLevelName(logging.getLogger().level).lower()  # this process's own: commands are quieter
    return LocalSpeechService(
        functools.partial(_worker_engines, spec, folders, level, settings.log),
        workers=speech.workers,
        threads=worker_threads(settings),
        bounds=Bounds(speech.queue_finals, speech.queue_clauses, speech.queue_prepares, speech.queue_previews),
        deadlines_s=dict.fromkeys(("recognize", "translate", "synthesize"), speech.task_deadline_s),
    )


def prompt_cache() -> Path:
    """Where synthesized prompts are kept between starts."""
    return cache_dir() / "prompts"
