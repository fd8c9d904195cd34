"""A fragment's path as text and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from p4fabric.base import units

from testbed.number_formats import BLOCKS
from testbed.protocols import wire
from testbed.results.counters import EVENTS
from testbed.setup import Setup
from testbed.tracing.fragments import Fragment, place_of, title_of
from testbed.tracing.packets import Packet, numbers
from testbed.tracing.path import ARRIVED, GONE, HANDLED, SENT, Path, Step
from testbed.tracing.watch import Slot, Values


def lines(setup: Setup, fragment: Fragment, path: Path) -> Iterator[str]:
    """The text of one fragment: its names, where its result waited, and every step."""
    place = place_of(setup, fragment)
    yield f"{title_of(setup, fragment)}  (in packets: {fragment.filter})"
    if place is not None:
        yield (
            f"  job {place.job}, iteration {place.iteration}, tensor {place.tensor}"
            f" ({place.tensor_number}), positions from {place.position} on"
        )
    if not path.steps:
        yield "  no packet of it was seen"
        return
    if path.waits:
        late_ns = path.late_ns or 0
        yield ""
        yield f"  from its first packet to its result at the last worker: {units.time(late_ns)}"
        time = units.time.common(wait.time_ns for wait in path.waits)
        rows = [
            (time(wait.time_ns), units.share(wait.time_ns / max(late_ns, 1)), wait.what)
            for wait in path.waits
        ]
        yield from _columns(("time", "share", "where it waited"), rows, 2)
    else:
        yield "  no worker got a result of it"
    begin_ns = path.steps[0].time_ns
    yield ""
    yield f"  every step, from {_us(begin_ns)} us after the start on:"
    steps = [
        (
            _us(step.time_ns - begin_ns),
            step.node,
            text(setup, fragment, step.packet),
            what(setup, fragment, step),
        )
        for step in path.steps
    ]
    yield from _columns(("us", "node", "packet", "what happened"), steps, 1)


def text(setup: Setup, fragment: Fragment, packet: Packet) -> str:
    """A packet in words, with its fragment if that is another one."""
    other = Fragment(packet.job, packet.fragment)
    if other == fragment:
        return packet.text
    return f"{packet.text} of {title_of(setup, other)}"


def what(setup: Setup, fragment: Fragment, step: Step) -> str:
    """Event of a step, in words."""
    ended = f"; {step.end}" if step.end else ""
    if step.kind == SENT:
        return f"sent to {step.peer}{ended}"
    if step.kind == GONE:
        return f"leaves its queue to {step.peer}{ended}"
    if step.kind == ARRIVED:
        return f"arrives from {step.peer}"
    return f"{_handled(setup, fragment, step)}{ended}"


def _handled(setup: Setup, fragment: Fragment, step: Step) -> str:
    words = [step.event.replace("_", " ") if step.event else "forwarded"]
    before, after = step.before, step.after
    if before is not None and after is not None and before != after:
        was, now = (slot_text(setup, fragment, each) for each in (before, after))
        words.append(f"aggregator {before.place}: {was} -> {now}")
    elif before is not None and step.event not in ("", "passes", "over_rate", "results_passed"):
        words.append(f"aggregator {before.place}: {slot_text(setup, fragment, before)}")
    if evictor := evicted_by(step):
        words.append(f"evicted by {title_of(setup, evictor)}, priority {step.packet.priority}")
    if step.leaves is not None and step.leaves.key != step.packet.key:
        words.append(f"{text(setup, fragment, step.leaves)} goes on")
    if setup.platform.sum.is_float and step.values is not None:
        words += _values(setup, step, step.values)
    return "; ".join(words)


def _values(setup: Setup, step: Step, values: Values) -> Iterator[str]:
    """The number that came, the sum that the aggregator has then, and the sum that goes on."""
    short = setup.platform.sum.numbers
    known = (
        ("value", values.came, step.packet),
        ("sum", values.kept, None),
        ("sum that goes on", values.left, step.leaves),
    )
    for what, word, packet in known:
        narrow = packet is not None and packet.flags & wire.SHORT
        if word is None or (narrow and short == BLOCKS):
            continue
        if packet is not None and packet.flags & wire.INTEGERS:
            yield f"{what} {word}"
            continue
        bits = (word << 16 if narrow else word) & 0xFFFFFFFF
        yield f"{what} {np.uint32(bits).view(np.float32):.9g}"


def slot_text(setup: Setup, fragment: Fragment, slot: Slot) -> str:
    """An aggregator's content in words, with its fragment if that is another one."""
    if slot.fragment is None:
        return "empty"
    of = "" if slot.fragment == fragment else f" {title_of(setup, slot.fragment)}"
    priority = "" if slot.priority is None else f" priority {slot.priority}"
    return f"{slot.state}{of} {numbers(slot.workers)}{priority}"


def evicted_by(step: Step) -> Fragment | None:
    """The fragment whose packet has taken the aggregator of another one."""
    taker = Fragment(step.packet.job, step.packet.fragment)
    before, after = step.before, step.after
    if before is None or after is None or before.fragment in (None, taker):
        return None
    return taker if after.fragment == taker else None


def data(setup: Setup, fragment: Fragment, path: Path) -> dict[str, object]:
    """The same for JSON; times are ns since the start of the run."""
    place = place_of(setup, fragment)
    return {
        "fragment": title_of(setup, fragment),
        "place": place._asdict() if place else None,
        "filter": fragment.filter,
        "late_ns": path.late_ns,
        "waits": [wait._asdict() | {"time_ns": wait.time_ns} for wait in path.waits],
        "steps": [_step_data(setup, step) for step in path.steps],
    }


def _step_data(setup: Setup, step: Step) -> dict[str, object]:
    found: dict[str, object] = {
        "number": step.number,
        "time_ns": step.time_ns,
        "node": step.node,
        "kind": step.kind,
        "peer": step.peer,
        "packet": _packet_data(setup, step.packet),
        "cause": step.cause.number if step.cause else None,
        "content": step.content.number if step.content else None,
        "end": step.end or None,
        "ends": [{"what": what, "to": peer} for what, peer in step.ends],
    }
    if step.kind == HANDLED:
        evictor = evicted_by(step)
        found |= {
            "event": step.event or None,
            "event_means": EVENTS.get(step.event),
            "before": _slot_data(setup, step.before),
            "after": _slot_data(setup, step.after),
            "evicted_by": title_of(setup, evictor) if evictor else None,
            "leaves": _packet_data(setup, step.leaves) if step.leaves else None,
        }
    return found


def _packet_data(setup: Setup, packet: Packet) -> dict[str, object]:
    of = Fragment(packet.job, packet.fragment)
    bits = [bit for bit in range(packet.workers.bit_length()) if packet.workers >> bit & 1]
    fields = packet._asdict() | {"workers": bits}
    return {"text": packet.text, "fragment_title": title_of(setup, of), **fields}


def _slot_data(setup: Setup, slot: Slot | None) -> dict[str, object] | None:
    if slot is None:
        return None
    bits = [bit for bit in range(slot.workers.bit_length()) if slot.workers >> bit & 1]
    owner = title_of(setup, slot.fragment) if slot.fragment else None
    return {
        "aggregator": slot.place,
        "state": slot.state,
        "fragment": owner,
        "workers": bits if owner else [],
        "priority": slot.priority if owner else None,
    }


def _us(ns: int) -> str:
    return f"{ns // 1000:,}.{ns % 1000:03}".replace(",", " ")


def _columns(header: Sequence[str], rows: Sequence[Sequence[str]], right: int) -> Iterator[str]:
    """Rows with columns that line up, the first `right` of them to the right; the last is as long
    as it is."""
    table = [tuple(header), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(header) - 1)]
    for row in table:
        cells = [
            cell.rjust(width) if place < right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        yield "    " + "  ".join([*cells, row[-1]])
