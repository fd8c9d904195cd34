"""The fields of a packet that left: a test's traced rerun tells what was deparsed."""

from __future__ import annotations

from pathlib import Path

from p4engine.backend.build import Compiled
from p4engine.stf.stf_parser import parse
from p4engine.stf.stf_run import Run
from p4engine.trace.events import Event
from p4engine.trace.tracer import Tracer

Span = tuple[str, str, int, int]  # header, field, first bit, bits


def packet_fields(
    compiled: Compiled, test: str | Path, data: bytes | None, seed: int = 0
) -> list[Span]:
    """The fields of the packet `data`, as the traced program `compiled` wrote them during the test;
    nothing if no packet of the test begins so."""
    if data is None:
        return []
    run = Run(compiled, parse(Path(test).read_text(errors="replace"), str(test)), seed)
    found: list[Span] = []
    headers: list[Event] = []

    def look() -> None:
        for event in tracer.take():
            if event.kind == "begin":
                headers.clear()
            elif event.kind == "emit":
                headers.append(event)
            elif event.kind == "end" and headers and _written(headers, data):
                found[:] = _spans(headers)

    try:
        tracer = Tracer(run.switch)
        run.after_packet = look
        run.run()
        look()
    finally:
        run.close()
    return found


def _written(headers: list[Event], data: bytes) -> bool:
    """True if the packet begins with these headers."""
    return data.startswith(b"".join(event.data for event in headers))


def _spans(headers: list[Event]) -> list[Span]:
    return [
        (event.what(), name, first, bits)
        for event in headers
        for name, _, first, bits, _ in event.fields()
    ]
