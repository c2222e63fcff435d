# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON that people write: one list of terms, rules, idioms, hotwords and pronunciations for all languages.

This is the rim: pydantic checks it, `gateway.call.glossary` makes the values that calls work with. `json_schema` is
what editors check a file against.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from gateway.text.idioms import LONGEST as LONGEST_IDIOM
from gateway.text.idioms import Idiom
from gateway.text.terms import LONGEST_FORM, Term

Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$", description="ISO 639 code, such as pt.")]
Form = Annotated[str, Field(min_length=1, max_length=LONGEST_FORM)]
MOST_FAULTS = 20  # of a document that are told at once
AT_A_TIME = 400  # terms; 3 ms


class GlossaryError(ValueError):
    """A glossary that cannot be used; the text names the entry and the remedy."""


class _Entry(BaseModel):
    """A part of the document: no key beyond the known ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class TermEntry(_Entry):
    """A prescribed translation, its hotword, and how its target is spoken."""

    source: Language = Field(alias="from", description="Language of the forms.")
    to: Language = Field(description="Language of the target.")
    forms: Form | Annotated[list[Form], Field(min_length=1)] | Annotated[dict[Form, Form], Field(min_length=1)] = Field(
        description="The source spellings; as an object, each with a target of its own: {invoices: faturas}."
    )
    target: str = Field(default="", max_length=LONGEST_FORM, description="What they become in the other language.")
    both: bool = Field(default=False, description="Also the other way round: the target becomes the first form.")
    case_sensitive: bool = Field(default=False, description="Only as written: US is not us.")
    whole_word: bool = Field(default=True, description="Not inside of longer words.")
    never_translate: bool = Field(default=False, description="A name: the other language gets it as it was said.")
    inflects: bool = Field(default=False, description="Another ending of the target's words counts as the target.")
    hotword: bool = Field(default=True, description="The recogniser is told to expect the first form.")
    say: str = Field(default="", max_length=LONGEST_FORM, description="Respelling of the target, for the voice.")
    ipa: str = Field(default="", max_length=LONGEST_FORM, description="The target in IPA, for voices that take it.")
    spell: bool = Field(default=False, description="The voice reads the target letter by letter.")

    @model_validator(mode="after")
    def _is_a_term(self) -> Self:
        self.term()
        return self

    def spellings(self) -> tuple[str, ...]:
        """The source spellings."""
        return (self.forms,) if isinstance(self.forms, str) else tuple(self.forms)

    def term(self) -> Term:
        """As the matcher takes it."""
        own = tuple(self.forms.values()) if isinstance(self.forms, dict) else ()
        return Term(
            self.spellings(),
            self.target or (own[0] if own else ""),
            own,
            case_sensitive=self.case_sensitive,
            whole_word=self.whole_word,
            never_translate=self.never_translate,
            inflects=self.inflects,
        )

    def reverse(self) -> Term | None:
        """The term of the other direction, when it holds for both."""
        if not self.both:
            return None
        term, forms = self.term(), self.spellings()
        if self.never_translate:
            return term
        return Term(
            term.targets or (term.target,),
            forms[0],
            forms if term.targets else (),
            case_sensitive=self.case_sensitive,
            whole_word=self.whole_word,
            inflects=self.inflects,
        )


class RuleEntry(_Entry):
    """What the recogniser writes, and what is meant."""

    language: Language
    forms: Form | Annotated[list[Form], Field(min_length=1)] = Field(description="What is heard: AAPL.")
    write: Form = Field(description="What is meant: Apple Inc.")
    case_sensitive: bool = Field(default=False, description="Only as written.")
    whole_word: bool = Field(default=True, description="Not inside of longer words.")

    def term(self) -> Term:
        """As the matcher takes it."""
        forms = (self.forms,) if isinstance(self.forms, str) else tuple(self.forms)
        return Term(forms, self.write, case_sensitive=self.case_sensitive, whole_word=self.whole_word)


class IdiomEntry(_Entry):
    """An idiom and its meaning, both in the language that it is said in."""

    source: Language = Field(alias="from")
    to: Language
    say: str = Field(min_length=1, max_length=LONGEST_IDIOM, description="{kick|kicks|kicked} the bucket")
    means: str = Field(min_length=1, max_length=LONGEST_IDIOM, description="{1:die|dies|died}")

    @model_validator(mode="after")
    def _is_an_idiom(self) -> Self:
        self.idiom()
        return self

    def idiom(self) -> Idiom:
        """As the table takes it."""
        return Idiom(self.say, self.means)


class PronunciationEntry(_Entry):
    """How a word of a language is spoken, whatever it translates."""

    language: Language
    written: Form
    say: str = Field(default="", max_length=LONGEST_FORM, description="Respelling: Kovaltchik.")
    ipa: str = Field(default="", max_length=LONGEST_FORM, description="IPA, for voices that take it.")
    spell: bool = Field(default=False, description="Letter by letter.")

    @model_validator(mode="after")
    def _says_how(self) -> Self:
        if not (self.say or self.ipa or self.spell):
            raise ValueError(f"the pronunciation of {self.written!r} needs say, ipa or spell")
        return self


class Document(_Entry):
    """A whole list."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="Gateway terms")

    hotwords: dict[Language, list[Form]] = Field(default={}, description="Words that the recogniser should expect.")
    terms: list[TermEntry] = []
    rules: list[RuleEntry] = Field(default=[], description="Corrections of what was recognised.")
    idioms: list[IdiomEntry] = Field(default=[], description="In addition to the tables that ship.")
    pronunciations: list[PronunciationEntry] = []


_TERMS = TypeAdapter(list[TermEntry])


def read_document(data: Any) -> Document:
    """The document of JSON data. GlossaryError names the faults, one a line.

    Many terms are checked piece by piece: pydantic holds the interpreter lock while it works, and the telephones'
    frames need it every 20 ms.
    """
    faults: list[str] = []
    terms: list[TermEntry] = []
    many = data.get("terms") if isinstance(data, dict) else None
    if isinstance(many, list) and len(many) > AT_A_TIME:
        data = {**data, "terms": []}
        for first in range(0, len(many), AT_A_TIME):
            try:
                terms += _TERMS.validate_python(many[first : first + AT_A_TIME])
            except ValidationError as error:
                faults += _faults(error, ("terms",), first)
    try:
        document = Document.model_validate(data)
    except ValidationError as error:
        faults += _faults(error)
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        raise GlossaryError("\n".join([*dict.fromkeys(faults[:MOST_FAULTS]), *more]))
    return document.model_copy(update={"terms": terms}) if terms else document


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of the document."""
    return Document.model_json_schema(by_alias=True)


def _faults(error: ValidationError, before: tuple[str, ...] = (), first: int = 0) -> list[str]:
    return [_fault(one, before, first) for one in error.errors(include_url=False, include_input=False)]


def _fault(error: Any, before: tuple[str, ...], first: int) -> str:
    place = ""
    for part in (*before, *error["loc"]):
        if isinstance(part, int):
            place += f" {part + first + 1}"
            first = 0
        elif part in Document.model_fields or not place:
            place += str(part)
        elif not part.startswith(("list[", "dict[", "str", "constrained-str", "function-")):
            place += f", {part}"
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown key; the keys are those of `gateway dict schema`"
    return f"{place or 'the document'}: {error['msg'].removeprefix('Value error, ')}"
