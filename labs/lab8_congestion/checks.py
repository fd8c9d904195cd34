"""Checks of lab 8: marks by queue length in P4, windows that react to them in Python."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from labs.grader.bench import Bench, Failure, Python, Switch
from labs.grader.lab import Lab
from labs.grader.packets import (
    GRADIENT,
    PORT_AGG,
    REMINDER,
    RESULT,
    Agg,
    as_number,
    host_ip,
    rows,
)
from labs.lab8_congestion.bottleneck import MARK, QUEUE, SERVER_PORT, VALUES, fragment, run

LAB = Lab(
    title="Congestion",
    hand_in=("congestion.p4", "window.py"),
    given=("packet.p4", "values.p4"),
    program="congestion.p4",
    module="window.py",
    defines={"VALUES": VALUES},
)
HOSTS = (6, 7, SERVER_PORT)
SLOW_BPS = 20_000  # a packet takes 38 ms: on a network, too, all come before the second leaves


def draw_threshold(t: Bench) -> int:
    return t.random.randrange(2, 21)


def draw_thresholds(t: Bench) -> list[int]:
    """Two that differ, of which a program can have one alone built in."""
    return t.random.sample(range(2, 21), 2)


def start(t: Bench, threshold: int, port: int = SERVER_PORT) -> Switch:
    switch = t.switch()
    for host in HOSTS:
        switch.table_add("route", "forward", [as_number(host_ip(host))], [host])
    switch.table_add("congestion", "set_threshold", [port], [threshold])
    return switch


def pile_up(
    t: Bench, switch: Switch, count: int, port: int = SERVER_PORT, frames: Sequence[Packet] = ()
) -> list[bytes]:
    """Send `count` fragments, or these packets, at once to a slow port; what leaves, in order.
    Packet k (from 0) finds k - 1 packets waiting and one on the wire."""
    switch.port_shape(port, "egress", rate_bps=SLOW_BPS, queue_packets=1000)
    sent = frames or [unmarked(t, Ether(fragment(0, number)), port) for number in range(count)]
    out = switch.burst([(switch.now_ns + 1000, 1, bytes(frame)) for frame in sent])
    switch.nothing_astray()
    leaving = [data for _, found, data in out if found == port]
    if len(leaving) != count or len(out) != count:
        text = f"{len(leaving)} packets left port {port}, not {count}"
        raise Failure(f"{text}; {len(out) - len(leaving)} left others", case="a packet is missing")
    return leaving


def unmarked(t: Bench, frame: Packet, port: int) -> Packet:
    """Address a packet, and give it bits of ECN that are no mark."""
    ecn = t.random.randrange(3)
    frame[IP].dst, frame[IP].tos = host_ip(port), t.random.randrange(64) << 2 | ecn
    del frame[IP].chksum
    return frame


def compare(leaving: list[bytes], threshold: int, what: str) -> None:
    """Exactly the packets that have found at least `threshold` waiting are marked in `what`."""
    for number, data in enumerate(leaving):
        frame, found = Ether(data), max(0, number - 1)
        flags, ecn = int(frame[Agg].flags) & MARK, frame[IP].tos & 3
        marked = bool(flags) if what == "the flags of agg" else ecn == 3
        if marked != bool(threshold and found >= threshold):
            told = "is marked" if marked else "is not marked"
            text = f"packet {number} found {found} packets waiting, the threshold is {threshold}"
            raise Failure(f"{text}: it {told} in {what}", got=[(SERVER_PORT, data)])


@LAB.check(10, "Packets that find a long queue are marked in agg's flags, and no others")
def marked_flags(t: Bench) -> None:
    for threshold in (draw_threshold(t), 1):
        t.case = "a threshold of 1" if threshold == 1 else "a threshold above 1"
        port = t.random.choice(HOSTS)
        compare(pile_up(t, start(t, threshold, port), 30, port), threshold, "the flags of agg")


@LAB.check(10, "They are marked in the IPv4 header, too, and its checksum is right")
def marked_ip(t: Bench) -> None:
    leaving = []
    for threshold in draw_thresholds(t):
        leaving += (found := pile_up(t, start(t, threshold), 30))
        compare(found, threshold, "the IPv4 header")
    for data in leaving:
        right = Ether(data)
        del right[IP].chksum
        got, want = rows(data)["IP.chksum"], rows(bytes(right))["IP.chksum"]
        if got != want:
            text = f"the checksum of the IPv4 header is {got}, not {want}"
            raise Failure(text, got=[(SERVER_PORT, data)])


@LAB.check(5, "A threshold of 0 means never; thresholds are per port")
def per_port(t: Bench) -> None:
    port, other = t.random.sample(HOSTS, 2)
    threshold, another = draw_thresholds(t)
    t.case = "a port that has no threshold"
    compare(pile_up(t, start(t, threshold, port), 30, other), 0, "the flags of agg")
    t.case = "a port with a threshold"
    for each in (threshold, another, 256 + threshold):
        compare(pile_up(t, start(t, each, port), each + 10, port), each, "the flags of agg")
    t.case = "a threshold of 0"
    compare(pile_up(t, start(t, 0, port), 30, port), 0, "the flags of agg")


@LAB.check(5, "Marks that a packet brings stay, and nothing else of it changes")
def others(t: Bench) -> None:
    switch = start(t, draw_threshold(t))
    frame = Ether(fragment(2, t.random.randrange(1 << 20)))
    frame[Agg].flags, frame[IP].tos = MARK | t.random.randrange(8), t.random.randrange(64) << 2 | 3
    del frame[IP].chksum
    why = "a packet that has been marked by another switch stays marked"
    switch.expect(3, frame, {SERVER_PORT: frame}, why)
    t.case = "a packet that has no route"
    lost, other = Ether(bytes(frame)), Ether(bytes(frame))
    lost[IP].dst, other.type = f"10.0.{t.random.randrange(1, 256)}.{SERVER_PORT}", 0x86DD
    switch.expect(3, lost, {}, "there is no route to this address")
    switch.expect(3, other, {}, "this is no IPv4 packet")
    t.case = "packets of many kinds, of which some get their marks here"
    threshold = draw_threshold(t)
    frames = [unmarked(t, each, SERVER_PORT) for each in of_many_kinds(t)]
    t.random.shuffle(frames)
    leaving = pile_up(t, start(t, threshold), len(frames), SERVER_PORT, frames)
    for number, (each, data) in enumerate(zip(frames, leaving, strict=True)):
        want = each.copy()
        if number > threshold:
            want[IP].tos |= 3
            if Agg in want:
                want[Agg].flags = int(want[Agg].flags) | MARK
        if data != bytes(want):
            why = "a mark changes nothing else" if number > threshold else "nothing changes"
            got, expected = [(SERVER_PORT, data)], [(SERVER_PORT, bytes(want))]
            raise Failure(why, got=got, expected=expected)


def of_many_kinds(t: Bench) -> list[Packet]:
    """IPv4 packets with and without agg, each several times."""
    made: list[Packet] = []
    for number in range(12):
        for kind in (GRADIENT, RESULT, REMINDER, t.random.randrange(7, 256)):
            frame = Ether(fragment(2, number))
            frame[Agg].kind, frame[Agg].flags = kind, t.random.randrange(8)
            made.append(frame)
        frame = Ether(fragment(2, number))
        frame[UDP].dport = t.random.randrange(1, PORT_AGG)
        head = Ether(src=frame.src, dst=frame.dst) / IP(src=frame[IP].src)
        made += [Ether(bytes(frame)), head / TCP() / t.random.randbytes(9)]
    return made


class Flow:
    """A window with fragments on their way, whose results come in order."""

    def __init__(self, p: Python, start: int, largest: int) -> None:
        self.p, self.window = p, p.make("Window", start, largest)
        self.sent = self.answered = self.size = 0
        self.call()
        self.send()

    def call(self, *name_and_arguments: object) -> None:
        """Call a method of the window, if one is given, and ask for its size."""
        calls: list[tuple[int, str, list]] = [(self.window, "allowed", [])]
        if name_and_arguments:
            name, *arguments = name_and_arguments
            calls.insert(0, (self.window, str(name), arguments))
        value = self.p.methods(calls)[-1]
        if not isinstance(value, int) or isinstance(value, bool):
            raise Failure(f"allowed() returns {value!r}, not a whole number")
        self.size = value

    def send(self) -> None:
        while self.sent - self.answered < self.size and self.sent < 5000:
            self.call("sent", self.sent)
            self.sent += 1

    def results(self, count: int, marked: Collection[int] = ()) -> int:
        """The next `count` results, those of the fragments `marked` with a mark."""
        for _ in range(count):
            number, self.answered = self.answered, self.answered + 1
            self.call("result", number, number in marked)
            self.send()
        return self.size


@LAB.check(10, "Without marks the window grows by one packet per window")
def increase(t: Bench) -> None:
    p = t.python()
    some = [(t.random.randrange(2, 13), t.random.randrange(60, 240)) for _ in range(2)]
    for first, count in (*some, (1, t.random.randrange(50, 150))):
        t.case = "a window of one packet at first" if first == 1 else "a larger window at first"
        got, want = Flow(p, first, 1000).results(count), (first**2 + 2 * count) ** 0.5
        if abs(got - want) > 2:
            text = f"from {first}, after {count} results without a mark, the window is {got}"
            raise Failure(f"{text}; one more per window makes about {want:.0f}")


@LAB.check(10, "A mark halves the window")
def decrease(t: Bench) -> None:
    p = t.python()
    for first in t.random.sample(range(10, 70), 3):
        flow = Flow(p, first, 100)
        got = flow.results(1, marked=[0])
        if got not in (first // 2, first // 2 + first % 2):
            raise Failure(f"a window of {first} is {got} after a mark, not {first // 2}")
        grown = flow.results(first - 1)
        if grown < got + 1:
            text = "results without a mark count, also of fragments sent before the last halving"
            raise Failure(f"{text}: after {first - 1} of them, the window is {grown}")


@LAB.check(10, "All marks of one window halve it once")
def once(t: Bench) -> None:
    p = t.python()
    first = 2 * t.random.randrange(12, 30)
    flow, some = Flow(p, first, 100), t.random.randrange(3 * first // 4 + 1, first)
    t.case = "marks on fragments that were on their way"
    got = flow.results(some, marked=range(some))
    if got != first // 2:
        text = f"{first} fragments were on their way when the queue was long; their first {some}"
        raise Failure(f"{text} results have a mark, and the window is {got}, not {first // 2}")
    t.case = "a mark on the newest of the fragments that were on their way"
    got = flow.results(first - some, marked=[first - 1])
    if got < first // 2:
        text = "the last fragment that was on its way when the window was halved has a mark, too"
        raise Failure(f"{text}, and the window is {got}, not {first // 2}")
    t.case = "marks on fragments that were sent after the window was halved"
    before = flow.size
    got = flow.results(2, marked=range(first, first + 2))
    if not before // 2 <= got <= before // 2 + 1:
        text = "a mark on a fragment that was sent after the last halving is new"
        raise Failure(f"{text}: the window is {got}, not {before // 2}")


@LAB.check(5, "The window stays between one packet and the largest")
def limits(t: Bench) -> None:
    p = t.python()
    largest = t.random.randrange(5, 13)
    t.case = "many results without a mark"
    got = Flow(p, largest - 2, largest).results(200)
    if got != largest:
        text = f"after 200 results without a mark the window is {got}"
        raise Failure(f"{text}, the largest is {largest}")
    flow = Flow(p, 4, largest)
    t.case = "many results with a mark"
    got = flow.results(100, marked=range(100))
    if got != 1:
        raise Failure(f"after 100 results with a mark the window is {got}, not 1")
    t.case = "results without a mark, after many with one"
    if flow.results(12) < 3:
        raise Failure("after marks have ended the window does not grow again")


@LAB.check(15, "Workers share a link: full, fair, and nothing is dropped", limit_s=30, virtual=True)
def together(t: Bench) -> None:
    switch = start(t, t.random.randrange(10, 15))
    made = run(t, switch, workers=t.random.randrange(5, 8), most=64)
    t.note(
        f"link busy {made.busy:.0%}, {made.dropped} packets dropped, queue up to {made.longest} of"
        f" {QUEUE}, fragments per worker {made.arrived}, fairness {made.fairness:.2f};"
    )
    t.note(f"with one worker alone: link busy {made.busy_alone:.0%}, its window {made.window}")
    if made.dropped:
        case = "packets are dropped: the windows do not become smaller when marks come"
        raise Failure(f"{case} ({made.dropped} packets found the queue full)", case=case)
    if made.busy < 0.85:
        case = "the link is not full while all workers send: windows are halved too often"
        raise Failure(f"{case} (busy {made.busy:.0%} of the time)", case=case)
    if made.busy_alone < 0.85:
        case = "the link is not full when one worker is left: its window does not grow enough"
        told = f"busy {made.busy_alone:.0%} of the time, with a window of {made.window}"
        raise Failure(f"{case} ({told})", case=case)
    if made.fairness < 0.85:
        case = "the workers' shares are unequal: who has a larger window does not lose more of it"
        told = f"{made.arrived} fragments, fairness {made.fairness:.2f}"
        raise Failure(f"{case} ({told})", case=case)
