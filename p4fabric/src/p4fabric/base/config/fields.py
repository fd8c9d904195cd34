"""The kinds of value that a key of a configuration file can have.

Each kind reads what YAML gave (`parse`), prints it again so that it reads back the same (`show`),
and says in words what it allows (`allowed`), for errors and for pages of documentation alike.
pydantic's own coercions are not used: they would turn `true` into 1 and "3" into 3. A kind stands
in an annotation, `Annotated[int, Quantity(TIME, 0, HOUR)]`, in a `Section`.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from p4fabric.base.config import units
from p4fabric.base.config.units import Dimension, FieldError, describe
from p4fabric.base.errors import did_you_mean

JsonSchema: TypeAlias = dict[str, Any]  # as pydantic has it

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000
HOUR = 3600 * SECOND


class Section(BaseModel):
    """A part of the file: unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def as_pydantic(error: FieldError) -> PydanticCustomError:
    """The same error in the form that pydantic collects, keeping its parts."""
    parts = {"found": error.found, "allowed": error.allowed, "hint": error.hint}
    return PydanticCustomError("field", "{found}; {allowed}", parts)


def user_file(name: str, folder: Path) -> Path:
    """The absolute path of a file that one in `folder` names. Raises FieldError unless
    it is there."""
    file = (folder / name).absolute()
    try:
        there = file.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        what = "there is no"
        if os.path.exists(file):
            kind = "folder" if os.path.isdir(file) else "device, FIFO or socket"
            what = f"this is a {kind}:"
        raise FieldError(describe(name), f"a file; {what} {describe(str(file))[1:-1]}")
    return file.resolve()


class Kind:
    """A kind of value. Subclasses say how it is read, printed and described."""

    def parse(self, value: object) -> object:
        """The value inside the program. Raises FieldError."""
        raise NotImplementedError

    def show(self, value: Any) -> Any:
        """The value as it is written into YAML (a string, number or boolean)."""
        return value

    @property
    def allowed(self) -> str:
        raise NotImplementedError

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def validate(value: object) -> object:
            try:
                return self.parse(value)
            except FieldError as error:
                raise as_pydantic(error) from None

        return core_schema.no_info_plain_validator_function(validate)

    def json_schema(self) -> JsonSchema:
        """The part of it that a JSON schema can express, for editors."""
        return {"description": self.allowed}

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        return self.json_schema()


@dataclass(frozen=True)
class Quantity(Kind):
    """A number with a unit, from `low` to `high` base units. `words` are alternatives with their
    values (`unlimited`: None). Percentages become a float from 0 to 1, everything else an int."""

    dimension: Dimension
    low: int
    high: int
    words: tuple[tuple[str, int | None], ...] = ()

    def parse(self, value: object) -> int | float | None:
        meanings = dict(self.words)
        if isinstance(value, str) and value in meanings:
            return meanings[value]
        try:
            amount = units.parse(value, self.dimension, self.low, self.high)
        except FieldError as error:
            hint = error.hint or did_you_mean(value, meanings)
            raise FieldError(error.found, self._or_words(error.allowed), hint) from None
        return float(amount / 100) if self.dimension is units.PERCENT else int(amount)

    def show(self, value: int | float | None) -> str:
        for word, meaning in self.words:
            if value == meaning:
                return word
        if self.dimension is units.PERCENT:
            # The shortest decimal of the float, so that reading it gives the same float again.
            return units.show(Fraction(repr(value)) * 100, self.dimension)
        return units.show(cast(int, value), self.dimension)  # only percentages are floats

    @property
    def allowed(self) -> str:
        low, high = (units.show(each, self.dimension) for each in (self.low, self.high))
        return self._or_words(f"{self.dimension.name}, {low} to {high}")

    def json_schema(self) -> JsonSchema:
        words = [{"enum": [word for word, _ in self.words]}] if self.words else []
        # Quantities are text with a unit; 0 needs none.
        return {"anyOf": [{"type": "string", "pattern": r"\d"}, {"const": 0}, *words]}

    def _or_words(self, text: str) -> str:
        return ", or ".join((text, *(word for word, _ in self.words)))


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number from `low` to `high`; with `power_of_two`, only those. `word` is an
    alternative that becomes None."""

    low: int
    high: int
    power_of_two: bool = False
    word: str = ""

    def parse(self, value: object) -> int | None:
        if self.word and value == self.word:
            return None
        fits = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, float):
            fits = value.is_integer()  # 1e3
        if not isinstance(value, int | float) or not fits or not self.low <= value <= self.high:
            hint = ""
            if isinstance(value, str):
                quoted = re.fullmatch(r"[1-9][0-9]{0,17}", value)
                hint = "write it without quotes" if quoted else "digits only, without a unit"
            raise FieldError(describe(value), self.allowed, hint)
        if self.power_of_two and int(value) & (int(value) - 1):
            raise FieldError(describe(value), self.allowed)
        return int(value)

    @property
    def allowed(self) -> str:
        if self.power_of_two:
            powers, power = [], self.low
            while power <= self.high:
                powers.append(str(power))
                power *= 2
            return f"a power of two: {', '.join(powers)}"
        either = f", or {self.word}" if self.word else ""
        return f"a whole number from {self.low} to {self.high}{either}"

    def json_schema(self) -> JsonSchema:
        number = {"type": "integer", "minimum": self.low, "maximum": self.high}
        return {"anyOf": [number, {"const": self.word}]} if self.word else number

    def show(self, value: int | None) -> int | str | None:
        return self.word if self.word and value is None else value


@dataclass(frozen=True)
class Number(Kind):
    """A number from `low` to `high`; `low` itself only if `with_low`."""

    low: float
    high: float
    with_low: bool = True

    def parse(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FieldError(describe(value), self.allowed)
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise FieldError(describe(value), self.allowed)
        if value == self.low and not self.with_low:
            raise FieldError(describe(value), self.allowed)
        return float(value)

    @property
    def allowed(self) -> str:
        return f"a number {'from' if self.with_low else 'above'} {self.low:g} up to {self.high:g}"

    def json_schema(self) -> JsonSchema:
        low = "minimum" if self.with_low else "exclusiveMinimum"
        return {"type": "number", low: self.low, "maximum": self.high}


@dataclass(frozen=True)
class Flag(Kind):
    """true or false; on, off, yes and no are understood."""

    allowed = "true or false"

    def parse(self, value: object) -> bool:
        words = {"on": True, "yes": True, "off": False, "no": False}
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        if not isinstance(value, bool):
            raise FieldError(describe(value), self.allowed)
        return value

    def json_schema(self) -> JsonSchema:
        return {"anyOf": [{"type": "boolean"}, {"enum": ["on", "off", "yes", "no"]}]}


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words. `others` maps words that are not allowed, now or any more, to the
    reason."""

    words: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()

    def parse(self, value: object) -> str:
        reasons = dict(self.others)
        if isinstance(value, str) and value in reasons:
            raise FieldError(describe(value), self.allowed, reasons[value])
        if not isinstance(value, str) or value not in self.words:
            raise FieldError(describe(value), self.allowed, did_you_mean(value, self.words))
        return value

    @property
    def allowed(self) -> str:
        return ", ".join(self.words)

    def json_schema(self) -> JsonSchema:
        return {"enum": list(self.words)}


@dataclass(frozen=True)
class Text(Kind):
    """Text that matches a pattern; `words` describes the pattern."""

    pattern: str
    words: str

    def parse(self, value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value):
            hint = "put it in quotes" if isinstance(value, int | float) else ""
            raise FieldError(describe(value), self.words, hint)
        return value

    @property
    def allowed(self) -> str:
        return self.words

    def json_schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True)
class Nodes(Kind):
    """One name of a node, or a list of them; a tuple here. What may follow for some files only is
    checked in resolve.py."""

    def parse(self, value: object) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not names:
            raise FieldError(describe(value), self.allowed)
        return tuple(NODE.parse(name) for name in names)

    def show(self, value: tuple[str, ...]) -> str | tuple[str, ...]:
        return value[0] if len(value) == 1 else value

    @property
    def allowed(self) -> str:
        return "a host, such as h5, or a list of hosts"

    def json_schema(self) -> JsonSchema:
        name = {"type": "string"}
        return {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}


@dataclass(frozen=True)
class Variables(Kind):
    """Environment variables of a program; their values are text here. `reserved`: pattern of names
    that a file cannot give, and why."""

    reserved: str
    why: str

    def parse(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise FieldError(describe(value), self.allowed)
        for name, given in value.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise FieldError(describe(name), "a variable's name: letters, digits and _")
            if re.fullmatch(self.reserved, name):
                raise FieldError(name, "other variables", self.why)
            if isinstance(given, bool) or not isinstance(given, str | int | float):
                hint = "put it in quotes" if isinstance(given, bool) else ""
                raise FieldError(f"{name}: {describe(given)}", "text or a number", hint)
            if isinstance(given, str) and re.search(r"[\x00\ud800-\udfff]", given):
                raise FieldError(f"{name}: {describe(given)}", "text without NUL characters")
        return {name: str(given) for name, given in value.items()}

    @property
    def allowed(self) -> str:
        return "a mapping of names to text or numbers, such as {OMP_NUM_THREADS: 2}"

    def json_schema(self) -> JsonSchema:
        values = {"type": ["string", "number"]}
        return {"type": "object", "additionalProperties": values}


@dataclass(frozen=True)
class Reads:
    """Mark in an annotation of a key whose text names what a run reads, so that its content is
    part of the run's identity; who computes that knows what each `role` means."""

    role: str


def kind_of(info: FieldInfo) -> Kind | None:
    """The kind of value that a model's field holds; None for a section or a list of them."""
    return next((each for each in info.metadata if isinstance(each, Kind)), None)


@dataclass(frozen=True)
class WordOr:
    """Mark in an annotation, `Annotated[Model | str, WordOr(Model, words, example)]`: one of some
    words, or, without any, any text; or a section of the model, of which `example` is one."""

    model: type
    words: tuple[str, ...]
    example: str

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def validate(value: object, section: Callable[[object], object]) -> object:
            if isinstance(value, str) and value in self.words:
                return value
            if isinstance(value, dict | self.model):
                return section(value)
            words, hint = ", ".join(self.words), did_you_mean(value, self.words)
            if not self.words:
                try:
                    return ANY_TEXT.parse(value)
                except FieldError as error:
                    words, hint = error.allowed, error.hint
            allowed = f"{words}, or a mapping {self.example}"
            raise as_pydantic(FieldError(describe(value), allowed, hint))

        schema = handler.generate_schema(self.model)
        return core_schema.no_info_wrap_validator_function(validate, schema)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        words = {"enum": list(self.words)} if self.words else {"type": "string"}
        return {"anyOf": [words, handler(schema)]}


NAME = Text(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
    "a name of letters, digits and . _ - (at most 64, a letter or digit first)",
)
NODE = Text(r"[a-z][a-z0-9]{0,7}", "the name of a host or switch, such as h1")
ANY_TEXT = Text(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,4096}", "text")
