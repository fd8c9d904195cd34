"""Packets of tests held against the contract of the wire (`wire_contract`).

Switches that tests start (`switches.start_switches`) and runs in virtual time (`simulate.world`)
tell a *tap* what enters them from hosts and what leaves them. It keeps frames and checks many at
once, in arrays; `check` fails with the link, the row, the field and the packet. tests/conftest.py
asks for it after each test.

Frames that a test makes by hand may break rows, and what a switch makes of them, too. So what
enters a switch that is not `trusted` is not held against the rows; but a field that such a frame
has broken is no longer checked in what leaves this switch.

A run in virtual time is watched for its first FIRST frames in each direction at each switch, which
are all of them in most tests.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from p4engine.switch.library import Switch
from scapy.layers.l2 import Ether

from testbed.config.pcapng import INBOUND, OUTBOUND
from testbed.dissect import Ina
from testbed.protocols import sizes, wire
from testbed.protocols.host_spec import HostSpec, PoolSpec, SwitchmlSpec, TreesPart
from testbed.protocols.switchml import ONE_TREE, new_trees
from testbed.setup import Setup
from testbed.setup.host_specs import host_specs
from testbed.simulate import taps
from testbed.simulate.world import Nodes
from testbed.topology import host_ip, host_mac, switch_ip, switch_mac
from tests.support.wire_contract import FLAGS, ROWS, Row

FIRST = 3000  # frames of a switch and direction that are kept of a run in virtual time
AT_ONCE = 20_000  # frames that are checked together
TOLD = 3  # violations in a message

A2TP_BYPASS = 0xFFFFFFFF
WITH_VALUES = (wire.GRADIENT, wire.RESULT, wire.RESULT_ONE)
WITHOUT = tuple(kind | wire.WITHOUT_VALUES for kind in WITH_VALUES)


def _number(ip: str) -> int:
    return int.from_bytes(socket.inet_aton(ip), "big")


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


class Job:
    """What the contract needs to know of a communicator."""

    def __init__(self, spec: HostSpec, last: int, workers: list[int], servers: list[int]) -> None:
        job, options = spec.job, spec.options
        self.system = job.system
        self.workers, self.servers = workers, servers
        self.count, self.fragments, self.last = job.workers, job.fragments, last
        pool = isinstance(options, PoolSpec)
        self.aggregators = options.aggregators if pool else 0
        self.positions = pool and options.positions is not None
        self.flows = spec.program is not None and spec.program.partners is not None
        self.recorded = job.gradients is not None
        self.omit, self.short = job.omit_zeros, job.value_bits == 16
        self.window, self.sets = 1, 1
        self.place, self.trees = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if isinstance(options, SwitchmlSpec):
            self.window, self.sets = options.window, options.sets
            part = spec.worker_part if isinstance(spec.worker_part, TreesPart) else ONE_TREE
            trees = new_trees(part, options.window)
            self.place, self.trees = trees.place.astype(np.int64), trees.number


class Network:
    """A Setup's nodes and communicators, and the frames that have been kept of it."""

    def __init__(self, setup: Setup, nodes: Nodes | None = None) -> None:
        """nodes: whose Setup may become another one."""
        self.setup = setup
        self._nodes = nodes
        self.topology = setup.platform.topology
        self.words = setup.platform.bitmap_bits // 32
        self.values = setup.platform.values
        self.links: list[tuple[str, str]] = []
        self.numbers: dict[tuple[str, str], int] = {}
        self.frames: list[bytes] = []
        self.at: list[int] = []
        self.by_hand = False
        self.excused: set[str] = set()
        self._jobs: dict[int, Job] | None = None

    def link(self, node: str, neighbour: str) -> int:
        ends = node, neighbour
        if ends not in self.numbers:
            self.numbers[ends] = len(self.links)
            self.links.append(ends)
        return self.numbers[ends]

    def address(self, node: str) -> tuple[int, int]:
        """IPv4 and MAC address of a node."""
        number = self.topology.number(node)
        if self.topology.is_host(node):
            return _number(host_ip(number)), _mac(host_mac(number))
        return _number(switch_ip(number)), _mac(switch_mac(number))

    @property
    def jobs(self) -> dict[int, Job]:
        """By number; those that come and go are not known."""
        if self._nodes is not None and self._nodes.setup is not self.setup:
            self.setup, self._jobs = self._nodes.setup, None
        if self._jobs is None:
            roles: dict[int, list[HostSpec]] = {}
            for spec in host_specs(self.setup) if self.setup.arrivals is None else ():
                for role in (spec, *spec.members):
                    roles.setdefault(role.job.number, []).append(role)
            self._jobs = {}
            for number, specs in roles.items():
                own = (self.setup.jobs | self.setup.groups)[number]
                ends: tuple[list[int], list[int]] = [], []
                for role in sorted(specs, key=lambda role: role.number):
                    ends[not role.is_worker].append(_number(role.address))
                worker = next(role for role in specs if role.is_worker)
                self._jobs[number] = Job(worker, own.last_fragment, *ends)
        return self._jobs


class Columns:
    """Fields of n packets of one job with the same row, int64[n] each."""

    def __init__(self, network: Network, job: Job | None, at: np.ndarray, head: np.ndarray) -> None:
        self.network, self.job = network, job
        words = head.view(">u2").astype(np.int64)
        two = words[:, :-1] << 16 | words[:, 1:]
        self.words, self.at = words, at
        self.source, self.destination = two[:, 13], two[:, 15]
        self.kind, self.priority = words[:, 21] >> 8 & 0xF, words[:, 21] & 0xFF
        self.flags, self.job_number, self.node = words[:, 22], words[:, 23], words[:, 24]
        self.fragment, self.index, self.extra = two[:, 25], two[:, 27], two[:, 29]
        self.sender, self.exponents = words[:, 31], words[:, 32]
        begin = sizes.FRAME_OVERHEAD + 4 * sizes.HEADER_WORDS
        self.bitmap = (
            head[:, begin : begin + 4 * network.words].copy().view(">u4").astype(np.uint32)
        )

    def of(self, chosen: np.ndarray, job: Job | None) -> Columns:
        part = object.__new__(Columns)
        for name, value in vars(self).items():
            setattr(part, name, value[chosen] if isinstance(value, np.ndarray) else value)
        part.job = job
        return part

    # -- what the words of the contract mean

    def bits(self, workers: np.ndarray) -> np.ndarray:
        """Bitmaps that name one worker each; of numbers that are none, nobody."""
        made = np.zeros_like(self.bitmap)
        word = made.shape[1] - 1 - workers // 32
        known = np.flatnonzero((word >= 0) & (workers >= 0))
        made[known, word[known]] = np.left_shift(1, workers[known] % 32).astype(np.uint32)
        return made

    @property
    def everyone(self) -> np.ndarray:
        full = ((1 << self.job.count) - 1).to_bytes(4 * self.bitmap.shape[1], "big")
        return np.frombuffer(full, ">u4").astype(np.uint32)

    @property
    def members(self) -> np.ndarray:
        """How many workers the bitmap names; 0 if others than the job's."""
        strange = (self.bitmap & ~self.everyone).any(axis=1)
        count = np.unpackbits(self.bitmap.copy().view(np.uint8), axis=1).sum(axis=1)
        return np.where(strange, 0, count)

    def worker_at(self, address: np.ndarray) -> np.ndarray:
        """The number of the worker with an address; -1: none."""
        known = np.array(self.job.workers)
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], address), known.size - 1)
        return np.where(known[order][place] == address, order[place], -1)

    @property
    def meant(self) -> np.ndarray:
        return self.flags & (wire.FOR_ONE | wire.FROM_ONE) != 0

    @property
    def in_bitmap(self) -> np.ndarray:
        return (self.bitmap & self.bits(self.sender)).any(axis=1) & (self.members > 0)


def _is(name: str, value: int) -> Callable[[Columns], Any]:
    return lambda c: getattr(c, name) == value


def _switch_number(c: Columns, address: np.ndarray) -> np.ndarray:
    return np.where(address >> 16 == 0x0AFF, address & 0xFFFF, -1)


def _to_server(c: Columns) -> Any:
    servers = np.array(c.job.servers or [-1])
    if c.job.system == "ps":
        return c.destination == servers[c.fragment % c.job.fragments % servers.size]
    return np.isin(c.destination, servers)


def _to_other(c: Columns) -> Any:
    there = c.worker_at(c.destination)
    return (there >= 0) & (c.destination != c.source)


TO = {
    "worker": lambda c: c.worker_at(c.destination) >= 0,
    "server": _to_server,
    "switch": lambda c: _switch_number(c, c.destination) >= 1,
    "sender": lambda c: c.worker_at(c.destination) == c.sender,
    "node": lambda c: _switch_number(c, c.destination) == c.node,
    "worker in the bitmap": lambda c: (c.bitmap == c.bits(c.worker_at(c.destination))).all(axis=1),
    "another worker": _to_other,
}
PRIORITY = {
    "1": _is("priority", 1),
    "255": _is("priority", 255),
    "1 to 255": lambda c: c.priority >= 1,
}


def _aggregating(c: Columns) -> Any:
    if c.job.system != "grid":
        return c.node == 0
    return (c.node == sizes.NO_NODE) | (
        (c.node >= 1) & (c.node <= len(c.network.topology.switches))
    )


NODE = {
    "0": _is("node", 0),
    "aggregating": _aggregating,
    "maker": lambda c: _switch_number(c, c.source) == c.node,
    "destination": lambda c: _switch_number(c, c.destination) == c.node,
    "tree": lambda c: c.node == 0 if c.job.system != "tree" else c.node < 1 << 15,
}
FRAGMENT = {"of the job": lambda c: c.fragment <= c.job.last, "any": lambda c: c.fragment >= 0}


def _is_index(c: Columns, name: str) -> Any:
    value = getattr(c, name)
    inside = value < c.job.aggregators
    return inside | (value == A2TP_BYPASS) if c.job.system == "a2tp" else inside


def _index(c: Columns) -> Any:
    return c.index == 0 if c.job.system == "ps" else _is_index(c, "index")


def _slot(c: Columns) -> Any:
    place = c.job.place[c.fragment % c.job.window]
    second = c.fragment // c.job.window % c.job.sets
    return c.index == place | second << 31


INDEX = {
    "0": _is("index", 0),
    "any": lambda c: c.index >= 0,
    "of the fragment": _index,
    "of the position": _index,
    "slot and set": _slot,
}


def _tag(c: Columns) -> Any:
    most = {"grid": 0xFFFF, "a2tp": 1 << 16}.get(c.job.system, 0)
    return c.extra <= most


def _announced(c: Columns) -> Any:
    return _is_index(c, "extra") if c.job.positions else c.extra == 0


EXTRA = {
    "0": _is("extra", 0),
    "any": lambda c: c.extra >= 0,
    "tag or share": _tag,
    "tag, share or announced": lambda c: _announced(c) if c.job.system == "atp" else _tag(c),
    "0 or announced": _announced,
    "0 or the index": lambda c: c.extra == (c.index if c.job.positions else 0),
    "previous or announced": lambda c: (
        _announced(c) if c.job.positions else c.extra <= 1 + c.job.last
    ),
}


def _widest(c: Columns) -> int:
    return max(job.count for job in c.network.jobs.values())


SENDER = {
    "maker": lambda c: c.sender == c.worker_at(c.source),
    "server": _is("sender", wire.SERVER),
    "a worker": lambda c: c.sender < _widest(c),
    "in the bitmap": lambda c: c.in_bitmap,
}


def _by_flag(c: Columns) -> Any:
    return np.where(c.meant, c.exponents < c.job.count, c.exponents == 0)


EXPONENTS = {
    "0": _is("exponents", 0),
    "any": lambda c: c.exponents >= 0,
    "by flag": _by_flag,
    "block": lambda c: (c.exponents >= 0) if c.job.recorded else _by_flag(c),
}


def _by_extra(c: Columns) -> Any:
    own, more = c.bits(c.worker_at(c.source)), c.members
    others = (c.bitmap[:, :-1] == 0).all(axis=1)
    if c.job.flows:
        return np.where(c.extra == 0, others, (c.bitmap == 0).all(axis=1))
    has_own = (c.bitmap & own).any(axis=1)
    whole = more == c.job.count
    alone = more == 1
    down = c.extra - 1 & 1 == 1
    up = has_own & ~whole & (more > 0)
    sums = np.where(c.flags & wire.FROM_ONE != 0, alone & down, np.where(down, whole, up))
    return np.where(c.extra == 0, others, sums)


BITMAP = {
    "0": lambda c: (c.bitmap == 0).all(axis=1),
    "sender": lambda c: (c.bitmap == c.bits(c.sender)).all(axis=1),
    "some": lambda c: c.members >= 1,
    "one": lambda c: c.members == 1,
    "two or more": lambda c: c.members >= 2,
    "all": lambda c: c.members == c.job.count,
    "by extra": _by_extra,
}


def _either(words: str) -> Callable[[Columns], Any]:
    parts = [TO[word] for word in words.split(", ")]
    return lambda c: np.logical_or.reduce([part(c) for part in parts])


def _flag_bits(row: Row, must: bool) -> int:
    found = 0 if must else wire.ECN
    for name in row.flags.split():
        if not must or name.startswith("+"):
            found |= FLAGS[name.lstrip("+")]
    return found


MAY = [_flag_bits(row, must=False) for row in ROWS]
MUST = [_flag_bits(row, must=True) for row in ROWS]


def _flags(c: Columns, number: int) -> Any:
    row, job = ROWS[number], c.job
    may = MAY[number]
    if not job.omit:
        may &= ~(wire.FOR_ONE | wire.FROM_ONE)
    if not job.short:
        may &= ~(wire.SHORT | wire.ROUND)
    if job.system != "a2tp":
        may &= ~wire.CONTENDED
    if job.system != "grid":
        may &= ~wire.OVER_RATE
    if not job.positions:
        may &= ~wire.FLOAT
    good = c.flags & ~may == 0
    both = wire.FOR_ONE | wire.FROM_ONE
    good &= c.flags & both != both
    if "+reminded" not in row.flags and row.maker != "server":  # tells that nothing was lost
        good &= (c.flags & wire.REMINDED == 0) | (c.flags & wire.RESEND != 0)
    if row.maker == "switch":  # who has all of a sum has rounded it
        good &= (c.flags & wire.ROUND == 0) | (c.members != job.count) | (row.bitmap == "sender")
    return good


def held(network: Network, frames: list[bytes], at: list[int]) -> Iterator[tuple[str, str, int]]:
    """(row, field, number of the frame) of each violation; at: the frames' links by number."""
    width = 4 * (sizes.HEADER_WORDS + network.words)
    longest = sizes.FRAME_OVERHEAD + width
    chosen = [
        number
        for number, frame in enumerate(frames)
        if frame[36:38] == b"\x49\x4e" and frame[12:14] == b"\x08\x00" and frame[23] == 17
    ]
    cut = [number for number in chosen if len(frames[number]) < longest]
    yield from (("any", "length", number) for number in cut)
    whole = np.array([number for number in chosen if len(frames[number]) >= longest], np.int64)
    if not whole.size:
        return
    head = np.frombuffer(b"".join([frames[number][:longest] for number in whole]), np.uint8)
    every = Columns(network, None, np.array(at)[whole], head.reshape(-1, longest))

    def bad(row: str, field: str, good: Any, numbers: np.ndarray) -> Iterator[tuple[str, str, int]]:
        for place in np.flatnonzero(~np.broadcast_to(good, numbers.shape)):
            yield row, field, int(numbers[place])

    length = np.array([len(frames[number]) for number in whole])
    for field, good in _of_all(every, length):
        yield from bad("any", field, good, whole)
    known = np.zeros(whole.size, bool)
    for number, job in network.jobs.items():
        mine = every.job_number == number
        if not mine.any():
            continue
        known |= mine
        places = np.flatnonzero(mine)
        yield from _of_job(every.of(places, job), whole[places], frames, longest, length[places])
    if network.jobs:
        yield from bad("any", "job", known, whole)


def _of_all(c: Columns, length: np.ndarray) -> Iterator[tuple[str, Any]]:
    """What holds for every packet."""
    network = c.network
    ends = [(network.address(a), network.address(b)) for a, b in network.links]
    hosts = [network.topology.is_host(a) for a, _ in network.links]
    to_hosts = [network.topology.is_host(b) for _, b in network.links]
    make = lambda side, part: np.array([each[side][part] for each in ends])[c.at]  # noqa: E731
    from_host, to_host = np.array(hosts)[c.at], np.array(to_hosts)[c.at]
    two = c.words[:, :-1] << 16 | c.words[:, 1:]
    yield "ethernet", two[:, 0] << 16 | c.words[:, 2] == make(1, 1)
    yield "ethernet", two[:, 3] << 16 | c.words[:, 5] == make(0, 1)
    yield "ip", (c.words[:, 7] & 0xFFFC == 0x4500) & (c.words[:, 10] == 0x4000)
    yield "length", c.words[:, 8] == length - 14
    total = c.words[:, 7:17].sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    yield "ip", (total & 0xFFFF) + (total >> 16) == 0xFFFF
    ttl = c.words[:, 11] >> 8
    yield "ip", np.where(from_host, ttl == 64, (ttl >= 1) & (ttl <= 64))
    yield "addresses", ~from_host | (c.source == make(0, 0))
    yield "addresses", ~to_host | (c.destination == make(1, 0))
    yield "udp", (c.words[:, 17] == wire.PORT) & (c.words[:, 20] == 0)
    yield "length", c.words[:, 19] == length - 34
    yield "version", c.words[:, 21] >> 12 == wire.VERSION
    from_queue = (c.words[:, 7] & 3 == 3) & (_switch_number(c, c.source) < 0)
    yield "flags", ~from_queue | (c.flags & wire.ECN != 0)


def _of_job(
    c: Columns, numbers: np.ndarray, frames: list[bytes], longest: int, length: np.ndarray
) -> Iterator[tuple[str, str, int]]:
    """What the rows say of the packets of a job."""
    job = c.job
    switch = _switch_number(c, c.source) >= 1
    worker = c.worker_at(c.source) >= 0
    server = np.isin(c.source, np.array(job.servers or [-1]))
    makers = {"switch": switch, "worker": worker, "server": server}
    left = np.ones(numbers.size, bool)
    same: list[np.ndarray] = []
    for number, row in enumerate(ROWS):
        if row.systems and job.system not in row.systems:
            continue
        mine = left & np.isin(c.kind, row.kinds) & makers[row.maker]
        mine &= c.flags & MUST[number] & ~wire.COLLISION == MUST[number] & ~wire.COLLISION
        if not mine.any():
            continue
        left &= ~mine
        places = np.flatnonzero(mine)
        part = c.of(places, job)
        words = {
            "to": _either(row.to),
            "priority": PRIORITY[row.priority],
            "flags": lambda c, number=number: _flags(c, number),
            "node": NODE[row.node],
            "fragment": FRAGMENT[row.fragment],
            "index": INDEX[row.index],
            "extra": EXTRA[row.extra],
            "sender": SENDER[row.sender],
            "exponents": EXPONENTS[row.exponents],
            "bitmap": BITMAP[row.bitmap],
        }
        title = f"{row.packet} of a {row.maker}"
        for field, word in words.items():
            for place in np.flatnonzero(~np.broadcast_to(word(part), places.shape)):
                yield title, field, int(numbers[places[place]])
        if row.index == "of the fragment" and row.maker != "server":
            same.append(places)
    for place in np.flatnonzero(left):
        yield "none", "kind", int(numbers[place])
    if same and not job.positions:
        places = np.concatenate(same)
        order = places[np.lexsort((c.index[places], c.fragment[places]))]
        fragment, index = c.fragment[order], c.index[order]
        for place in np.flatnonzero((np.diff(fragment) == 0) & (np.diff(index) != 0)):
            yield "of the fragment", "index", int(numbers[order[place + 1]])
    yield from _values(c, numbers, frames, longest, length)


def _values(
    c: Columns, numbers: np.ndarray, frames: list[bytes], base: int, length: np.ndarray
) -> Iterator[tuple[str, str, int]]:
    """Whether packets have values, how long these are, and who needs them."""
    job, count = c.job, c.network.values
    carries = np.isin(c.kind, WITH_VALUES)
    control = c.kind == wire.CONTROL
    short = c.flags & wire.SHORT != 0
    right = np.where(carries, base + np.where(short, 2, 4) * count, base)
    good = np.where(
        control & (c.extra > 0), (length >= base) & (length <= base + 4 * count), length == right
    )
    good &= ~short | carries
    if not job.omit:
        good &= ~np.isin(c.kind, WITHOUT)
    for place in np.flatnonzero(~good):
        yield "any", "length", int(numbers[place])
    looked = good & carries & (job.omit | job.short)
    for wide, size in ((True, 4), (False, 2)):
        places = np.flatnonzero(looked & (short != wide))
        if not places.size:
            continue
        raw = b"".join([frames[number][base:] for number in numbers[places]])
        found = np.frombuffer(raw, f">i{size}").reshape(places.size, count)
        empty = ~found.any(axis=1) if job.omit else np.zeros(places.size, bool)
        for place in places[empty]:
            yield "any", "values (all are 0)", int(numbers[place])
        if wide and job.short:
            fits = ((found >= -0x8000) & (found < 0x8000)).all(axis=1)
            fits &= c.flags[places] & wire.FLOAT == 0
            for place in places[fits & ~empty]:
                yield "any", "values (16 bits are enough)", int(numbers[place])
    if job.omit:
        there = c.worker_at(c.destination)
        named = c.exponents == there
        needs = np.where(c.flags & wire.FOR_ONE != 0, named, ~named) | ~c.meant | (there < 0)
        for place in np.flatnonzero((c.kind == wire.RESULT) & ~needs):
            yield "any", "values (nobody needs them)", int(numbers[place])
        from_other = c.flags & wire.FROM_ONE != 0
        from_other &= (c.kind == wire.GRADIENT) & (c.exponents != c.sender)
        from_other &= c.worker_at(c.source) >= 0
        for place in np.flatnonzero(from_other):
            yield "any", "values (another worker gives them)", int(numbers[place])


class Tap:
    """What is kept of a test."""

    def __init__(self) -> None:
        self.waiting: list[Network] = []  # with frames that have not been looked at
        self.frames = 0  # looked at
        self._wrong: list[str] = []

    def note(self, network: Network, link: int, frame: bytes) -> None:
        """Keep a frame."""
        if not network.frames:
            self.waiting.append(network)
        network.frames.append(frame)
        network.at.append(link)
        if len(network.frames) == AT_ONCE:
            self._look(network)

    def check(self) -> None:
        """Fail if something that was kept since the last call breaks a row."""
        for network in list(self.waiting):
            self._look(network)
        wrong, self._wrong = self._wrong, []
        assert not wrong, "\n".join(["the contract of the wire is broken:", *wrong[:TOLD]])

    def _look(self, network: Network) -> None:
        frames, at = network.frames, network.at
        network.frames, network.at = [], []
        self.waiting.remove(network)
        self.frames += len(frames)
        found = list(held(network, frames, at))
        if network.by_hand:
            entering = [network.topology.is_host(node) for node, _ in network.links]
            network.excused |= {field for _, field, number in found if entering[at[number]]}
        for row, field, number in found:
            if field not in network.excused:
                self._wrong.append(_told(network, row, field, frames[number], at[number]))


def _told(network: Network, row: str, field: str, frame: bytes, link: int) -> str:
    bits, Ina.bitmap_width = Ina.bitmap_width, 32 * network.words
    packet = repr(Ether(frame))
    Ina.bitmap_width = bits
    return f"link {' -> '.join(network.links[link])}, row {row!r}, field {field}: {packet}"


TAP = Tap()


class TappedSwitch(Switch):
    """A switch that tells the tap what enters it from hosts, and what leaves it."""

    def tap(self, network: Network, name: str) -> None:
        ports = network.topology.ports(name)
        self.network = network
        self._in = {
            port: network.link(there, name)
            for port, (there, _, _) in ports.items()
            if network.topology.is_host(there)
        }
        self._out = {port: network.link(name, there) for port, (there, _, _) in ports.items()}

    def receive(self, port: int, data: bytes, now_ns: int) -> None:
        link = self._in.get(port)
        if link is not None:
            TAP.note(self.network, link, data)
        super().receive(port, data, now_ns)

    def outputs(self) -> list[tuple[int, int, bytes]]:
        sent = super().outputs()
        for _, port, frame in sent:
            TAP.note(self.network, self._out[port], frame)
        return sent


def watch(nodes: Nodes) -> Nodes:
    """Keep the first frames of a run in virtual time."""
    network = Network(nodes.setup, nodes)
    kept: list[Any] = []
    for number, name in enumerate(nodes.switches):
        kept.append(_watch_switch(nodes, network, number, name))
    nodes.memory.tapped = kept  # lives as long as the nodes
    return nodes


def _watch_switch(nodes: Nodes, network: Network, number: int, name: str) -> Any:
    row = nodes.world.switches[number]
    fields = {INBOUND: ("receive", "receive_ahead"), OUTBOUND: ("outputs_clear",)}
    plain, left = row.copy(), {INBOUND: FIRST, OUTBOUND: FIRST}
    links: dict[tuple[int, int], int] = {}
    ports = network.topology.ports(name)
    for port, (there, _, _) in ports.items():
        links[port, OUTBOUND] = network.link(name, there)
        if network.topology.is_host(there):
            links[port, INBOUND] = network.link(there, name)

    def seen(switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        if left[direction] == 0 or (port, direction) not in links:
            return
        left[direction] -= 1
        TAP.note(network, links[port, direction], frame)
        for field in fields[direction] if left[direction] == 0 else ():
            if row[field] == tapped[field]:  # else somebody listens behind this tap
                row[field] = plain[field]

    kept = taps.listen(nodes, {name: list(ports)}, seen)
    tapped = row.copy()
    return kept
