# SPDX-License-Identifier: GPL-3.0-or-later
"""What `check-config` asks the rooms: does the dial plan read, do languages, voices and prompts fit together?"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.api.server import ApiError, hooks, token_file
from gateway.api.tokens import TokenError, TokenFile
from gateway.call.delivery import StyleError
from gateway.call.dialplan import AUTO, DialPlan, DialPlanError, load_dialplan
from gateway.call.glossary import load_glossary
from gateway.call.glossary_document import GlossaryError
from gateway.call.prompts import PromptError
from gateway.runtime import (
    check_menus,
    deliveries,
    endpoint_plan,
    engine_spec,
    model_store,
    prompt_book,
    sip_settings,
)
from gateway.settings import Loaded
from gateway.speech.engines.coqui_place import coqui_python
from gateway.speech.errors import SpeechError
from gateway.speech.own_models import refuse_unaccepted

COQUI = "coqui"


def check_rooms(loaded: Loaded) -> Iterator[str]:
    """Each fault as one line."""
    settings = loaded.settings
    for make in (sip_settings, endpoint_plan):
        try:
            make(settings)
        except ValueError as error:
            yield str(error)
    try:
        deliveries(loaded)
    except StyleError as error:
        yield str(error)
    try:
        manifest = model_store(loaded).manifest
        models = [manifest.get(model) for model in engine_spec(settings).models()]
        refuse_unaccepted(models, settings.models.accepted_licences)
        if any(voice.partition(":")[0] == COQUI for voice in settings.speech.voices.values()):
            coqui_python()
    except (SpeechError, ValueError) as error:
        yield f"speech: {error}"
    yield from _check_dialplan(loaded)
    if settings.api.enabled:
        try:
            hooks(loaded)
            TokenFile(token_file(loaded)).read()
        except (ApiError, TokenError) as error:
            yield str(error)
    if settings.terms.file is not None:
        try:
            load_glossary(loaded.find(settings.terms.file))
        except GlossaryError as error:
            yield str(error)


def _check_dialplan(loaded: Loaded) -> Iterator[str]:
    """The dial plan, and whether what it wants to be said can be said."""
    dialplan = DialPlan(())
    try:
        dialplan = load_dialplan(loaded.find(loaded.settings.dialplan.file))
    except DialPlanError as error:
        yield str(error)
    for route in dialplan.routes:
        spoken = {*route.languages, *(each for pair in route.pairs() for each in pair)}
        for language in sorted(spoken - {AUTO}):
            if language not in loaded.settings.speech.voices:
                yield f"dial plan route {route.name!r}: language {language!r} has no voice; add it to speech.voices"
    try:
        check_menus(dialplan, prompt_book(loaded))
    except PromptError as error:
        yield from str(error).splitlines()
    except SpeechError:
        pass  # a voice's model that the manifest does not know: told by `check_rooms`
