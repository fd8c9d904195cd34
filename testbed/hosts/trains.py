"""Packets in trains: several of equal length that the kernel takes, or gives, in one piece.

With UDP_SEGMENT one message to the kernel holds up to 64 datagrams of one size (the last may be
shorter); with UDP_GRO the kernel hands over such a train in one piece again. In between, a veth
pair moves it as one buffer, so that a train costs about what a packet costs. The machines know
nothing of it: they see rows of packets.

A batch of rows becomes trains by destination, in the order of the rows: what goes to the same
destination with the same length goes together. What arrives lies in slots, each with room for the
longest train, and is copied into rows as many at a time as there are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import Batch
from p4fabric.simulate.native import copy

from testbed.hosts import socket_calls

SOL_UDP = 17
UDP_SEGMENT = 103
UDP_GRO = 104
PACKETS = 64  # in a train: what every kernel takes that knows UDP_SEGMENT
BYTES = 65_000  # payload of a train; an IPv4 datagram has at most 65,535 with its headers
SLOTS = 32
SLOT_BYTES = 1 << 16
# A control message in 64-bit words: its length; level and kind; the size of the segments.
CONTROL_WORDS = 4
HEADER_BYTES = 16
NONE = -1


class Arrived(NamedTuple):
    """Trains that were received and not yet all copied into rows."""

    messages: np.ndarray  # uint64[SLOTS, 8]
    vectors: np.ndarray  # uint64[SLOTS, 2]
    controls: np.ndarray  # uint64[SLOTS, CONTROL_WORDS]
    slots: np.ndarray  # uint8[SLOTS, SLOT_BYTES]
    at: np.ndarray  # int64[3]: the next slot, how many are filled, the next byte in the slot


class Leaving(NamedTuple):
    """The order in which the rows of a batch are put together; see `gather`."""

    messages: np.ndarray  # uint64[rows, 8]
    vectors: np.ndarray  # uint64[rows, 2]
    controls: np.ndarray  # uint64[rows, CONTROL_WORDS]
    first: np.ndarray  # int64[rows], of each train: its first row,
    last: np.ndarray  # int64[rows], its last row,
    sizes: np.ndarray  # int64[rows], how many rows,
    total: np.ndarray  # int64[rows], their bytes
    following: np.ndarray  # int64[rows], of each row: the next one of its train, or NONE
    open: np.ndarray  # int64[peers], the destination's last train, or NONE


def new_arrived() -> Arrived:
    slots = np.zeros((SLOTS, SLOT_BYTES), np.uint8)
    controls = np.zeros((SLOTS, CONTROL_WORDS), np.uint64)
    vectors = np.zeros((SLOTS, 2), np.uint64)
    messages = np.zeros((SLOTS, 8), np.uint64)
    places = np.arange(SLOTS, dtype=np.uint64)
    vectors[:, 0] = slots.ctypes.data + places * SLOT_BYTES
    vectors[:, 1] = SLOT_BYTES
    messages[:, socket_calls.VECTOR] = vectors.ctypes.data + places * 16
    messages[:, socket_calls.VECTORS] = 1
    messages[:, socket_calls.CONTROL] = controls.ctypes.data + places * (8 * CONTROL_WORDS)
    return Arrived(messages, vectors, controls, slots, np.zeros(3, np.int64))


def new_leaving(out: Batch, peers: int) -> Leaving:
    rows = out.packets.shape[0]
    return Leaving(
        messages=np.zeros((rows, 8), np.uint64),
        vectors=np.zeros((rows, 2), np.uint64),
        controls=np.zeros((rows, CONTROL_WORDS), np.uint64),
        first=np.zeros(rows, np.int64),
        last=np.zeros(rows, np.int64),
        sizes=np.zeros(rows, np.int64),
        total=np.zeros(rows, np.int64),
        following=np.zeros(rows, np.int64),
        open=np.full(peers, NONE, np.int64),
    )


@njit(cache=True)
def receive(fd, trains, batch):
    """Take what has arrived, without waiting, into the rows of `batch`; returns how many packets.

    What exceeds a row is cut off. What the rows have no room for waits for the next call."""
    row_bytes = 4 * batch.packets.shape[1]
    at = trains.at
    filled = 0
    more = True
    while True:
        while at[0] < at[1]:
            slot = at[0]
            total = np.int64(trains.messages[slot, socket_calls.LENGTH] & np.uint64(0xFFFFFFFF))
            size = total
            if trains.messages[slot, socket_calls.CONTROL_LENGTH] > np.uint64(HEADER_BYTES):
                size = np.int64(trains.controls[slot, 2] & np.uint64(0xFFFF))
            start = trains.slots.ctypes.data + slot * SLOT_BYTES
            while filled < batch.packets.shape[0]:
                length = min(size, total - at[2])
                kept = min(length, row_bytes)
                copy(batch.packets.ctypes.data + filled * row_bytes, start + at[2], kept)
                batch.lengths[filled] = kept
                filled += 1
                at[2] += length
                if at[2] >= total:
                    break
            if at[2] < total or filled == batch.packets.shape[0]:
                if at[2] >= total:
                    at[0] += 1
                    at[2] = 0
                return filled
            at[0] += 1
            at[2] = 0
        if not more:
            return filled
        for i in range(SLOTS):
            trains.messages[i, socket_calls.CONTROL_LENGTH] = np.uint64(8 * CONTROL_WORDS)
        count = socket_calls.receive_messages(fd, trains.messages)
        at[0] = 0
        at[1] = max(count, 0)
        more = count == SLOTS


@njit(cache=True)
def gather(leaving, lengths, destinations, count):
    """Put the first `count` rows together by destination; returns the number of trains.

    A row joins the last train of its destination if it is as long as that one's first row, or
    shorter and then the last."""
    trains = 0
    for i in range(count):
        peer, length = destinations[i], lengths[i]
        leaving.following[i] = NONE
        train = leaving.open[peer]
        if (
            train != NONE
            and leaving.sizes[train] < PACKETS
            and 0 < length <= lengths[leaving.first[train]]
            and lengths[leaving.last[train]] == lengths[leaving.first[train]]
            and leaving.total[train] + length <= BYTES
        ):
            leaving.following[leaving.last[train]] = i
            leaving.sizes[train] += 1
            leaving.total[train] += length
        else:
            train = trains
            trains += 1
            leaving.open[peer] = train
            leaving.first[train] = i
            leaving.sizes[train] = 1
            leaving.total[train] = length
        leaving.last[train] = i
    for train in range(trains):
        leaving.open[destinations[leaving.first[train]]] = NONE
    return trains


@njit(cache=True)
def describe(leaving, batch, names, trains):
    """Write the kernel's descriptors of gathered trains. Rows that lie side by side and are full
    are one piece."""
    row_bytes = 4 * batch.packets.shape[1]
    piece = 0
    for train in range(trains):
        row = leaving.first[train]
        size = batch.lengths[row]
        message = leaving.messages[train]
        message[socket_calls.NAME] = names[batch.destinations[row]]
        message[socket_calls.VECTOR] = np.uint64(leaving.vectors.ctypes.data + 16 * piece)
        begin = piece
        end = 0
        while row != NONE:
            start = batch.packets.ctypes.data + row * row_bytes
            if piece > begin and start == end:
                leaving.vectors[piece - 1, 1] += np.uint64(batch.lengths[row])
            else:
                leaving.vectors[piece, 0] = np.uint64(start)
                leaving.vectors[piece, 1] = np.uint64(batch.lengths[row])
                piece += 1
            end = start + batch.lengths[row]
            row = leaving.following[row]
        message[socket_calls.VECTORS] = np.uint64(piece - begin)
        if leaving.sizes[train] > 1:
            control = leaving.controls[train]
            control[0] = np.uint64(HEADER_BYTES + 2)
            control[1] = np.uint64(SOL_UDP | UDP_SEGMENT << 32)
            control[2] = np.uint64(size)
            message[socket_calls.CONTROL] = np.uint64(control.ctypes.data)
            message[socket_calls.CONTROL_LENGTH] = np.uint64(HEADER_BYTES + 8)
        else:
            message[socket_calls.CONTROL] = np.uint64(0)
            message[socket_calls.CONTROL_LENGTH] = np.uint64(0)


@njit(cache=True)
def send(fd, leaving, batch, names, count):
    """Send the first `count` rows as trains; returns how many rows the kernel took."""
    trains = gather(leaving, batch.lengths, batch.destinations, count)
    describe(leaving, batch, names, trains)
    done = socket_calls.send_messages(fd, leaving.messages, trains)
    sent = 0
    for train in range(done):
        sent += leaving.sizes[train]
    return sent
