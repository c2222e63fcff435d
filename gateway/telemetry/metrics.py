# SPDX-License-Identifier: GPL-3.0-or-later
"""What Prometheus sees: counts and times, and no label that comes from a person (SPEC C6; CASES K07).

Labels are words of the program (a reason, a stage) and languages of the settings; numbers, words and ids of calls
never become one. What happens once is counted as its event passes; what holds now is read from the rooms' statistics
when Prometheus asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a clause that was prepared in the silence to a talker the gateway does not keep up with.
LATENCY_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
SNR_DB = (0, 5, 10, 13, 15, 20, 25, 30, 40)

Statistics = Callable[[], Mapping[str, Any]]


class Meters:
    """All metrics of this gateway. ``statistics`` are the rooms' own figures, by room."""

    def __init__(self, statistics: Statistics) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Rooms(statistics))

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"gateway_{name}", text, labels, registry=registry)

        self._ended = counter("calls_ended", "Calls that are over", "result", "reason")
        self._started = counter("calls_started", "Calls that were taken or placed")
        self._utterances = counter("utterances", "Segments of speech with a record", "source", "target", "outcome")
        self._lost = counter("segments_lost", "Segments whose translation nobody heard", "reason")
        self._unclear = counter("utterances_unclear", "Utterances whose talker was asked to say them again")
        self._safety = counter("safety_mode_begun", "Times a party's speech came down to safety words", "by")
        self._terms = counter("terms", "Terms of a dictionary in what was said", "outcome")
        self._numbers = counter("numbers", "Numbers in what was said, by what became of them", "outcome")
        self._requests = counter("api_requests", "Requests to the control API", "method", "status")
        self._duration = Histogram(
            "gateway_call_duration_seconds",
            "How long calls lasted",
            buckets=(1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14_400),
            registry=registry,
        )
        self._snr = Histogram(
            "gateway_leg_snr_db",
            "Speech against noise of each leg, when its call ended",
            buckets=SNR_DB,
            registry=registry,
        )
        self._latency = Histogram(
            "gateway_latency_seconds",
            "From the end of what was said to the first sound of its translation",
            ("source", "target"),
            buckets=LATENCY_S,
            registry=registry,
        )
        self._stages = Histogram(
            "gateway_stage_seconds",
            "Shares of the wait behind the end of speech",
            ("stage",),
            buckets=LATENCY_S,
            registry=registry,
        )

    def on_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Count an event of a call."""
        match kind:
            case "call-started":
                self._started.inc()
            case "call-ended":
                self._ended.labels(data["result"], data["reason"]).inc()
                self._duration.observe(data["duration_s"])
                for snr_db in data["snr_db"]:
                    if snr_db is not None:
                        self._snr.observe(snr_db)
            case "utterance":
                self._on_utterance(data)
            case "lost":
                self._lost.labels(data["reason"]).inc()
            case "unclear":
                self._unclear.inc()
            case "safety-mode" if data["on"]:
                self._safety.labels(data["by"]).inc()

    def on_request(self, method: str, status: int) -> None:
        """Count a request to the API."""
        self._requests.labels(method, str(status)).inc()

    def text(self) -> bytes:
        """The exposition, as `CONTENT_TYPE`."""
        return generate_latest(self.registry)

    def _on_utterance(self, data: Mapping[str, Any]) -> None:
        source, target, outcome = data["source_lang"], data["target_lang"], data["outcome"]
        self._utterances.labels(source, target, outcome).inc()
        if outcome == "lost":
            self._lost.labels(data["lost"]).inc()
        elif data["played_ns"] and data["audio_end_ns"]:
            self._latency.labels(source, target).observe((data["played_ns"] - data["audio_end_ns"]) / 1e9)
            for stage, seconds in data["stages"].items():
                self._stages.labels(stage).observe(seconds)
        for meter, counts in ((self._terms, data.get("terms")), (self._numbers, data.get("numbers"))):
            for outcome, count in (counts or {}).items():
                if isinstance(count, int):
                    meter.labels(outcome).inc(count)


class _Rooms(Collector):
    """What holds now, read from the rooms' statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the rooms are there."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """One pass over the statistics."""
        rooms = self._statistics()
        board, sip, speech = (rooms.get(room) or {} for room in ("switchboard", "sip", "speech"))
        state, events, webhooks = (rooms.get(room) or {} for room in ("state", "events", "webhooks"))
        yield _gauge("calls", "Calls that live", board.get("live"))
        yield _gauge("ready", "1 when calls are taken", board.get("ready"))
        yield _by(
            CounterMetricFamily,
            "calls_refused",
            "Calls that were not taken",
            "reason",
            {key.removeprefix("refused-"): count for key, count in board.items() if key.startswith("refused-")},
        )
        yield _gauge("legs", "SIP legs in use", sip.get("legs"))
        yield _gauge("legs_limit", "SIP legs that can be in use", sip.get("max_legs"))
        yield _by(
            GaugeMetricFamily,
            "sip_registered",
            "1 when the PBX sends calls here",
            "registration",
            {name: each["registered"] for name, each in sip.get("registrations", {}).items()},
        )
        yield _peers(sip.get("peers"))
        yield _counter("late_frames", "Frames that missed their 20 ms", sip.get("late_frames"))
        counts = sip.get("counts", {})
        yield _counter("sip_refused", "INVITEs that were not let in", counts.get("refused"))
        yield _counter("sip_rests", "Rests that a flood of INVITEs forced", counts.get("rests"))
        yield _counter("rtp_refused", "Packets from an address that no leg listens to", sip.get("rx_refused"))
        yield _by(GaugeMetricFamily, "queue_depth", "Jobs that wait", "priority", speech.get("queued"))
        yield _by(CounterMetricFamily, "jobs_refused", "Jobs that found no place", "priority", speech.get("refused"))
        yield _by(CounterMetricFamily, "jobs_shed", "Guesses given up under load", "priority", speech.get("shed"))
        yield _by(
            GaugeMetricFamily,
            "real_time_factor",
            "Seconds of work for a second of sound",
            "kind",
            speech.get("real_time_factor"),
        )
        yield _gauge("speech_utilisation", "Share of the speech workers that is busy", speech.get("utilisation"))
        yield _counter("speech_worker_restarts", "Speech workers that had to be replaced", speech.get("restarts"))
        yield _counter("speech_unsaid", "Texts of which the voice could not say a fifth or more", speech.get("unsaid"))
        yield _gauge("state_connected", "1 when Redis answers", state.get("connected"))
        yield _counter("state_losses", "Times that Redis went away", state.get("losses"))
        yield _counter("events_dropped", "Events that a slow listener lost", events.get("dropped"))
        yield _by(CounterMetricFamily, "webhook_deliveries", "Events for webhooks", "outcome", webhooks)


def _gauge(name: str, text: str, value: float | None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"gateway_{name}", text, value=None if value is None else float(value))


def _counter(name: str, text: str, value: float | None) -> CounterMetricFamily:
    return CounterMetricFamily(f"gateway_{name}", text, value=None if value is None else float(value))


def _peers(peers: Mapping[str, Any] | None) -> Metric:
    made = GaugeMetricFamily("gateway_sip_peer_up", "1 when a peer answers OPTIONS", labels=["peer", "address"])
    for name, addresses in (peers or {}).items():
        for address, known in addresses.items():
            made.add_metric([name, address], float(known["health"] == "up"))
    return made


def _by(
    family: type[GaugeMetricFamily] | type[CounterMetricFamily],
    name: str,
    text: str,
    label: str,
    values: Mapping[str, Any] | None,
) -> Metric:
    made = family(f"gateway_{name}", text, labels=[label])
    for key, value in (values or {}).items():
        if isinstance(value, int | float):
            made.add_metric([key], float(value))
    return made
