"""The header of the testbed's packets in a frame (docs/wire.md)."""

from __future__ import annotations

import struct
from typing import NamedTuple

from testbed.protocols import wire
from testbed.protocols.sizes import FRAME_OVERHEAD

_HEADER = struct.Struct("!BBHHHIIIHBB")
_UDP_PORT = slice(36, 38)
_PORT = wire.PORT.to_bytes(2, "big")
KINDS = {
    wire.GRADIENT: "gradient",
    wire.RESULT: "result",
    wire.RESULT_ONE: "result to one worker",
    wire.REMINDER: "reminder",
    wire.REMINDER_EMPTY: "nothing held",
    wire.ASK: "request to resend",
    wire.CONTROL: "control",
    wire.COLLIDED: "collided",
}
_FLAGS = {
    wire.PARTIAL: "partial",
    wire.COLLISION: "collision",
    wire.RESEND: "resend",
    wire.ECN: "ecn",
    wire.OVERFLOW: "overflow",
    wire.REMINDED: "reminded",
    wire.OVER_RATE: "over rate",
    wire.FLOAT: "float",
}
RESULTS = (wire.RESULT, wire.RESULT_ONE)


class Packet(NamedTuple):
    """The fields of a packet. `kind` is that with values, `bare` says that it has none. `workers`:
    the bitmap; `wanted`: the workers that complete a sum of tokens (docs/wire.md)."""

    kind: int
    bare: bool
    priority: int
    flags: int
    job: int
    node: int
    fragment: int
    index: int  # type: ignore[assignment]  # hides the tuple's method, which nobody needs
    extra: int
    sender: int
    workers: int
    wanted: int = 0

    @property
    def is_gradient(self) -> bool:
        return self.kind == wire.GRADIENT

    @property
    def is_result(self) -> bool:
        return self.kind in RESULTS

    @property
    def is_acknowledgement(self) -> bool:
        """True for one between two hosts, whose `fragment` is none."""
        return self.kind == wire.CONTROL and self.extra == 0

    @property
    def is_part_of_hosts(self) -> bool:
        """True for a sum from host to host, of a job whose hosts add up (docs/baselines.md)."""
        return self.kind == wire.CONTROL and self.extra > 0

    @property
    def is_whole_of_hosts(self) -> bool:
        """The same, if it is the sum of all."""
        return self.is_part_of_hosts and bool((self.extra - 1) & 1)

    @property
    def key(self) -> tuple[int, ...]:
        """Bytes that stay the same between two nodes, also if a queue marks it or its values are
        left out."""
        flags = self.flags & ~(wire.ECN | wire.SHORT)
        return self.kind, flags, self.job, self.fragment, self.index, self.sender, self.workers

    @property
    def text(self) -> str:
        """A few words: the kind, the workers in a sum, and flags."""
        words = [KINDS.get(self.kind, f"kind {self.kind}")]
        if self.is_gradient:
            whole = f" of {numbers(self.wanted)}" if self.wanted else ""
            words.append(numbers(self.workers) + whole)
        words += [name for flag, name in _FLAGS.items() if self.flags & flag]
        return " ".join(words)


def numbers(bitmap: int) -> str:
    """The numbers of the bits of a bitmap, {0, 1, 2}; of many in a row the first and the last."""
    found = [bit for bit in range(bitmap.bit_length()) if bitmap >> bit & 1]
    if len(found) > 4 and found[-1] - found[0] == len(found) - 1:
        return f"{{{found[0]}..{found[-1]}}}"
    return "{" + ", ".join(map(str, found)) + "}"


def packet_in(frame: bytes, bitmap_bits: int, tokens: bool = False) -> Packet | None:
    """The packet in an Ethernet frame; None if it is none of the testbed's. tokens: the first half
    of the bits says which workers complete a sum (`Platform.tokens`)."""
    end = FRAME_OVERHEAD + _HEADER.size + bitmap_bits // 8
    if len(frame) < end or frame[_UDP_PORT] != _PORT:
        return None
    first, priority, flags, job, node, fragment, index, extra, sender, _, _ = _HEADER.unpack_from(
        frame, FRAME_OVERHEAD
    )
    if first >> 4 != wire.VERSION:
        return None
    kind = first & 15
    bare = kind >= wire.GRADIENT_ZEROS
    workers = int.from_bytes(frame[FRAME_OVERHEAD + _HEADER.size : end], "big")
    kind -= wire.WITHOUT_VALUES if bare else 0
    wanted, workers = divmod(workers, 1 << bitmap_bits // 2) if tokens else (0, workers)
    return Packet(
        *(kind, bare, priority, flags, job, node, fragment, index, extra, sender, workers), wanted
    )


def fragment_in(frame: bytes) -> tuple[int, int, int]:
    """(job, fragment, index) of a frame, quickly; (-1, -1, -1) for one that is none of the
    testbed's."""
    if len(frame) < FRAME_OVERHEAD + _HEADER.size or frame[_UDP_PORT] != _PORT:
        return -1, -1, -1
    _, _, _, job, _, fragment, index, *_ = _HEADER.unpack_from(frame, FRAME_OVERHEAD)
    return job, fragment, index


def value_in(
    frame: bytes, packet: Packet, bitmap_bits: int, offset: int, value_bits: int = 16
) -> int | None:
    """The value at an offset of a packet's values; None if it has none there. 0 where all are 0 and
    left out. `value_bits`: of a run, which short packets have."""
    if packet.bare:
        return 0
    short = bool(packet.flags & wire.SHORT)
    size = value_bits // 8 if short else 4
    start = FRAME_OVERHEAD + _HEADER.size + bitmap_bits // 8 + size * offset
    if len(frame) < start + size:
        return None
    return int.from_bytes(frame[start : start + size], "big", signed=True)
