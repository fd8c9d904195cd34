"""Packets of tests held against the contract of the wire, the table in docs/wire.md.

Switches that tests start (`switches.start`) and runs in virtual time (`simulate.world`) tell a
*tap* what enters them from hosts and what leaves them. It keeps frames and checks many at once, in
arrays; `check` fails with the link, the row, the field and the packet. tests/conftest.py asks for
it after each test.

Frames that a test makes by hand may break rows, and so may what a switch makes of them. Where a
network is `by_hand`, what enters switches is not held against the rows; but a field that such a
frame has broken is no longer checked in what leaves them.

Of a network the first ALL frames are kept, then each tenth one; of a run in virtual time the first
FIRST in each direction at each switch.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import numpy as np
from p4engine.switch.library import Switch
from p4fabric.base.config.pcapng import INBOUND, OUTBOUND
from p4fabric.base.topology import host_ip, host_mac, switch_ip, switch_mac
from p4fabric.simulate import taps
from scapy.layers.l2 import Ether

from testbed.dissect import Ina
from testbed.number_formats import BLOCKS, FORMATS
from testbed.protocols import sizes, wire
from testbed.protocols.formats import mx8
from testbed.protocols.host_spec import HostSpec, PoolSpec, SlotsSpec, TreesPart
from testbed.protocols.slot_worker import ONE_TREE, new_trees
from testbed.setup import Setup
from testbed.setup.host_specs import host_specs
from testbed.simulate.world import Nodes
from tests.support.paths import ROOT

FIRST = 1000  # frames of a switch and direction that are kept of a run in virtual time
ALL, EACH = 5000, 10  # of a network's frames the first are kept, and of the others each tenth
AT_ONCE = 20_000  # frames that are checked together
TOLD = 3  # violations in a message

POOLS = ("esa", "atp", "a2tp", "grid")
BYPASS = 0xFFFFFFFF  # an index of A2TP
BOTH = wire.FOR_ONE | wire.FROM_ONE
WITH_VALUES = (wire.GRADIENT, wire.RESULT, wire.RESULT_ONE)


def _rows() -> list[dict[str, Any]]:
    """The table, with numbers for kinds and flags."""
    text = (ROOT / "docs/wire.md").read_text().partition("| packet | kind | maker |")
    lines = [[each.strip() for each in line.strip("|").split("|")] for line in text[2].splitlines()]
    columns = ["packet", "kind", "maker", *lines[0]]
    rows: list[dict[str, Any]] = []
    for line in lines[2 : lines.index([""], 2)]:
        row = dict(zip(columns, line, strict=True))
        row["title"] = f"{row['packet']} of a {row['maker']}"
        kind = getattr(wire, row["kind"].upper())
        row["kinds"] = kind, kind | wire.WITHOUT_VALUES if kind in WITH_VALUES else kind
        systems = row["systems"].replace("pools", ", ".join(POOLS)).split(", ")
        row["systems"] = None if systems == ["all"] else systems
        row["to"] = row["to"].split(", ")
        flags = [(word[0] == "+", word.lstrip("+")) for word in row["flags"].split()]
        row["must"] = sum(getattr(wire, name.upper()) for must, name in flags if must)
        row["may"] = wire.ECN | sum(getattr(wire, name.upper()) for _, name in flags)
        rows.append(row)
    return rows


ROWS = _rows()


def _number(ip: str) -> int:
    return int.from_bytes(socket.inet_aton(ip), "big")


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


class Job:
    """What the contract needs to know of a communicator."""

    def __init__(self, spec: HostSpec, last: int, workers: list[int], servers: list[int]) -> None:
        job, options = spec.job, spec.options
        self.system = "tokens" if job.wanted else job.system
        self.carrier = job.system
        self.workers, self.servers = workers, servers
        self.count, self.fragments, self.last = job.workers, job.fragments, last
        pool = isinstance(options, PoolSpec)
        self.aggregators = options.aggregators if pool else 0
        self.positions = pool and options.positions is not None
        self.flows = spec.program is not None and spec.program.partners is not None
        self.recorded = job.gradients is not None
        self.omit, self.short = job.omit_zeros, job.value_bits < 32
        self.bits = job.value_bits if self.short else 16
        self.floats = FORMATS[job.sum].is_float
        self.blocks = FORMATS[job.sum].numbers == BLOCKS
        self.integers = self.floats and job.program
        self.window, self.sets = 1, 1
        self.place, self.trees = np.zeros(1, np.int64), np.zeros(1, np.int64)
        if isinstance(options, SlotsSpec):
            self.window, self.sets = options.window, options.sets
            part = spec.worker_part if isinstance(spec.worker_part, TreesPart) else ONE_TREE
            trees = new_trees(part, options.window)
            self.place, self.trees = trees.place.astype(np.int64), trees.number

    def short_bytes(self, values: int) -> int:
        """Bytes of so many values in a short packet."""
        return self.bits // 8 * values + (values // mx8.BLOCK if self.blocks else 0)


class Network:
    """A Setup's nodes and communicators, and the frames that have been kept of it."""

    def __init__(self, setup: Setup, nodes: Nodes | None = None) -> None:
        """nodes: whose Setup may become another one."""
        self.setup = setup
        self._nodes = nodes
        self.topology = setup.platform.topology
        self.words = setup.platform.bitmap_bits // 32
        self.half = self.words // 2 if setup.platform.tokens else 0  # words of `wanted`
        self.values = setup.platform.values
        self.links: list[tuple[str, str]] = []
        self.numbers: dict[tuple[str, str], int] = {}
        self.frames: list[bytes] = []
        self.at: list[int] = []
        self.by_hand = False
        self.count = 0  # frames
        self.live = False  # on Mininet, where packets of trains have a UDP checksum
        self.excused: set[str] = set()
        self.met: Counter[tuple[str, bool]] = Counter()  # packets by row and whether of a pool
        self._jobs: dict[int, Job] | None = None
        _ = self.jobs  # at once: files of programs of ranks may be gone when frames are looked at

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
    """Fields of n packets, int64[n] each; `bitmap`, `wanted`: uint32[n, words]. job: whose they
    are."""

    job: Job

    def __init__(self, network: Network, at: np.ndarray, head: np.ndarray) -> None:
        self.network = network
        self.words = words = head.view(">u2").astype(np.int64)
        self.two = two = words[:, :-1] << 16 | words[:, 1:]
        self.at = at
        self.source, self.destination = two[:, 13], two[:, 15]
        self.kind, self.priority = words[:, 21] >> 8 & 0xF, words[:, 21] & 0xFF
        self.flags, self.number, self.node = words[:, 22], words[:, 23], words[:, 24]
        self.fragment, self.index, self.extra = two[:, 25], two[:, 27], two[:, 29]
        self.sender, self.exponents = words[:, 31], words[:, 32]
        bitmap = head[:, sizes.FRAME_OVERHEAD + 4 * sizes.HEADER_WORDS :].copy()
        both = bitmap.view(">u4").astype(np.uint32)
        self.wanted, self.bitmap = both[:, : network.half], both[:, network.half :]

    def of(self, chosen: np.ndarray, job: Job) -> Columns:
        """Some of them."""
        part = object.__new__(Columns)
        for name, value in vars(self).items():
            setattr(part, name, value[chosen] if isinstance(value, np.ndarray) else value)
        part.job = job
        return part

    def bits(self, workers: np.ndarray) -> np.ndarray:
        """Bitmaps that name one worker each; of numbers that are none, nobody."""
        made = np.zeros_like(self.bitmap)
        word = made.shape[1] - 1 - workers // 32
        known = np.flatnonzero((word >= 0) & (workers >= 0))
        made[known, word[known]] = np.left_shift(1, workers[known] % 32).astype(np.uint32)
        return made

    @property
    def members(self) -> np.ndarray:
        """How many workers the bitmap names; -1 if others than the job's."""
        everyone = ((1 << self.job.count) - 1).to_bytes(4 * self.bitmap.shape[1], "big")
        strange = (self.bitmap & ~np.frombuffer(everyone, ">u4").astype(np.uint32)).any(axis=1)
        count = np.unpackbits(self.bitmap.copy().view(np.uint8), axis=1).sum(axis=1)
        return np.where(strange, -1, count)

    def worker_at(self, address: np.ndarray) -> np.ndarray:
        """The number of the worker with an address; -1: none."""
        known = np.array(self.job.workers)
        order = np.argsort(known, kind="stable")
        place = np.minimum(np.searchsorted(known[order], address), known.size - 1)
        return np.where(known[order][place] == address, order[place], -1)

    @property
    def maker(self) -> np.ndarray:
        """The number of the worker that is the source; -1: none."""
        return self.worker_at(self.source)

    @property
    def target(self) -> np.ndarray:
        """The number of the worker that is the destination; -1: none."""
        return self.worker_at(self.destination)

    @property
    def meant(self) -> np.ndarray:
        """Whether one worker has a part of its own."""
        return self.flags & BOTH != 0

    def is_index(self, value: np.ndarray) -> np.ndarray:
        inside = value < self.job.aggregators
        return inside | (value == BYPASS) if self.job.system == "a2tp" else inside


def _switch_at(address: np.ndarray) -> np.ndarray:
    """The number of the switch with an address; -1: none."""
    return np.where(address >> 16 == 0x0AFF, address & 0xFFFF, -1)


def _to_server(c: Columns) -> Any:
    servers = np.array(c.job.servers or [-1])
    if c.job.system == "ps":
        return c.destination == servers[c.fragment % c.job.fragments % servers.size]
    return np.isin(c.destination, servers)


def _aggregating(c: Columns) -> Any:
    if c.job.system != "grid":
        return c.node == 0
    switches = len(c.network.topology.switches)
    return (c.node == sizes.NO_NODE) | ((c.node >= 1) & (c.node <= switches))


def _index(c: Columns) -> Any:
    return c.index == 0 if c.job.system == "ps" else c.is_index(c.index)


def _slot(c: Columns) -> Any:
    place = c.job.place[c.fragment % c.job.window]
    return c.index == place | c.fragment // c.job.window % c.job.sets << 31


def _tag(c: Columns) -> Any:
    return c.extra <= {"grid": 0xFFFF, "a2tp": 1 << 16}.get(c.job.system, 0)


def _announced(c: Columns) -> Any:
    return c.is_index(c.extra) if c.job.positions else c.extra == 0


def _by_flag(c: Columns) -> Any:
    return np.where(c.meant, c.exponents < c.job.count, c.exponents == 0)


def _by_extra(c: Columns) -> Any:
    empty, last = (c.bitmap == 0).all(axis=1), (c.bitmap[:, :-1] == 0).all(axis=1)
    if c.job.flows:
        return np.where(c.extra == 0, last, empty)
    count, whole = c.members, c.extra - 1 & 1 == 1
    up = (c.bitmap & c.bits(c.maker)).any(axis=1) & (count > 0) & (count < c.job.count)
    sums = np.where(whole, count == c.job.count, up)
    return np.where(c.extra == 0, last, np.where(c.flags & wire.FROM_ONE, count == 1, sums))


# What the words of the table mean, by its columns.
Word = Callable[[Columns], Any]
WORDS: dict[str, dict[str, Word]] = {
    "to": {
        "worker": lambda c: c.target >= 0,
        "server": _to_server,
        "switch": lambda c: _switch_at(c.destination) >= 1,
        "sender": lambda c: c.target == c.sender,
        "node": lambda c: _switch_at(c.destination) == c.node,
        "worker in the bitmap": lambda c: (c.bitmap == c.bits(c.target)).all(axis=1),
        "another worker": lambda c: (c.target >= 0) & (c.destination != c.source),
    },
    "priority": {
        "1": lambda c: c.priority == 1,
        "255": lambda c: c.priority == 255,
        "1 to 255": lambda c: c.priority >= 1,
    },
    "node": {
        "0": lambda c: c.node == 0,
        "aggregating": _aggregating,
        "maker": lambda c: _switch_at(c.source) == c.node,
        "destination": lambda c: _switch_at(c.destination) == c.node,
        "tree": lambda c: (c.node == 0) | (c.job.carrier == "tree"),
    },
    "fragment": {"of the job": lambda c: c.fragment <= c.job.last, "any": lambda c: True},
    "index": {
        "0": lambda c: c.index == 0,
        "any": lambda c: True,
        "of the fragment": _index,
        "of the position": _index,
        "slot and set": _slot,
        "of tokens": lambda c: c.is_index(c.index) if c.job.aggregators else _slot(c),
    },
    "extra": {
        "0": lambda c: c.extra == 0,
        "any": lambda c: True,
        "tag or share": _tag,
        "tag, share or announced": lambda c: (_announced if c.job.system == "atp" else _tag)(c),
        "0 or announced": _announced,
        "0 or the index": lambda c: c.extra == (c.index if c.job.positions else 0),
        "previous or announced": lambda c: (
            _announced(c) if c.job.positions else c.extra <= 1 + c.job.last
        ),
    },
    "sender": {
        "maker": lambda c: c.sender == c.maker,
        "server": lambda c: c.sender == wire.SERVER,
        "a worker": lambda c: c.sender < max(job.count for job in c.network.jobs.values()),
        "in the bitmap": lambda c: (c.bitmap & c.bits(c.sender)).any(axis=1),
    },
    "exponents": {
        "0": lambda c: c.exponents == 0,
        "any": lambda c: True,
        "by flag": _by_flag,
        "block": lambda c: True if c.job.recorded else _by_flag(c),
    },
    "bitmap": {
        "0": lambda c: (c.bitmap == 0).all(axis=1),
        "sender": lambda c: (c.bitmap == c.bits(c.sender)).all(axis=1),
        "some": lambda c: c.members >= 1,
        "one": lambda c: c.members == 1,
        "two or more": lambda c: c.members >= 2,
        "all": lambda c: c.members == c.job.count,
        "by extra": _by_extra,
    },
}


def _flags(c: Columns, row: dict[str, Any]) -> Any:
    """What a row and the text below the table say of flags."""
    job, unknown = c.job, 0
    unknown |= 0 if job.omit or row["kind"] == "control" else BOTH
    unknown |= 0 if job.short else wire.SHORT | wire.ROUND
    unknown |= 0 if job.carrier == "a2tp" else wire.CONTENDED
    unknown |= 0 if job.system == "grid" else wire.OVER_RATE
    unknown |= 0 if job.integers else wire.INTEGERS
    unknown |= 0 if job.positions else wire.FLOAT
    good = (c.flags & ~(row["may"] & ~unknown) == 0) & (c.flags & row["must"] == row["must"])
    good &= c.flags & BOTH != BOTH
    alone = (c.flags & wire.REMINDED != 0) & (c.flags & (wire.RESEND | wire.PARTIAL) == 0)
    if row["maker"] != "switch":
        return good & (~alone | (row["maker"] == "server"))
    return good & ~alone & ((c.flags & wire.ROUND == 0) | (c.members != job.count))


Violation = tuple[str, str, int]  # row, field, number of the frame


def _where(row: str, field: str, good: Any, numbers: np.ndarray) -> Iterator[Violation]:
    for place in np.flatnonzero(~np.broadcast_to(good, numbers.shape)):
        yield row, field, int(numbers[place])


def held(network: Network, frames: list[bytes], at: list[int]) -> Iterator[Violation]:
    """What is wrong with frames; at: their links by number."""
    base = sizes.FRAME_OVERHEAD + 4 * (sizes.HEADER_WORDS + network.words)
    port = wire.PORT.to_bytes(2, "big")
    chosen = np.array([n for n, frame in enumerate(frames) if frame[36:38] == port], np.int64)
    length = np.array([len(frames[number]) for number in chosen], np.int64)
    yield from _where("any", "length", length >= base, chosen)
    chosen, length = chosen[length >= base], length[length >= base]
    if not chosen.size:
        return
    head = np.frombuffer(b"".join([frames[number][:base] for number in chosen]), np.uint8)
    c = Columns(network, np.array(at)[chosen], head.reshape(-1, base))
    for field, good in _of_all(c, length):
        yield from _where("any", field, good, chosen)
    known = np.zeros(chosen.size, bool)
    for number, job in network.jobs.items():
        mine = np.flatnonzero(c.number == number)
        known[mine] = True
        if mine.size:
            part = c.of(mine, job)
            yield from _of_job(part, chosen[mine])
            yield from _values(part, chosen[mine], frames, length[mine], base)
    yield from _where("any", "job", known | (not network.jobs), chosen)


def _of_all(c: Columns, length: np.ndarray) -> Iterator[tuple[str, Any]]:
    """What holds for every packet."""
    network, words, two = c.network, c.words, c.two
    ends = [(*network.address(a), *network.address(b)) for a, b in network.links]
    from_ip, from_mac, to_ip, to_mac = np.array(ends)[c.at].T
    from_host, to_host = _switch_at(from_ip) < 0, _switch_at(to_ip) < 0
    yield "ethernet", two[:, 0] << 16 | words[:, 2] == to_mac
    yield "ethernet", (two[:, 3] << 16 | words[:, 5] == from_mac) & (words[:, 6] == 0x0800)
    yield "ip", (words[:, 7] & 0xFF9E == 0x4502) & (words[:, 10] == 0x4000)
    yield "ip", np.isin(words[:, 7] & 0x60, (0, 0x60))  # class 0, or 3 beside another one
    total = words[:, 7:17].sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    yield "ip", (total & 0xFFFF) + (total >> 16) == 0xFFFF
    ttl = words[:, 11] >> 8
    yield "ip", (ttl <= 64) & (ttl >= np.where(from_host, 64, 1)) & (words[:, 11] & 0xFF == 17)
    routed = np.isin(c.kind, (wire.ASK, wire.CONTROL)) & ~from_host
    yield "ip", ~routed | (ttl < 64)
    yield "addresses", np.where(from_host, c.source == from_ip, True)
    yield "addresses", np.where(to_host, c.destination == to_ip, True)
    yield "udp", (words[:, 17] == wire.PORT) & ((words[:, 20] == 0) | network.live)
    yield "length", (words[:, 8] == length - 14) & (words[:, 19] == length - 34)
    yield "version", words[:, 21] >> 12 == wire.VERSION
    marked = (words[:, 7] & 3 == 3) & (_switch_at(c.source) < 0)
    yield "flags", ~marked | (c.flags & wire.ECN != 0)


def _of_job(c: Columns, numbers: np.ndarray) -> Iterator[Violation]:
    """What the rows say of the packets of a job."""
    makers = {
        "switch": _switch_at(c.source) >= 1,
        "worker": c.maker >= 0,
        "server": np.isin(c.source, np.array(c.job.servers or [-1])),
    }
    left = np.ones(numbers.size, bool)
    same: list[np.ndarray] = []
    for row in ROWS:
        if row["systems"] and c.job.system not in row["systems"]:
            continue
        mine = left & np.isin(c.kind, row["kinds"]) & makers[row["maker"]]
        mine &= (c.flags & row["must"] == row["must"]) | (row["kind"] != "gradient")
        if not mine.any():
            continue
        left &= ~mine
        places = np.flatnonzero(mine)
        part, chosen = c.of(places, c.job), numbers[places]
        c.network.met[row["title"], c.job.system in POOLS] += places.size
        to = np.logical_or.reduce([WORDS["to"][word](part) for word in row["to"]])
        yield from _where(row["title"], "to", to, chosen)
        yield from _where(row["title"], "flags", _flags(part, row), chosen)
        for field in list(WORDS)[1:]:
            yield from _where(row["title"], field, WORDS[field][row[field]](part), chosen)
        if row["index"] == "of the fragment" and not c.job.positions:
            same.append(places)
    yield from _where("none", "kind", ~left, numbers)
    names = (c.job.system == "tokens") & (c.kind & ~wire.WITHOUT_VALUES == wire.GRADIENT)
    names &= (c.flags & wire.PARTIAL == 0) | (_switch_at(c.source) < 0)
    yield from _where("any", "wanted", c.wanted.any(axis=1) == names, numbers)
    if c.network.half:
        inside = (c.bitmap & ~c.wanted == 0).all(axis=1)
        yield from _where("any", "wanted", inside | ~names, numbers)
    if same:
        places = np.concatenate(same)
        order = places[np.lexsort((c.index[places], c.fragment[places]))]
        differs = (np.diff(c.fragment[order]) == 0) & (np.diff(c.index[order]) != 0)
        yield from _where("of the fragment", "index", ~differs, numbers[order[1:]])


def _values(
    c: Columns, numbers: np.ndarray, frames: list[bytes], length: np.ndarray, base: int
) -> Iterator[Violation]:
    """Whether packets have values, how long these are, and who needs them."""
    job, count = c.job, c.network.values
    carries, short = np.isin(c.kind, WITH_VALUES), c.flags & wire.SHORT != 0
    right = length == np.where(
        carries, base + np.where(short, job.short_bytes(count), 4 * count), base
    )
    transfer = (c.kind == wire.CONTROL) & (c.extra > 0)
    good = right | transfer & (length <= base + 4 * count)
    good &= (carries | ~short) & (job.omit | (c.kind <= wire.COLLIDED))
    yield from _where("any", "length", good, numbers)
    for wide, size in ((True, 4), (False, job.bits // 8)):
        places = np.flatnonzero(good & carries & (short != wide) & (job.omit | job.short))
        raw = b"".join([frames[number][base:][: size * count] for number in numbers[places]])
        found = np.frombuffer(raw, f">i{size}").reshape(places.size, count)
        some = found.any(axis=1) | (not job.omit)
        yield from _where("any", "values (all are 0)", some, numbers[places])
        half = 1 << job.bits - 1
        narrow = (found >= -half) & (found < half)
        if job.blocks and wide:
            narrow = _of_blocks(found)
        elif job.floats:
            narrow = found.astype(int) & 0xFFFF == 0
        fits = narrow.all(axis=1) & some & wide & job.short
        fits &= c.flags[places] & (wire.FLOAT | wire.INTEGERS) == 0
        yield from _where("any", "values (fewer bits are enough)", ~fits, numbers[places])
    named = c.exponents == np.where(c.kind == wire.GRADIENT, c.sender, c.target)
    from_one = c.flags & wire.FROM_ONE != 0
    unneeded = np.where(from_one, named, ~named) & (c.kind == wire.RESULT) & (c.target >= 0)
    unneeded |= from_one & ~named & (c.kind == wire.GRADIENT) & (c.maker >= 0)
    yield from _where("any", "values (nobody needs them)", ~(unneeded & c.meant), numbers)


def _of_blocks(found: np.ndarray) -> np.ndarray:
    """True for each float32, by its bits, that a block of mx8 has a place for."""
    words = found.astype(np.uint32)
    same = mx8.quantised(words.reshape(-1)).reshape(words.shape) == words
    return same & ((words >> np.uint32(23) & np.uint32(0xFF)) < 255)


class Tap:
    """What is kept of a test."""

    def __init__(self) -> None:
        self.waiting: list[Network] = []  # with frames that have not been looked at
        self.frames = 0  # looked at
        self._wrong: list[str] = []
        self._lock = Lock()

    def note(self, network: Network, link: int, frame: bytes) -> None:
        """Keep a frame."""
        network.count += 1
        if network.count > ALL and network.count % EACH:
            return
        with self._lock:  # threads of virtual time
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

    def forget(self) -> None:
        """Drop what is kept, of a test that has failed."""
        for network in self.waiting:
            network.frames, network.at = [], []
        self.waiting, self._wrong = [], []

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
    fields = {INBOUND: ("receive", "receive_ahead", "receive_seeded"), OUTBOUND: ("outputs_clear",)}
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
        first = fields[direction][0]
        if left[direction] == 0 and row[first] == tapped[first]:  # nobody listens behind this tap
            for field in fields[direction]:
                row[field] = plain[field]

    kept = taps.listen(nodes, {name: list(ports)}, seen)
    tapped = row.copy()
    return kept
