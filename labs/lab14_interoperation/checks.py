"""Checks of lab 14: a switch that works with everybody's hosts, and hosts that work with
everybody's switch.

Each side is judged with ours on the other side. Then both of the submission meet, or, in a matrix
of a class, the switch of one student and the hosts of another.
"""

from __future__ import annotations

import struct

from labs.grader.bench import Bench, Switch, first_number, numbers
from labs.grader.lab import Lab
from labs.grader.packets import PORT_AGG, RESULT, SWITCH_MAC, as_number, host_mac
from labs.lab14_interoperation.network import (
    US,
    AnyHost,
    Line,
    Network,
    OurHost,
    TheirHost,
)
from labs.lab14_interoperation.wire import (
    AT_AGG,
    AT_UDP,
    CARRYING,
    SLOTS,
    SWITCH_IP,
    VALUES,
    Setting,
    host_ip,
)

LAB = Lab(
    title="Interoperation",
    hand_in=("loss.p4", "host.py"),
    given=("packet.p4", "values.p4"),
    program="loss.p4",
    module="host.py",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
    sides={"switch": ("loss.p4",), "hosts": ("host.py",)},
)


def draw(t: Bench, fewest: int, most: int, rounds: int, job: int | None = None) -> Setting:
    """A job with so many hosts at any ports, with any bits, and about so many fragments for each
    slot."""
    count = t.random.randrange(fewest, most + 1)
    ports = t.random.sample(range(3, 9), count - 1) + [t.random.choice(CARRYING)]
    t.random.shuffle(ports)
    return Setting(
        job=t.random.randrange(256) if job is None else job,
        workers=tuple(t.random.sample(range(32), count)),
        ports=tuple(ports),
        first=first_number(t, SLOTS),
        fragments=rounds * SLOTS - t.random.randrange(SLOTS),
    )


def line(t: Bench, lossy: bool, copies: float = 0.5) -> Line:
    """Links; with losses, about so many `copies`: a switch has to tell them apart, and a host that
    has no timer lives on what they bring."""
    delay = t.random.randrange(5, 50) * US
    if not lossy:
        return Line(delay)
    return Line(delay, t.random.uniform(0.15, 0.25), copies * t.random.uniform(0.8, 1.2))


def their_switch(t: Bench, setting: Setting) -> Switch:
    """The submission's switch, with what the control plane says of the job."""
    switch, group = t.switch(), t.random.randrange(1, 100)
    count, addresses = len(setting.workers), [as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    switch.table_add(
        "job", "aggregate", [setting.job], [setting.everyone, count, group, *addresses]
    )
    for port in setting.ports:
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(group, [(port, port) for port in setting.ports])
    return switch


def network(
    t: Bench, setting: Setting, how: Line, switch: bool = False, hosts: bool = False
) -> Network:
    """With the submission's switch, its hosts, or both; the others are ours."""
    values = [[numbers(t, VALUES, 31) for _ in range(setting.fragments)] for _ in setting.workers]
    made: list[AnyHost] = []
    for who, rows in enumerate(values):
        if hosts:
            made.append(TheirHost(t.python(), setting, who, rows))  # a process each
        else:
            made.append(OurHost(setting, who, rows, t.random))
    return Network(
        setting, values, made, their_switch(t, setting) if switch else None, how, t.random
    )


def play(t: Bench, met: Network) -> None:
    met.run()
    t.note(f"{len(met.hosts)} hosts, {met.setting.fragments} fragments, {met.packets} gradients")


@LAB.check(10, "Your switch serves our hosts", virtual=True, side="switch")
def switch_plain(t: Bench) -> None:
    setting = draw(t, 2, 6, 4, job=0)
    play(t, network(t, setting, line(t, False), switch=True))


@LAB.check(
    15,
    "Your switch serves our hosts although packets are lost and doubled",
    virtual=True,
    side="switch",
)
def switch_lossy(t: Bench) -> None:
    setting = draw(t, 2, 5, 8)
    play(t, network(t, setting, line(t, True), switch=True))


@LAB.check(10, "Your hosts are served by our switch", virtual=True, side="hosts")
def hosts_plain(t: Bench) -> None:
    setting = draw(t, 2, 3, 3, job=0)
    play(t, network(t, setting, line(t, False), hosts=True))


@LAB.check(
    15,
    "Your hosts are served by our switch although packets are lost and doubled",
    virtual=True,
    side="hosts",
)
def hosts_lossy(t: Bench) -> None:
    setting = draw(t, 2, 3, 6)
    met = network(t, setting, line(t, True, copies=0.1), hosts=True)
    met.unlucky = t.random.randrange(len(met.hosts)), t.random.randrange(setting.fragments)
    play(t, met)


@LAB.check(
    10, "Your hosts do not care for packets that are not for them", virtual=True, side="hosts"
)
def strangers(t: Bench) -> None:
    setting = draw(t, 2, 2, 3)
    met = network(t, setting, line(t, False), hosts=True)
    met.disturb = lambda who, frame: foreign(t, setting, frame)
    play(t, met)


def foreign(t: Bench, setting: Setting, frame: bytes) -> list[tuple[str, bytes]]:
    """Packets like a result that are none for this job, and what they are; some of them in any
    order."""
    wrong = [t.random.randrange(1 << 32) for _ in range(VALUES)]
    behind = setting.first + setting.fragments + t.random.randrange(9)

    def changed(at: int, form: str, value: int) -> bytes:
        made = bytearray(frame)
        struct.pack_into(f"!{VALUES}I", made, len(frame) - 4 * VALUES, *wrong)
        struct.pack_into(form, made, at, value)
        return bytes(made)

    (number,) = struct.unpack_from("!I", frame, AT_AGG + 4)
    others = [number ^ 1 << bit for bit in range(32)]
    others = [n for n in others if not 0 <= n - setting.first < setting.fragments]
    kind, near = RESULT ^ 1 << t.random.randrange(8), setting.job ^ 1 << t.random.randrange(8)
    bit, far = t.random.randrange(8), t.random.choice(others)
    made = [
        ("a gradient", changed(AT_AGG, "!B", 1)),
        ("a packet of another kind", changed(AT_AGG, "!B", kind)),
        ("a result of another job", changed(AT_AGG + 2, "!B", near)),
        ("a result of another fragment", changed(AT_AGG + 4, "!I", far)),
        ("a packet for another UDP port", changed(AT_UDP + 2, "!H", PORT_AGG ^ 1 << bit + 8)),
        ("a packet of another ethertype", changed(12, "!H", 0x0800 ^ 1 << bit + 8)),
        ("a packet of another protocol", changed(23, "!B", 17 ^ 1 << bit)),
        ("a packet of kind NOTHING", changed(AT_AGG, "!B", 4)),
        ("a result of a fragment behind the last", changed(AT_AGG + 4, "!I", behind)),
        ("a result of a fragment before the first", changed(AT_AGG + 4, "!I", setting.first - 1)),
        ("a result that is cut off", frame[: t.random.randrange(1, len(frame))]),
        ("an empty packet", b""),
    ]
    return t.random.sample(made, 5)


@LAB.check(20, "Your switch serves your hosts", virtual=True, side="both")
def together(t: Bench) -> None:
    setting = draw(t, 2, 3, 8)
    play(t, network(t, setting, line(t, True), switch=True, hosts=True))
