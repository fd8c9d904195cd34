"""Flows: what one host sends to another without a program of its own.

An entry of a file that describes them, such as the key `flows` of a network file, is a `FlowKeys`
with more keys, and stands for a `Flow` from each of its senders to each of its receivers. What
sends them in virtual time is generator.py, on Mininet flow_process.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar

from pydantic import Field, PrivateAttr, model_validator

from p4fabric.base.config.explain import keys_of
from p4fabric.base.config.fields import (
    HOUR,
    NAME,
    Choice,
    Nodes,
    Quantity,
    Section,
    Whole,
    as_pydantic,
)
from p4fabric.base.config.units import PACKETS, RATE, TIME, FieldError
from p4fabric.base.transports import (
    MOST_IN_FLIGHT,
    OWN_WINDOW,
    RECOVERIES,
    WINDOW_TEXT,
    WINDOW_WORDS,
    is_control,
)

TCP, RC = "tcp", "rc"

Window = Annotated[int | None, Quantity(PACKETS, 1, MOST_IN_FLIGHT, WINDOW_WORDS)]


@dataclass(frozen=True)
class ControlName(Choice):
    """One of some names, or of a congestion control of another package."""

    def parse(self, value: object) -> str:
        if isinstance(value, str) and value not in self.words and is_control(value):
            return value
        return super().parse(value)


def refuse(found: str, allowed: str) -> None:
    """Raise the error of a section for keys that do not fit together."""
    raise as_pydantic(FieldError(found, allowed))


class FlowKeys(Section):
    """The keys that entries of both files have."""

    joker: ClassVar[str]  # in place of hosts
    renamed: ClassVar[dict[str, str]] = {}  # a key, or "key: value", and what it is called now
    _old: tuple[str, ...] = PrivateAttr(default=())  # those of `renamed` that the file has

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "kind and number, such as `tcp-0`; `flow-0` of networks"},
        description="The name in tables. Several flows get numbers, those of networks their hosts'"
        " names.",
    )
    kind: str
    congestion_control: str | None
    sources: Annotated[tuple[str, ...], Nodes()] = Field(alias="from")
    targets: Annotated[tuple[str, ...], Nodes()] | None = Field(default=None, alias="to")
    rate_bps: Annotated[int | None, Quantity(RATE, 1000, 10**15)] = Field(
        default=None,
        alias="rate",
        json_schema_extra={"default": "required with `udp`"},
        description="Rate of each flow while it sends, counted like that of links; only with"
        " `udp`.",
    )
    start_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0, alias="start", description="Start, from the start of the run."
    )
    duration_ns: Annotated[int | None, Quantity(TIME, 1, 24 * HOUR)] = Field(
        default=None,
        alias="for",
        json_schema_extra={"default": "to the end of the run"},
        description="Duration.",
    )
    on_ns: Annotated[int | None, Quantity(TIME, 100, HOUR)] = Field(
        default=None,
        alias="on",
        json_schema_extra={"default": "none: it always sends"},
        description="With `off`: duration of each sending period, from the start on.",
    )
    off_ns: Annotated[int | None, Quantity(TIME, 100, HOUR)] = Field(
        default=None,
        alias="off",
        json_schema_extra={"default": "none"},
        description="Duration of each silent period after it.",
    )
    recovery: Annotated[str | None, Choice(RECOVERIES)] = Field(
        default=None,
        json_schema_extra={"default": f"`{RECOVERIES[0]}` with `rc`"},
        description="Repair of losses; only with `rc`. `go_back_n`: the receiver drops what is"
        " behind a gap, and all from the gap on is sent again; `selective_repeat`: what is lost"
        " is.",
    )
    ack_every: Annotated[int | None, Whole(1, 64)] = Field(
        default=None,
        json_schema_extra={"default": "1 with `rc`"},
        description="Packets that one acknowledgement is for, without gaps; only with `rc`.",
    )
    window_packets: Window = Field(
        default=OWN_WINDOW,
        alias="window",
        description=f"Most packets in flight; only with `rc`. {WINDOW_TEXT}",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _in_new_words(cls, data: object, handler: Callable[[object], FlowKeys]) -> FlowKeys:
        if not isinstance(data, dict):
            return handler(data)
        old = tuple(word for word in cls.renamed if _has(data, word))
        gone = [word for word in old if word not in keys_of(cls)]
        new = {word: cls.renamed[word] for word in gone if cls.renamed[word] not in data}
        made = handler({new.get(key, key): value for key, value in data.items()})
        made._old = old
        return made

    @property
    def is_tcp(self) -> bool:
        return self.kind == TCP

    @property
    def is_rc(self) -> bool:
        return self.kind == RC

    @property
    def has_ends(self) -> bool:
        """True if its receiver acknowledges: TCP, or a reliable connection."""
        return self.is_tcp or self.is_rc

    @property
    def control(self) -> str:
        """The congestion control of `rc`."""
        return self.congestion_control or "none"

    @property
    def end_ns(self) -> int | None:
        """None: the end of the run."""
        return self.duration_ns and self.start_ns + self.duration_ns

    def ends_ns(self, run_ns: int) -> int:
        """The end in a run that ends at `run_ns`."""
        return run_ns if self.end_ns is None else min(self.end_ns, run_ns)

    @model_validator(mode="after")
    def _of_both_files(self) -> FlowKeys:
        if (self.on_ns is None) != (self.off_ns is None):
            refuse("one of on, off", "both or neither")
        own = self.window_packets == OWN_WINDOW or "window"
        given = self.recovery and "recovery", self.ack_every and "ack_every", own
        for key in given if not self.is_rc else ():
            if isinstance(key, str):
                refuse(f"{self.kind} with {key}", "kind rc, or no key")
        for hosts in (self.sources, self.targets or ()):
            if len(hosts) > 1 and (self.joker in hosts or len(set(hosts)) < len(hosts)):
                refuse(", ".join(hosts), f"different hosts, or {self.joker} alone")
        return self


def _has(data: dict[str, object], word: str) -> bool:
    key, _, value = word.partition(": ")
    return key in data and value in ("", data[key])


def old_words(entries: Iterable[FlowKeys], key: str) -> list[str]:
    """Notes on words of a file that the next version does not know. `key`: of the entries."""
    return [
        f"{key}[{number}]: `{old}` is now called `{entry.renamed[old]}`; the next version does not"
        " know the old word"
        for number, entry in enumerate(entries)
        for old in entry._old
    ]


Keys = TypeVar("Keys", bound=FlowKeys)


@dataclass(frozen=True)
class Flow(Generic[Keys]):
    """One flow: `number` from 0, `place` of its entry `keys`, both in the order of the file.
    `target`: the receiver, "" if it is not known. `mac`, `address`: of the destination, None where
    they follow from the receiver, or from packets of the file's own."""

    number: int
    place: int
    name: str
    keys: Keys
    source: str
    target: str
    mac: str | None = None
    address: str | None = None

    @property
    def title(self) -> str:
        """Name of the flow in messages."""
        return f"{self.name} ({self.keys.kind}, {self.source} to {self.target})"
