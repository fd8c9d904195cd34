"""Lab 14: a host of any network, with the wire format of the hand-out."""

from __future__ import annotations

import struct

SLOTS, VALUES = 8, 8
GRADIENT, RESULT, RESEND = 1, 2, 4
AGG_PORT = 18767
FIRST_NS, MOST_NS = 1_000_000, 64_000_000
FORM = struct.Struct(f"!6s6sH BBHHHBBH4s4s HHHH BBBBIHHI {VALUES}i")
IP_AT, IP_END = 14, 34


def checksum(header: bytes) -> int:
    """The Internet checksum of a header."""
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Host:
    """A worker of a job.

    Args:
        setting: numbers by name: job, worker (number of its bit), everyone (the bitmap of all
            workers), first (number of the first fragment), mac, ip, switch_mac, switch_ip.
        values: a list for each fragment, of VALUES int32 each.
    """

    def __init__(self, setting: dict[str, int], values: list[list[int]]) -> None:
        self.setting, self.values = setting, values
        self.made: list[list[int] | None] = [None] * len(values)
        self.ready = list(range(min(SLOTS, len(values))))
        self.due: dict[int, int] = {}
        self.wait: dict[int, int] = {}

    def poll(self, now_ns: int) -> list[bytes]:
        """The packets to send at this time."""
        late = [n for n, due in self.due.items() if due <= now_ns]
        for n in late:
            self.wait[n] = min(2 * self.wait[n], MOST_NS)
        for n in self.ready:
            self.wait[n] = FIRST_NS
        sent = [self.packet(n, RESEND) for n in late] + [self.packet(n, 0) for n in self.ready]
        for n in late + self.ready:
            self.due[n] = now_ns + self.wait[n]
        self.ready = []
        return sent

    def receive(self, frame: bytes, now_ns: int) -> None:
        """A packet has come, for this host or not."""
        if len(frame) != FORM.size:
            return
        fields = FORM.unpack(frame)
        ethertype, protocol, port = fields[2], fields[9], fields[14]
        kind, job, number = fields[17], fields[19], fields[21]
        if (ethertype, protocol, port) != (0x0800, 17, AGG_PORT):
            return
        n = number - self.setting["first"]
        if (kind, job) != (RESULT, self.setting["job"]) or n not in self.due:
            return
        del self.due[n]
        self.made[n] = list(fields[25:])
        if n + SLOTS < len(self.values):
            self.ready.append(n + SLOTS)

    def wake_ns(self) -> int | None:
        """Time at which `poll` has to be called although nothing comes."""
        return min(self.due.values(), default=None)

    def sums(self) -> list[list[int] | None]:
        """The sum of each fragment; None: it has not come."""
        return self.made

    def packet(self, n: int, flags: int) -> bytes:
        """The gradient of fragment n."""
        s = self.setting
        number = s["first"] + n
        slot = number % SLOTS | (number // SLOTS % 2) << 15
        ethernet = [s["switch_mac"].to_bytes(6, "big"), s["mac"].to_bytes(6, "big"), 0x0800]
        addresses = [s["ip"].to_bytes(4, "big"), s["switch_ip"].to_bytes(4, "big")]
        ip = [0x45, 0, FORM.size - IP_AT, 0, 0, 64, 17, 0, *addresses]
        udp = [AGG_PORT, AGG_PORT, FORM.size - IP_END, 0]
        agg = [GRADIENT, flags, s["job"], 0, number, slot, s["worker"], 1 << s["worker"]]
        frame = bytearray(FORM.pack(*ethernet, *ip, *udp, *agg, *self.values[n]))
        struct.pack_into("!H", frame, IP_AT + 10, checksum(bytes(frame[IP_AT:IP_END])))
        return bytes(frame)
