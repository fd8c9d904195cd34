"""Captures a switch's port into a pcapng file for Wireshark, both directions, as on the wire.

A switch sends with raw sockets that pass by the kernel's usual taps, so what leaves a port is seen
where it arrives: at the other end of its veth pair. So a capture listens at both ends, to what
comes in there. Times are the kernel's, in nanoseconds. What the kernel had to drop because the
capture could not keep up is counted, in the file too; the switch never waits for a capture.

Where hosts send packets in trains (UDP_SEGMENT), a capture takes them apart, and completes
checksums, as the switch does: the file has packets as they would be on a wire. Those of a train
have the same time.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
from pathlib import Path
from typing import BinaryIO

from p4engine.switch.trains import OFFLOAD, TrainCutter

from p4fabric.base.config.pcapng import (
    INBOUND,
    OUTBOUND,
    interface,
    packet,
    section_header,
    statistics,
)
from p4fabric.base.linux import kernel

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_STATISTICS = 6
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
SO_ATTACH_FILTER = 26
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20
LONGEST_BUFFER = 1 << 17
AT_ONCE = 100  # buffers, perhaps trains, that are taken from one end before the other has its turn
TIMESPEC = struct.Struct("@ll")
KEEP_NOTHING = struct.pack("@HBBI", 6, 0, 0, 0)  # a filter: return 0 bytes of each packet


def capture(arguments: dict, descriptors: list[int]) -> int:
    """Write what passes a port until SIGTERM comes; the file appears when all is listened to.

    What has passed until then is all written, so the end takes as long as the capture was behind:
    where trains pass at high rates, the buffers hold a million packets.

    arguments: {"switch": id of a process in the switch's namespace, "peer": the same of its
    neighbour's, "interface", "peer_interface", "path", "title", "library": shared object of the
    switch's program, or None where packets come one by one}. Prints how many packets were missed,
    if any were."""
    ends = (
        (listen(arguments["switch"], arguments["interface"]), INBOUND),
        (listen(arguments["peer"], arguments["peer_interface"]), OUTBOUND),
    )
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))
    cutter = TrainCutter(arguments["library"]) if arguments["library"] else None
    path = Path(arguments["path"])
    beside = path.with_name(f".{path.name}.part")
    with open(beside, "wb", buffering=1 << 20) as file:
        file.write(section_header() + interface(arguments["interface"], arguments["title"]))
        file.flush()
        os.replace(beside, path)
        seen = 0
        while not ended:
            ready = select.select([end for end, _ in ends], [], [], 0.2)[0]
            seen += _take(ends, file, cutter)
            if not ready:
                file.flush()  # if this process is killed, the file can be read
        for end, _ in ends:
            _close(end)
        while count := _take(ends, file, cutter):
            seen += count
        missed = sum(_missed(end) for end, _ in ends)
        file.write(statistics(seen + missed, missed))
    if missed:
        print(f"{missed} of {seen + missed} packets were missed: the machine was too busy")
    return 0


def listen(pid: int, interface: str) -> socket.socket:
    """A socket that gets every packet that comes in at an interface of a process's namespace."""
    kernel.enter_network(pid)
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    end.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    end.setblocking(False)
    end.bind((interface, ETH_P_ALL))
    return end


def _close(end: socket.socket) -> None:
    """Let nothing more come in; what waits can still be read."""
    program = ctypes.create_string_buffer(KEEP_NOTHING)
    code = struct.pack("@HP", 1, ctypes.addressof(program))
    end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, code)


def _take(
    ends: tuple[tuple[socket.socket, int], ...], file: BinaryIO, cutter: TrainCutter | None
) -> int:
    """Write packets that are waiting, in order of time; returns their number, 0 if there are
    none."""
    taken: list[tuple[int, int, bytes]] = []
    for end, direction in ends:
        for _ in range(AT_ONCE):
            try:
                buffer, ancillary, _, _ = end.recvmsg(LONGEST_BUFFER, socket.CMSG_SPACE(16))
            except BlockingIOError:
                break
            time_ns = 0
            for level, kind, value in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, nanoseconds = TIMESPEC.unpack(value[: TIMESPEC.size])
                    time_ns = seconds * 1_000_000_000 + nanoseconds
            packets = cutter.packets(buffer) if cutter else [buffer[OFFLOAD.size :]]
            taken += [(time_ns, direction, data) for data in packets]
    taken.sort(key=lambda each: each[0])
    file.writelines(packet(*each) for each in taken)
    return len(taken)


def _missed(end: socket.socket) -> int:
    """Packets that the kernel dropped because they were not read in time."""
    _, drops = struct.unpack("@II", end.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    return drops
