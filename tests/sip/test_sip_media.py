# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd RTP: what peers really send, and what strangers try."""

from __future__ import annotations

import itertools
import socket
import struct
import subprocess
import threading
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from g711 import peak_hz, tone
from sip_harness import AgentProcess, free_port, side_by_side, until
from sip_peer import Peer

pytestmark = pytest.mark.sip

Agents = Callable[..., AgentProcess]


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def test_b01_b05_new_ssrc_with_lower_numbers_is_heard_at_once(agent: AgentProcess) -> None:
    """Judged with packets of our own: Debian's baresip drops sound itself when its peer's SSRC changes."""
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        pause(1)
        peer.rtp.silence()
        pause(0.06)
        peer.rtp.ssrc, peer.rtp.timestamp = 0x999, 123_456
        peer.rtp.seq = (peer.rtp.seq - 8600) & 0xFFFF
        peer.rtp.stream(peer.remote_rtp, tone(1500, 1))
        pause(1.3)
        heard = agent.hear(leg)  # the last second: with more than 0.3 s lost the old tone would show
        assert heard["peak_hz"] == pytest.approx(1500, abs=3)
        assert heard["tone_share"] > 0.95
        assert heard["gaps"] == 0
        peer.bye()


def test_b02_jumps_of_numbers_in_the_same_stream_recover_within_200_ms(agent: AgentProcess) -> None:
    def jumps(name: str, seq_jump: int, stamp_jump: int) -> None:
        with Peer(agent.port, user=name) as peer:
            peer.invite()
            leg = agent.talking(peer)
            peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
            pause(0.8)
            peer.rtp.silence()
            pause(0.06)
            peer.rtp.seq = (peer.rtp.seq + seq_jump) & 0xFFFF
            peer.rtp.timestamp = (peer.rtp.timestamp + stamp_jump) & 0xFFFFFFFF
            peer.rtp.stream(peer.remote_rtp, tone(1500, 1))
            pause(1.25)
            heard = agent.hear(leg, also_hz=1000)  # the last second
            assert heard["peak_hz"] == pytest.approx(1500, abs=3)
            assert heard["also_share"] < 0.01
            assert heard["tone_share"] > 0.9
            peer.bye()

    side_by_side(
        stamp=lambda: jumps("stamp", 0, 400_000),
        back=lambda: jumps("back", -900, 0),
        ahead=lambda: jumps("ahead", 12_000, 0),
        both=lambda: jumps("both", 40_000, 1 << 31),
    )


def test_b07_other_packet_times_give_frames_of_20_ms(agent: AgentProcess) -> None:
    def sends_packets_of(ptime_ms: int) -> None:
        with Peer(agent.port, user=f"every{ptime_ms}") as peer:
            peer.invite()
            leg = agent.talking(peer)
            sound, step = tone(1000, 3), 8 * ptime_ms
            start = time.monotonic()
            for number in range(2000 // ptime_ms):
                peer.rtp.send(peer.remote_rtp, sound[number * step : (number + 1) * step], step=step)
                pause(max(0.0, start + (number + 1) * ptime_ms / 1000 - time.monotonic()))
            heard = agent.hear(leg)
            assert heard["peak_hz"] == pytest.approx(1000, abs=3)
            assert heard["tone_share"] > 0.98
            assert heard["samples"] == 160 * heard["frames"]
            assert heard["gaps"] == 0
            peer.bye()

    side_by_side(
        ms_10=lambda: sends_packets_of(10), ms_40=lambda: sends_packets_of(40), ms_60=lambda: sends_packets_of(60)
    )


def test_b10_private_address_in_the_offer_is_answered_to_the_real_source(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
            elsewhere.bind(("127.9.9.9", 0))  # what the offer says; the sound comes from the peer's own socket
            offer = peer.sdp().replace("c=IN IP4 127.0.0.1", "c=IN IP4 127.9.9.9")
            peer.invite(offer.replace(f"m=audio {peer.rtp.port}", f"m=audio {elsewhere.getsockname()[1]}"))
        peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
        assert until(lambda: len(peer.rtp.received) > 20, 3)
        peer.bye()


@contextmanager
def stranger() -> Iterator[socket.socket]:
    """Somebody at an address that no SDP and no signalling has named."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.9", 0))
        one.setblocking(False)
        yield one


def got(other: socket.socket) -> bool:
    try:
        return bool(other.recv(2048))
    except BlockingIOError:
        return False


def test_b11_a_third_address_is_neither_heard_nor_sent_to(agent: AgentProcess) -> None:
    noise = tone(2000, 1)

    def while_the_peer_talks(name: str, *, same_ssrc: bool) -> None:
        with Peer(agent.port, user=name) as peer, stranger() as other:
            peer.invite()
            leg = agent.talking(peer)
            peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
            pause(0.6)
            for number in range(75):
                seq, stamp, ssrc = number, number * 160, 77
                if same_ssrc:
                    seq, stamp, ssrc = (peer.rtp.seq + 1) & 0xFFFF, peer.rtp.timestamp + 160, peer.rtp.ssrc
                other.sendto(struct.pack("!BBHII", 0x80, 0, seq, stamp, ssrc) + noise[:160], peer.remote_rtp)
                pause(0.02)
            heard = agent.hear(leg, also_hz=2000)
            assert heard["peak_hz"] == pytest.approx(1000, abs=3)
            # The stranger's own tone, not the purity of ours: a stalled sender costs purity without any stranger.
            assert heard["also_share"] < 0.001
            assert not got(other)
            before = len(peer.rtp.received)
            assert until(lambda: len(peer.rtp.received) > before + 10)
            peer.bye()

    def while_the_peer_is_silent(name: str, *, spoke_before: bool) -> None:
        with Peer(agent.port, user=name) as peer, stranger() as other:
            peer.invite()
            leg = agent.talking(peer)
            if spoke_before:
                peer.rtp.stream(peer.remote_rtp, tone(1000, 1))
                pause(1)
                peer.rtp.silence()
                pause(0.1)
            for number in range(75):
                other.sendto(struct.pack("!BBHII", 0x80, 0, number, number * 160, 77) + noise[:160], peer.remote_rtp)
                pause(0.02)
            heard = agent.hear(leg, also_hz=2000)
            assert not got(other)
            assert heard["also_share"] < 0.001
            peer.bye()

    side_by_side(
        in_its_stream=lambda: while_the_peer_talks("one", same_ssrc=True),
        in_another_stream=lambda: while_the_peer_talks("two", same_ssrc=False),
        after_it_spoke=lambda: while_the_peer_is_silent("three", spoke_before=True),
        before_it_speaks=lambda: while_the_peer_is_silent("four", spoke_before=False),
    )
    assert until(lambda: agent.statistics()["counts"]["rx_refused"] > 0), "an operator cannot see it"


def test_the_clock_thread_keeps_its_state_in_the_interpreter(agent: AgentProcess) -> None:
    """Made anew for each callback it would cost more than the callback."""
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        assert until(lambda: agent.hear(leg)["frames"] > 20)
        assert agent.hear(leg)["thread_states"] <= 2, "one, and that of the callback that kept it"
        peer.bye()


def test_b19_the_first_word_is_heard_from_its_first_sample(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        sound, start = tone(1000, 1), time.monotonic()
        for number in range(50):
            peer.rtp.send(peer.remote_rtp, sound[number * 160 : (number + 1) * 160])
            pause(max(0.0, start + (number + 1) * 0.02 - time.monotonic()))
        leg = agent.event("MediaActive")["leg"]
        pause(0.2)
        assert agent.hear(leg)["loud_samples"] >= 8000 - 160
        peer.bye()


def test_jitter_of_a_frame_loses_no_tone(agent: AgentProcess) -> None:
    with Peer(agent.port) as peer:
        peer.invite()
        leg = agent.event("MediaActive")["leg"]
        sound, start = tone(1000, 4), time.monotonic()
        for number in range(200):
            late_s = (number * 7 % 5) * 0.005  # 0 to 20 ms, the same in every run
            pause(max(0.0, start + number * 0.02 + late_s - time.monotonic()))
            peer.rtp.send(peer.remote_rtp, sound[number * 160 : (number + 1) * 160])
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1000, abs=3)
        assert heard["tone_share"] > 0.9
        assert heard["gaps"] == 0
        peer.bye()


def test_d05_j09_egress_stays_even_beside_a_busy_python_thread(agents: Agents) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    with Peer(agent.port) as peer:
        peer.invite()
        assert until(lambda: len(peer.rtp.received) > 10)
        agent.tell("busy", seconds=3.5)
        pause(0.2)
        first = len(peer.rtp.received)
        pause(3)
        packets = peer.rtp.received[first:]
        seconds = (packets[-1].at_ns - packets[0].at_ns) / 1e9
        assert (len(packets) - 1) / seconds == pytest.approx(50, rel=0.01)
        assert all(b.timestamp - a.timestamp == 160 for a, b in itertools.pairwise(packets))
        assert all((b.seq - a.seq) & 0xFFFF == 1 for a, b in itertools.pairwise(packets))
        peer.bye()


def test_d04_status_is_polled_during_a_storm_of_calls(agents: Agents) -> None:
    """Readers never touch the library, so no lock order can be wrong: every poll is answered."""
    agent = agents(auto_answer=True, tone_hz=440)
    over = threading.Event()
    slowest = [0.0]

    def poll() -> None:
        while not over.is_set():
            start = time.monotonic()
            agent.statistics()
            slowest[0] = max(slowest[0], time.monotonic() - start)

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        for _ in range(20):
            with Peer(agent.port) as peer:
                assert peer.invite().code == 200
                assert peer.bye().code == 200
    finally:
        over.set()
        poller.join(10)
    assert 0 < slowest[0] < 1


def test_baresip_call_both_ways(agents: Agents, baresip: str, tmp_path: Path) -> None:
    agent = agents(auto_answer=True, tone_hz=440)
    with wave.open(str(tmp_path / "tone.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((np.sin(2 * np.pi * 1000 * np.arange(80_000) / 8000) * 8000).astype("<i2").tobytes())
    modules = ["account.so", "aubridge.so", "aufile.so", "g711.so", "menu.so", "sndfile.so", "stdio.so"]
    config = [
        "module_path /usr/lib/baresip/modules",
        *(f"{'module_app' if name in ('account.so', 'menu.so') else 'module'} {name}" for name in modules),
        "net_interface 127.0.0.1",
        f"sip_listen 127.0.0.1:{free_port()}",
        f"audio_source aufile,{tmp_path}/tone.wav",
        "audio_player aubridge,x",
        "audio_channels 1-1",
        f"snd_path {tmp_path}",
        "rtp_ports 20000-20100",
    ]
    (tmp_path / "config").write_text("\n".join(config) + "\n")
    (tmp_path / "accounts").write_text("<sip:bare@127.0.0.1>;regint=0;audio_codecs=PCMU/8000\n")
    (tmp_path / "contacts").write_text("")
    process = subprocess.Popen(
        [baresip, "-f", str(tmp_path), "-e", f"/dial sip:77@127.0.0.1:{agent.port}", "-t", "4"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        leg = agent.event("MediaActive", 10)["leg"]
        assert until(lambda: agent.hear(leg)["samples"] > 16_000)
        heard = agent.hear(leg)
        assert heard["peak_hz"] == pytest.approx(1000, abs=3)
        agent.event("Ended", 15, leg=leg)
        process.wait(10)
    finally:
        if process.poll() is None:
            process.kill()
    recorded = [path for path in tmp_path.glob("*.wav") if "dec" in path.name]
    assert recorded, "baresip recorded nothing"
    with wave.open(str(recorded[0])) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert peak_hz(samples[-8000:])[0] == pytest.approx(440, abs=3)
