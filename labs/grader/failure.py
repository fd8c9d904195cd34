"""A check that a submission does not pass, and its report.

The reader is a student who wants to know what was sent, what was expected, and what came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labs.grader.packets import Difference, summary

MAX_DIFFERENCES = 12
MAX_HISTORY = 8
LINE = 400  # characters


@dataclass
class Failure(Exception):
    """A failed check: the reason in a sentence, and the evidence.

    `sent` is (port, frame); `expected` and `got` are lists of (port, frame) in order per port;
    `differences` are those of the first frame that differs, `where` says which that is; `history`
    are the packets of the check before `sent`, as (port, frame); `case` is the class of case, where
    values are hidden.
    """

    message: str
    sent: tuple[int, bytes] | None = None
    expected: Sequence[tuple[int, bytes]] | None = None
    got: Sequence[tuple[int, bytes]] | None = None
    differences: Sequence[Difference] = ()
    where: str = ""
    history: Sequence[tuple[int, bytes]] = ()
    details: list[str] = field(default_factory=list)
    case: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def hidden_lines(self, case: str) -> list[str]:
        """The kind of failure, without any value.

        Args:
            case: the class of case that the check was at.
        """
        what = self.case
        if not what and self.differences:
            names = dict.fromkeys(d.field.partition("[")[0] for d in self.differences)
            what = f"a packet that leaves differs in {', '.join(names)}"
        elif not what and self.got is not None and not self.got:
            what = "nothing leaves the switch"
        elif not what and self.expected is not None and not self.expected:
            what = "a packet leaves that should not"
        return [": ".join(text for text in (case, what) if text) or "a case of this test fails"]

    def lines(self) -> list[str]:
        """The message and what belongs to it, for a terminal."""
        made = [self.message, *self.details]
        if self.history:
            left = len(self.history) - MAX_HISTORY
            made.append("before it" + (f" (and {left} packets earlier)" if left > 0 else ""))
            made += [f"    {_packet(p)}" for p in self.history[-MAX_HISTORY:]]
        if self.sent is not None:
            made.append(f"sent      {_packet(self.sent)}")
        for name, packets in (("expected", self.expected), ("got", self.got)):
            if packets is not None:
                made += _packets(name, packets)
        if self.differences:
            made.append(self.where)
            width = max(len(d.field) for d in self.differences[:MAX_DIFFERENCES])
            for d in self.differences[:MAX_DIFFERENCES]:
                made.append(
                    f"    {d.field:<{width}}  expected {d.expected or 'no such field'},"
                    f" got {d.got or 'no such field'}"
                )
            if len(self.differences) > MAX_DIFFERENCES:
                made.append(f"    and {len(self.differences) - MAX_DIFFERENCES} fields more")
        return [line[:LINE] for line in made]


def _packet(packet: tuple[int, bytes]) -> str:
    port, data = packet
    return f"port {port}: {summary(data)}"


def _packets(name: str, packets: Sequence[tuple[int, bytes]]) -> list[str]:
    """One line for equal packets on several ports, in the order of the first of each."""
    if not packets:
        return [f"{name:<9} nothing"]
    ports: dict[bytes, list[int]] = {}
    for port, data in packets:
        ports.setdefault(data, []).append(port)
    made = []
    for number, (data, where) in enumerate(list(ports.items())[:MAX_HISTORY]):
        label = name if number == 0 else ""
        listed = ", ".join(map(str, where[:12]))
        made.append(f"{label:<9} port{'s' if len(where) > 1 else ''} {listed}: {summary(data)}")
    if len(ports) > MAX_HISTORY:
        made.append(f"{'':<9} and {len(ports) - MAX_HISTORY} packets more")
    return made
