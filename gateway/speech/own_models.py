# SPDX-License-Identifier: GPL-3.0-or-later
"""Models of one's own: taken into the store from a folder, and pinned there as the shipped ones are.

`take_in` copies a voice into the store and writes down its files with size and sha256 in ``own-models.yaml`` beside the
models, in the manifest's form. From then on it is a model like any other: named in the settings, listed, verified when
the gateway starts. A checkpoint in Python's pickle format is never stored: its tensors are written as safetensors,
once, by Coqui's interpreter, which makes nothing but tensors of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from gateway.speech.carriers import sha256_of
from gateway.speech.engines.coqui_place import HOST, coqui_python
from gateway.speech.errors import LicenceNotAccepted, SpeechError
from gateway.speech.manifest import Licence, Manifest, ManifestError, Model, is_pickled, load_manifest

OWN = "own-models.yaml"
XTTS_LICENCE = Licence(
    spdx="LicenseRef-CPML",
    note="Coqui Public Model License 1.0.0: non-commercial use only, of the model and of the sound that it makes",
    accept=True,
)
CONVERT_S = 600  # reading 2 GB from a slow disk
_HEAD = "# SPDX-License-Identifier: GPL-3.0-or-later\n# Models of your own, written by `gateway models import`.\n"


def with_own(shipped: Manifest, folder: Path) -> Manifest:
    """The shipped manifest with the store's own models behind it; ManifestError names a fault or a name taken twice."""
    own = folder / OWN
    if not own.is_file():
        return shipped
    models = load_manifest(own).models
    taken = {model.id for model in shipped.models} & {model.id for model in models}
    if taken:
        raise ManifestError(f"{own}: {', '.join(sorted(taken))}: a shipped model has that name; import under another")
    return shipped.model_copy(update={"models": (*shipped.models, *models)})


def refuse_unaccepted(models: Iterable[Model], accepted: Sequence[str]) -> None:
    """Raise LicenceNotAccepted for the first model whose licence has to be accepted and is not."""
    for model in models:
        if model.licence.accept and model.licence.spdx not in accepted:
            raise LicenceNotAccepted(
                f"{model.id} is under {model.licence.spdx} ({model.licence.note}): read `gateway models licence "
                f"{model.id}`; if you keep to it, add {model.licence.spdx} to models.accepted_licences"
            )


def licence_text(model: Model, folder: Path) -> str:
    """The licence in a line, and the texts that lie with the model."""
    lines = [f"{model.id}: {model.licence.spdx}", *filter(None, [model.licence.note])]
    if model.licence.accept:
        lines.append(f"To use it, add {model.licence.spdx} to models.accepted_licences in the settings.")
    texts = sorted(folder.glob("LICEN[CS]E*"))
    return "\n".join([*lines, "", *(text.read_text(encoding="utf-8", errors="replace") for text in texts)]).rstrip()


def take_in(
    source: Path, store: Path, model_id: str, *, licence: Licence, languages: Sequence[str], shipped: Manifest
) -> Model:
    """Copy the voice in ``source`` into the store and pin it. SpeechError says what is missing, or already there."""
    known = with_own(shipped, store).models
    if any(model.id == model_id for model in known) or (store / model_id).exists():
        raise SpeechError(f"there is a model {model_id} already: choose another --id, or remove {store / model_id}")
    stage = store / f".import-{os.getpid()}"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    try:
        engine = _fill(stage, source, list(languages))
        if engine == "xtts":
            licence = XTTS_LICENCE
        model = _pinned(stage, model_id, licence, list(languages), engine="piper" if engine == "piper" else "coqui")
        own = [one.model_dump(mode="json", exclude_defaults=True) for one in known[len(shipped.models) :]]
        own.append(model.model_dump(mode="json", exclude_defaults=True))
        stage.replace(store / model_id)
        _write(store / OWN, own)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return model


def _fill(stage: Path, source: Path, languages: list[str]) -> str:
    """Copy what a voice needs; ``piper``, ``vits`` or ``xtts``."""
    if not source.is_dir():
        raise SpeechError(f"{source} is not a folder")
    voices = [path for path in sorted(source.glob("*.onnx")) if path.with_name(path.name + ".json").is_file()]
    if voices:
        _copy([*voices[:1], voices[0].with_name(voices[0].name + ".json"), *_texts(source)], source, stage)
        return "piper"
    config = source / "config.json"
    if not config.is_file():
        raise SpeechError(f"{source} holds neither NAME.onnx with NAME.onnx.json nor config.json: it is no voice")
    kind = str(json.loads(config.read_text(encoding="utf-8")).get("model"))
    if kind not in {"vits", "xtts"}:
        raise SpeechError(f"{source} holds a {kind!r} model: vits and xtts can be used")
    if kind == "vits" and not languages:
        raise SpeechError("a Coqui voice does not say what it speaks: name it, as in --language tr")
    extra = [source / name for name in ("speakers.json", "vocab.json") if (source / name).is_file()]
    _copy([config, *extra, *sorted(source.glob("voices/*.wav")), *_texts(source)], source, stage)
    (stage / "voice.json").write_text(json.dumps({"languages": languages}), encoding="utf-8")
    _copy_weights(source, stage / "model.safetensors")
    return kind


def _copy_weights(source: Path, target: Path) -> None:
    safe = source / "model.safetensors"
    if safe.is_file():
        shutil.copyfile(safe, target)
        return
    pickled = [path for path in sorted(source.iterdir()) if is_pickled(path.name) and "speaker" not in path.name]
    if len(pickled) != 1:
        names = ", ".join(path.name for path in pickled) or "none"
        raise SpeechError(f"one checkpoint is needed in {source}, model.safetensors or one .pth: there are {names}")
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [str(coqui_python()), "-I", str(HOST), "convert", str(pickled[0]), str(target)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CONVERT_S,
        check=False,
    )
    if done.returncode:
        # torch's own message also advises how to run such a file all the same
        why = re.findall(r"[^.\n]*GLOBAL[^.]*\S+|^\w+Error: .*", done.stderr, re.MULTILINE)
        raise SpeechError(f"{pickled[0].name} was refused, it holds more than tensors: {''.join(why[-1:]).strip()}")


def _texts(source: Path) -> Iterator[Path]:
    yield from sorted(source.glob("LICEN[CS]E*"))


def _copy(files: Iterable[Path], source: Path, target: Path) -> None:
    for file in files:
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)


def _pinned(folder: Path, model_id: str, licence: Licence, languages: list[str], *, engine: str) -> Model:
    files = [
        {"path": path.relative_to(folder).as_posix(), "sha256": sha256_of(path), "size": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    entry = {
        "id": model_id,
        "kind": "synthesizer",
        "engine": engine,
        "languages": languages,
        "licence": licence.model_dump(),
        "size_bytes": sum(int(str(file["size"])) for file in files),
        "files": files,
    }
    try:
        return Model.model_validate(entry)
    except ValueError as error:
        raise SpeechError(f"{model_id}: {error}") from error


def _write(path: Path, models: list[dict[str, Any]]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(_HEAD + yaml.safe_dump({"models": models}, sort_keys=False), encoding="utf-8")
    temporary.replace(path)
