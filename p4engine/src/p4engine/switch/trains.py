"""Received trains, taken apart (runtime/train.c): for programs that look at a switch's ports beside
the packet loop, such as captures.

A packet socket with PACKET_VNET_HDR gives each buffer with an offload header in front. The buffer
is one packet, perhaps with a checksum that was left to the hardware, or a train of UDP packets.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

OFFLOAD = struct.Struct("=BBHHHH")  # a virtio_net_hdr: flags, kind, header length, segment size,
#                                     where the checksum starts, and its place from there
NEEDS_CHECKSUM = 1
UDP_SEGMENTATION = 5
_CUT_BYTES = 512  # more than a train_cut of train.h


class TrainCutter:
    """Turns what a packet socket gives into packets as they are on a wire.

    Args:
        library: the shared object of any compiled program; all have the runtime in them.
    """

    def __init__(self, library: str | Path | ctypes.CDLL) -> None:
        self._lib = library if isinstance(library, ctypes.CDLL) else ctypes.CDLL(str(library))
        self._lib.train_next.restype = ctypes.c_void_p
        self._cut = ctypes.create_string_buffer(_CUT_BYTES)

    def packets(self, buffer: bytes) -> list[bytes]:
        """The packets of a buffer with its offload header in front. What cannot be taken apart is
        one packet, as it came."""
        offload, data = buffer[: OFFLOAD.size], buffer[OFFLOAD.size :]
        flags, kind, _, _, start, offset = OFFLOAD.unpack(offload)
        if kind == UDP_SEGMENTATION:
            return self.cut(offload, data) or [data]
        if kind or not flags & NEEDS_CHECKSUM:
            return [data]
        room = ctypes.create_string_buffer(data, len(data))
        self._lib.train_complete_checksum(room, len(data), start, offset)
        return [room.raw]

    def cut(self, offload: bytes, data: bytes) -> list[bytes] | None:
        """The packets of a train; None: it is none that can be cut."""
        room = ctypes.create_string_buffer(data, len(data))
        if self._lib.train_open(self._cut, room, len(data), offload) < 0:
            return None
        packets, length = [], ctypes.c_uint32()
        while at := self._lib.train_next(self._cut, ctypes.byref(length)):
            packets.append(ctypes.string_at(at, length.value))
        return packets
