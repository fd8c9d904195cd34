"""The steps of a traced program with its packets, as events.

A build with `compile_program(..., trace=True)` reports every step; a `Tracer` listens to one
switch and collects the reports as events (events.py), which trace_text.py prints and stf_fields.py
reads.

    switch = Switch(compile_program("l2.p4", trace=True))
    tracer = Tracer(switch)
    switch.receive(1, frame, 0)
    print("\\n".join(tracer.lines()))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from p4engine.trace.events import Event, Site, read_event
from p4engine.values.numbers import ControlError, number

LONGEST = 200_000  # events kept before the oldest are forgotten


class TraceError(ControlError):
    """A trace that cannot be made."""


class Tracer:
    """Collects the events of a switch with a traced program.

    Args:
        port: only packets that came in there.
        where: only packets with these values of extracted fields, such as {"hdr.ipv4.ttl": 1};
            names may be shortened to what they end in.
        limit: packets after which it stops by itself; None: never. Clones and passes of one packet
            count once.
    """

    def __init__(
        self,
        switch: Any,
        port: int | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ):
        info = switch.compiled.info
        if info.trace is None:
            raise TraceError("this is not a traced build of the program: compile with trace=True")
        for value, what in ((port, "port"), (limit, "number of packets")):
            if value is not None and type(value) is not int:
                raise TraceError(f"the {what} to trace is a whole number, not {value!r}")
        if where is not None and not isinstance(where, Mapping):
            raise TraceError(f"what to trace is given as {{field: value}}, not as {where!r}")
        self.switch, self.info = switch, info
        self.sites: list[Site] = info.trace.sites
        self.port, self.limit = port, limit
        self.where = {name: number(v, 1 << 16, name) for name, v in (where or {}).items()}
        self.events: deque[Event] = deque(maxlen=LONGEST)
        self.packets = 0
        # By ingress port: events of passes not yet known to match, conditions that hold so far.
        self._undecided: dict[int, list[Event]] = {}
        self._matched: dict[int, set[str]] = {}
        switch.pipeline.on_trace(self._on_event)

    def stop(self) -> None:
        """Listen no longer; the events stay."""
        self.switch.pipeline.on_trace(None)

    def _on_event(self, port: int, text: str) -> None:
        if self.port is not None and port != self.port:
            return
        event = read_event(self.sites, port, text)
        starts = event.kind == "packet" and event.values[2] == 0  # not one that comes again
        if not self.where:
            if starts and not self._counts():
                return
            self.events.append(event)
            return
        if starts:
            self._undecided[port], self._matched[port] = [], set()
        if port not in self._undecided:
            return
        seen = self._matched[port]
        if event.kind == "extract" and len(seen) < len(self.where):
            for name, value, *_ in event.fields():
                full = f"{event.what()}.{name}"
                for wanted, number_ in self.where.items():
                    if value == number_ and (full == wanted or full.endswith("." + wanted)):
                        seen.add(wanted)
            if len(seen) == len(self.where):
                if not self._counts():
                    del self._undecided[port]
                    return
                self.events.extend(self._undecided[port])
                self._undecided[port] = []
        if len(seen) == len(self.where):
            self.events.append(event)
        else:
            self._undecided[port].append(event)

    def _counts(self) -> bool:
        """One more packet; False if it is one too many."""
        if self.limit is not None and self.packets >= self.limit:
            self.stop()
            return False
        self.packets += 1
        return True

    def take(self) -> list[Event]:
        """The events so far, which are then forgotten."""
        made = []
        while self.events:
            made.append(self.events.popleft())
        return made

    def lines(self) -> list[str]:
        """Like `take`, as plain lines of text."""
        from p4engine.trace.trace_text import Printer

        printer = Printer(self.info)
        return [line.plain for event in self.take() for line in printer.lines(event)]
