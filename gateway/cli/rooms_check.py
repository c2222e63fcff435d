# SPDX-License-Identifier: GPL-3.0-or-later
"""What `check-config` asks the rooms: does the dial plan read, do languages, voices and prompts fit together?"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.call.dialplan import DialPlanError, load_dialplan
from gateway.call.glossary import load_glossary
from gateway.call.glossary_document import GlossaryError
from gateway.call.prompts import PromptError, load_prompt_texts, shipped_prompts
from gateway.runtime import endpoint_plan, engine_spec, sip_settings
from gateway.settings import Loaded
from gateway.speech.errors import SpeechError
from gateway.speech.manifest import load_manifest


def check_rooms(loaded: Loaded) -> Iterator[str]:
    """Each fault as one line."""
    settings = loaded.settings
    voices = settings.speech.voices
    for make in (sip_settings, endpoint_plan):
        try:
            make(settings)
        except ValueError as error:
            yield str(error)
    try:
        manifest = load_manifest()
        for model in engine_spec(settings).models():
            manifest.get(model)
    except (SpeechError, ValueError) as error:
        yield f"speech: {error}"
    try:
        dialplan = load_dialplan(loaded.find(settings.dialplan.file))
    except DialPlanError as error:
        yield str(error)
    else:
        for route in dialplan.routes:
            for language in (route.source, route.target):
                if language not in voices:
                    yield f"dial plan route {route.name!r}: language {language!r} has no voice; add it to speech.voices"
    prompts = loaded.find(settings.call.prompts) if settings.call.prompts else shipped_prompts()
    try:
        load_prompt_texts(prompts, list(voices))
    except PromptError as error:
        yield str(error)
    if settings.terms.file is not None:
        try:
            load_glossary(loaded.find(settings.terms.file))
        except GlossaryError as error:
            yield str(error)
