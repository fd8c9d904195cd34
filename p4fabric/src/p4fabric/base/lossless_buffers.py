"""Buffers of switches with lossless links: worked out from settings, rates, delays and frames.

Headroom is for what still comes after a pause: while the pause frame waits for the frame on the
wire and travels, the far end sends on; then the far end finishes the frame that it has begun, what
is on the wire arrives, and the packet that led to the pause counts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from p4engine.switch.lossless_links import BufferSettings, Paused

from p4fabric.base.config.lossless_settings import CREDITS, LosslessSettings
from p4fabric.base.topology import Topology

PAUSE_BYTES = 60  # of a pause frame
SECOND = 10**9
USUAL_BUFFER, USUAL_RATE = 16_000_000, 50 * 10**9
FEWEST_FRAMES = 2  # that an input with credits has room for
PRIORITY = 3  # of lossless packets, as usual with RDMA
# In real time a switch or a kernel may be late to obey, when others have the processor.
LATENESS_NS = 20_000_000


class Buffered(Protocol):
    """A switch of p4engine, in this process or by its control interface."""

    def buffer_set(self, buffer: Any, headroom: Any, hosts: Any) -> None: ...
    def flow_stats(self, port: int, priority: int) -> dict[str, int]: ...
    def pauses(self) -> list[Any]: ...


class Direction(Protocol):
    """A direction of a link."""

    @property
    def bandwidth_bps(self) -> int | None: ...
    @property
    def delay_ns(self) -> int: ...
    @property
    def jitter_ns(self) -> int: ...


@dataclass(frozen=True)
class Port:
    """A port of a switch: its link's directions from the switch and to it, and whether the far end
    is a host. latency_ns: a packet's time through a switch, which is part of what it sends."""

    leaving: Direction
    entering: Direction
    is_host: bool


@dataclass(frozen=True)
class BufferPlan:
    """The buffer of one switch. `needed`, `headroom`: bytes by port. `too_small`: what cannot be
    lossless, as a sentence; "": nothing. `is_slow`: credits do not keep all links busy."""

    buffer: BufferSettings
    needed: Mapping[int, int]
    headroom: Mapping[int, int]
    too_small: str
    too_small_key: str
    is_slow: bool


def needed_headroom(port: Port, longest: int, latency_ns: int) -> int:
    """Bytes that can come after an input has been paused; `longest`: frame."""
    leaving_bps, entering_bps = port.leaving.bandwidth_bps or 1, port.entering.bandwidth_bps or 0
    there_ns = port.leaving.delay_ns + port.leaving.jitter_ns + latency_ns
    back_ns = port.entering.delay_ns + port.entering.jitter_ns
    back_ns += 0 if port.is_host else latency_ns
    begun_bytes = -(-(longest + PAUSE_BYTES) * entering_bps // leaving_bps)
    on_wire = -(-(there_ns + back_ns) * entering_bps // (8 * SECOND))
    return on_wire + begun_bytes + 2 * longest


def plan_buffer(
    given: LosslessSettings,
    ports: Mapping[int, Port],
    longest: int,
    latency_ns: int,
    priority: int = PRIORITY,
) -> BufferPlan:
    """The buffer of a switch with these ports, all of which must have a rate."""
    credits = given.control == CREDITS
    needed = {n: needed_headroom(port, longest, latency_ns) for n, port in ports.items()}
    headroom = {
        n: given.headroom_bytes or (2 * each if credits else each + longest)
        for n, each in needed.items()
    }
    fixed = sum(headroom.values()) + (0 if credits else len(ports) * given.reserve_bytes)
    fastest = max((each.leaving.bandwidth_bps or 0 for each in ports.values()), default=0)
    usual = max(USUAL_BUFFER * fastest // USUAL_RATE, 2 * fixed)
    size = given.buffer_bytes or (fixed if credits else usual)
    output = given.pause_by == "output"
    threshold = given.threshold_bytes
    if output and threshold is None:
        threshold = max((size - fixed) // 2, longest)
    short, key = "", ""
    if credits:
        for port, each in headroom.items():
            if each < FEWEST_FRAMES * longest:
                key = "headroom"
                short = (
                    f"port {port}: an input of {each} B has no room for two frames; allowed: at"
                    f" least {FEWEST_FRAMES * longest} B"
                )
    else:
        port = max(needed, key=lambda n: needed[n] - headroom[n], default=0)
        if needed and headroom[port] < needed[port]:
            key = "headroom"
            short = (
                f"port {port}: {needed[port]} B can come after a pause, and the headroom is"
                f" {headroom[port]} B; allowed: at least {needed[port]} B, or auto"
            )
    if not short and size < fixed + (0 if credits else longest):
        key = "buffer"
        short = (
            f"headroom and reserve of {len(ports)} ports take {fixed} B of {size} B; allowed: at"
            f" least {fixed + longest} B, or auto"
        )
    buffer = BufferSettings(
        kind=given.control,
        size=size,
        longest=longest,
        reserve=given.reserve_bytes,
        threshold=threshold,
        shift=given.shift,
        resume=min(given.resume_bytes, (threshold or given.resume_bytes) // 2),
        classes=(priority,),
        by_output=output,
    )
    slow = credits and any(headroom[n] < 2 * needed[n] for n in ports)
    return BufferPlan(buffer, needed, headroom, short, key, slow)


LinkEnds = Callable[[int], tuple[Direction, Direction]]  # both directions of a link, by number


def ports_of(topology: Topology, switch: str, link: LinkEnds) -> dict[int, Port]:
    """The ports of a switch."""
    found = {}
    for number, (neighbour, index, end) in topology.ports(switch).items():
        both = link(index)
        found[number] = Port(both[end], both[1 - end], topology.is_host(neighbour))
    return found


def plan_buffers(
    given: LosslessSettings, topology: Topology, link: LinkEnds, longest: int, latency_ns: int
) -> Iterator[tuple[str, BufferPlan]]:
    """The buffer of each switch, all of whose ports must have a rate."""
    for switch in topology.switches:
        ports = ports_of(topology, switch, link)
        yield switch, plan_buffer(given, ports, longest, latency_ns)


def without_rate(topology: Topology, link: LinkEnds) -> str:
    """A link without a rate, which pauses need; "": there is none."""
    for index, (a, b) in enumerate(topology.links):
        if any(each.bandwidth_bps is None for each in link(index)):
            return f"{a}-{b}"
    return ""


def make_lossless(plan: BufferPlan, topology: Topology, name: str, switch: Buffered) -> None:
    """Give a switch its buffer, after the shapes of its links."""
    ports = topology.ports(name).items()
    hosts = [number for number, (neighbour, _, _) in ports if topology.is_host(neighbour)]
    switch.buffer_set(asdict(plan.buffer), [*plan.headroom.items()], hosts)


def described(plans: Mapping[str, BufferPlan]) -> list[str]:
    """The buffers as sentences, one for each kind of switch."""
    alike: dict[str, list[str]] = {}
    for name, plan in plans.items():
        alike.setdefault(_one(plan), []).append(name)
    return [f"lossless, {', '.join(names)}: {text}" for text, names in alike.items()]


def _one(plan: BufferPlan) -> str:
    buffer = plan.buffer
    rooms = sorted({(plan.needed[port], plan.headroom[port]) for port in plan.needed})
    kept = ", ".join(f"{room:,} B (needed: {need:,} B)" for need, room in rooms)
    if buffer.kind == CREDITS:
        slow = "; fewer than two round trips of a link: it will idle" if plan.is_slow else ""
        return f"credits for {kept} at each port{slow}"
    fixed = sum(plan.headroom.values()) + len(plan.headroom) * buffer.reserve
    shared = buffer.size - fixed
    if buffer.threshold is None:
        when = f"above 1/{1 << buffer.shift} of what is left of {shared:,} B shared"
    else:
        which = "output queues" if buffer.by_output else "inputs"
        when = f"{which} above {buffer.threshold:,} B of {shared:,} B shared"
    return f"pauses {when}; buffer {buffer.size:,} B; headroom {kept}; reserve {buffer.reserve:,} B"


Row = dict[str, object]  # of a table


def pauses_by_cause(
    switch: Buffered, ports: Mapping[int, tuple[str, int, int]], end_ns: int
) -> Iterator[Row]:
    """Pauses of the far ends of a switch's links in a run that ended at `end_ns`, by port and by
    the node behind the output for whose packets the buffer was full."""
    found: dict[tuple[int, int], list[int]] = {}
    for each in (Paused(*row) for row in switch.pauses()):
        until_ns = end_ns if each.until_ns is None else min(each.until_ns, end_ns)
        place = each.port, -1 if each.cause is None else each.cause
        found.setdefault(place, []).append(max(until_ns - each.from_ns, 0))
    for (port, cause), lasted in sorted(found.items()):
        yield {
            "port": port,
            "neighbour": ports[port][0],
            "cause": ports[cause][0] if cause in ports else None,
            "pauses": len(lasted),
            "paused_ns": sum(lasted),
            "longest_ns": max(lasted),
        }


def buffer_use(switch: Buffered, topology: Topology, name: str, priority: int) -> Iterator[Row]:
    """Use of the buffer by what came in at each port of a switch, and the pauses of both ends."""
    for port, (neighbour, _, _) in topology.ports(name).items():
        seen = switch.flow_stats(port, priority)
        yield {
            "port": port,
            "neighbour": neighbour,
            "peak_bytes": seen["peak"],
            "headroom_bytes": seen["headroom"],
            "headroom_peak_bytes": seen["peak_headroom"],
            "drops": seen["drops"],
            "frames_sent": seen["frames_sent"],
            "frames_received": seen["frames_received"],
            "paused_ns": seen["paused_ns"],
            "host_paused_ns": seen["host_paused_ns"] if topology.is_host(neighbour) else None,
            "unknown": seen["unknown"],
        }
