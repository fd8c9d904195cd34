"""One end of a background flow on a real clock: a small sender or receiver of TCP or UDP.

It imports nothing of the rest, so that it starts at once. Between it and the runner
goes a Unix socket of JSON messages: {"ready": true}, then from the runner {"start_ns": t}, an
instant of CLOCK_MONOTONIC, and {"stop": true}, then {"done": counters}; or {"failed": text}.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import TypedDict

PORT = 20000  # of flow 0; flow n has PORT + n
SECOND = 1_000_000_000
CONNECT_S = 30
BUFFER = bytes(1 << 16)
SO_RCVBUFFORCE = 33
RECEIVE_BUFFER = 4 << 20
TCP_HEADERS = 14 + 20 + 20  # of a segment without options, which count as part of its size
UDP_HEADERS = 14 + 20 + 8
TOTAL_RETRANS = 100  # place of the number of retransmitted segments in struct tcp_info
NUMBER = struct.Struct("<Q")  # of a packet of UDP, at its beginning
WINDOW = 1 << 14  # numbers behind the last one of which a receiver knows whether they came
BEHIND = 0.05  # share of its packets that a sender may be late with at its end
GROWING_S = 10  # a sender that gets later all this time will not catch up any more
NAP_NS = 200_000  # shorter waits are not worth a sleep of their own
LONGEST_SLEEP_S = 0.05
STILL_NS = 100_000_000  # that this process may go on late before that is a standstill


class FlowKeys(TypedDict):
    """A flow, as the runner's JSON has it. None: not given."""

    number: int
    kind: str
    start_ns: int
    end_ns: int | None
    on_ns: int | None
    off_ns: int
    packet_bytes: int
    rate_bps: int
    burst_bytes: int | None
    every_ns: int
    congestion_control: str


class Arguments(TypedDict):
    flow: FlowKeys
    end: str  # "sender" or "receiver"
    address: str  # of the target's host


class Done(TypedDict, total=False):
    """Counts of an end."""

    packets_sent: int
    packets_received: int
    different: int
    bytes: int
    lost: int
    bursts: list[int]


class Stopped(Exception):
    """The runner has told this end to stop."""


class Control:
    """The runner's end of the talk."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.start_ns = 0
        self.due_ns = 0  # when it was to go on at the latest, on CLOCK_MONOTONIC
        self.still_ns = 0  # how long it stood still

    def say(self, **message: object) -> None:
        self.channel.send(json.dumps(message).encode())

    def wait_start(self) -> None:
        """Until the runner has said when to begin, and until then."""
        message = json.loads(self.channel.recv(1 << 12) or b'{"stop": true}')
        if "stop" in message:
            raise Stopped
        self.start_ns = self.due_ns = message["start_ns"]

    def now_ns(self) -> int:
        """Since the run's start."""
        return time.monotonic_ns() - self.start_ns

    def sleep_until(self, due_ns: int, *sockets: socket.socket) -> list[socket.socket]:
        """Until a time, or until one of the sockets is readable; returns which are. Raises
        Stopped."""
        while True:
            wait_s = max(0.0, (due_ns - self.now_ns()) / SECOND)
            readable, _ = self.select(sockets, (), wait_s)
            if readable or self.now_ns() >= due_ns:
                return readable

    def select(
        self, reading: Sequence[socket.socket], writing: Sequence[socket.socket], wait_s: float
    ) -> tuple[list[socket.socket], list[socket.socket]]:
        """Sockets that can be read and written, after LONGEST_SLEEP_S at the latest. Raises
        Stopped."""
        wait_s = min(wait_s, LONGEST_SLEEP_S)
        self._go_on(wait_s)
        told, writable, _ = select.select([self.channel, *reading], writing, [], wait_s)
        self._go_on()
        if self.channel in told:
            raise Stopped
        return told, writable

    def _go_on(self, wait_s: float = 0) -> None:
        """Note a standstill until now; the next turn is due after `wait_s`."""
        now_ns = time.monotonic_ns()
        if now_ns - self.due_ns > STILL_NS:
            self.still_ns += now_ns - self.due_ns
        self.due_ns = now_ns + int(wait_s * SECOND)


def run(arguments: Arguments, descriptors: list[int]) -> int:
    """An end of a flow. descriptors: its end of the control socket."""
    flow = arguments["flow"]
    with socket.socket(fileno=descriptors[0]) as channel:
        control = Control(channel)
        try:
            if flow["kind"] != "tcp":
                if arguments["end"] == "sender":
                    done = _send_packets(flow, arguments["address"], control)
                else:
                    done = _receive_packets(flow, control)
            elif arguments["end"] == "sender":
                done = _send_stream(flow, arguments["address"], control)
            else:
                done = _receive_stream(flow, control)
        except Stopped:
            done = {}
        except OSError as error:
            control.say(failed=f"{arguments['end']}: {error}")
            return 1
        control.say(done=done, still_ns=control.still_ns)
        channel.recv(1)  # until the runner hangs up
    return 0


def sending_until(flow: FlowKeys, now_ns: int) -> tuple[bool, int]:
    """True if a flow sends at a time, and the time until which that stays so (ns; -1: for ever)."""
    if now_ns < flow["start_ns"]:
        return False, flow["start_ns"]
    end_ns = flow["end_ns"]
    if end_ns is not None and now_ns >= end_ns:
        return False, -1
    until_ns = -1 if end_ns is None else end_ns
    if flow["on_ns"] is None:
        return True, until_ns
    period_ns = flow["on_ns"] + flow["off_ns"]
    within_ns = (now_ns - flow["start_ns"]) % period_ns
    on = within_ns < flow["on_ns"]
    changes_ns = now_ns - within_ns + (flow["on_ns"] if on else period_ns)
    return on, changes_ns if until_ns < 0 else min(changes_ns, until_ns)


class Backlog:
    """A check, every second, for a growing backlog of the packets that a sender is late with.

    One that stood still for a while, as its machine may, is late too, but then it catches up.
    """

    def __init__(self) -> None:
        self.packets = self.looked_ns = self.grown = 0

    def grows(self, packets: int, now_ns: int) -> bool:
        """True if it has grown from each of the last GROWING_S seconds to the next."""
        if now_ns - self.looked_ns >= SECOND:
            self.grown = self.grown + 1 if packets > self.packets else 0
            self.packets, self.looked_ns = packets, now_ns
        return self.grown >= GROWING_S


def packets_due(flow: FlowKeys, interval_ns: float, now_ns: int) -> int:
    """The number of packets of a constant rate that are due until a time: one at the beginning of
    each time of sending, and then one per interval."""
    if now_ns < flow["start_ns"]:
        return 0
    end_ns = now_ns if flow["end_ns"] is None else min(now_ns, flow["end_ns"])
    sending_ns = end_ns - flow["start_ns"]
    if flow["on_ns"] is None:
        return int(sending_ns / interval_ns) + 1
    period_ns = flow["on_ns"] + flow["off_ns"]
    periods, within_ns = divmod(sending_ns, period_ns)
    each = int((flow["on_ns"] - 1) / interval_ns) + 1
    return periods * each + int(min(within_ns, flow["on_ns"] - 1) / interval_ns) + 1


# -- a constant rate


def _send_packets(flow: FlowKeys, address: str, control: Control) -> Done:
    interval_ns = 8 * flow["packet_bytes"] * SECOND / flow["rate_bps"]
    packet = bytearray(flow["packet_bytes"] - UDP_HEADERS)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
        sending.connect((address, PORT + flow["number"]))
        control.say(ready=True)
        control.wait_start()
        sent, backlog = 0, Backlog()
        try:
            while True:
                now_ns = control.now_ns()
                due = packets_due(flow, interval_ns, now_ns)
                if backlog.grows(due - sent, now_ns) and _late(due, sent):
                    break
                for _ in range(min(due - sent, 64)):
                    NUMBER.pack_into(packet, 0, sent)
                    try:
                        sending.send(packet)
                    except ConnectionRefusedError:
                        pass  # the receiver is not there any more; the packet is lost
                    sent += 1
                if sent < due:
                    control.sleep_until(now_ns)  # only looks whether to stop
                    continue
                on, until_ns = sending_until(flow, now_ns)
                if on:
                    next_ns = now_ns + max(int(interval_ns), NAP_NS)
                    control.sleep_until(next_ns if until_ns < 0 else min(next_ns, until_ns))
                else:
                    control.sleep_until(until_ns if until_ns >= 0 else now_ns + 3600 * SECOND)
        except Stopped:
            due = packets_due(flow, interval_ns, control.now_ns())
    if _late(due, sent):
        control.say(
            failed=f"it could send {sent} of {due} packets: this machine is too slow for"
            f" {flow['rate_bps'] / 1e6:g} Mbit/s in packets of {flow['packet_bytes']} B; take a"
            " lower rate or larger packets"
        )
        raise SystemExit(1)
    return {"packets_sent": sent}


def _late(due: int, sent: int) -> bool:
    return due - sent > max(BEHIND * due, 64)


def _receive_packets(flow: FlowKeys, control: Control) -> Done:
    packets = count = furthest = 0
    numbers: set[int] = set()  # that have arrived: all, or the last WINDOW
    different = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER)
        receiving.bind(("0.0.0.0", PORT + flow["number"]))
        receiving.setblocking(False)
        control.say(ready=True)
        control.wait_start()
        buffer = bytearray(1 << 16)
        try:
            while True:
                control.sleep_until(control.now_ns() + 3600 * SECOND, receiving)
                try:
                    for _ in range(256):
                        size = receiving.recv_into(buffer)
                        packets += 1
                        number = NUMBER.unpack_from(buffer)[0]
                        if number in numbers:
                            continue
                        numbers.add(number)
                        different, count = different + 1, count + size
                        furthest = max(furthest, number)
                        if len(numbers) > 2 * WINDOW:
                            numbers = {each for each in numbers if each > furthest - WINDOW}
                except BlockingIOError:
                    pass
        except Stopped:
            pass
    return {"packets_received": packets, "different": different, "bytes": count}


# -- TCP


def _send_stream(flow: FlowKeys, address: str, control: Control) -> Done:
    with _connected(flow, address) as sending:
        sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What is left when the flow ends is thrown away.
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sending.setblocking(False)
        control.say(ready=True)
        control.wait_start()
        times: list[int] = []
        try:
            if flow["burst_bytes"] is None:
                _stream(flow, sending, control)
            else:
                _bursts(flow, sending, control, times)
        except Stopped:
            pass
        info = sending.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS + 4)
        done: Done = {"lost": struct.unpack_from("I", info, TOTAL_RETRANS)[0]}
        if flow["burst_bytes"] is not None:
            done["bursts"] = times
        return done


def _stream(flow: FlowKeys, sending: socket.socket, control: Control) -> None:
    """Send as much as goes, until it is told to stop."""
    while True:
        now_ns = control.now_ns()
        on, until_ns = sending_until(flow, now_ns)
        if not on:
            control.sleep_until(until_ns if until_ns >= 0 else now_ns + 3600 * SECOND)
            continue
        wait_s = 3600 if until_ns < 0 else (until_ns - now_ns) / SECOND
        _, writable = control.select((), (sending,), wait_s)
        if writable:
            sending.send(BUFFER)


def _bursts(flow: FlowKeys, sending: socket.socket, control: Control, times: list[int]) -> None:
    """Send bursts until told to stop; `times` gets the time of each in ns, to the receiver's answer
    that it has it."""
    due_ns = flow["start_ns"]
    while True:
        while control.now_ns() < due_ns:
            control.sleep_until(due_ns)
        begun_ns = control.now_ns()
        if flow["end_ns"] is not None and begun_ns >= flow["end_ns"]:
            control.sleep_until(begun_ns + 3600 * SECOND)
            continue
        left = flow["burst_bytes"]
        while left:
            _, writable = control.select((), (sending,), LONGEST_SLEEP_S)
            if writable:
                left -= sending.send(BUFFER[: min(left, len(BUFFER))])
        while sending not in control.sleep_until(control.now_ns() + SECOND, sending):
            pass
        if not sending.recv(1):
            raise OSError("the receiver has hung up")
        times.append(control.now_ns() - begun_ns)
        since_ns = begun_ns - flow["start_ns"]
        due_ns = begun_ns - since_ns % flow["every_ns"] + flow["every_ns"]


def _connected(flow: FlowKeys, address: str) -> socket.socket:
    """A connection to the receiver, which may be starting."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        sending = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        _set_up(sending, flow)
        try:
            sending.settimeout(5)
            sending.connect((address, PORT + flow["number"]))
            return sending
        except OSError:
            sending.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _receive_stream(flow: FlowKeys, control: Control) -> Done:
    count = answered = 0
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _set_up(listening, flow)
        listening.bind(("0.0.0.0", PORT + flow["number"]))
        listening.listen()
        control.say(ready=True)
        receiving, _ = listening.accept()
    buffer = bytearray(1 << 18)
    with receiving:
        receiving.setblocking(False)
        receiving.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        control.wait_start()
        try:
            while True:
                control.sleep_until(control.now_ns() + 3600 * SECOND, receiving)
                got = receiving.recv_into(buffer)
                if not got:
                    break
                count += got
                while flow["burst_bytes"] and count - answered >= flow["burst_bytes"]:
                    answered += flow["burst_bytes"]
                    receiving.send(b"b")
            control.sleep_until(control.now_ns() + 3600 * SECOND)
        except ConnectionResetError:
            pass  # the sender has ended
        except Stopped:
            pass
    return {"bytes": count}


def _set_up(made: socket.socket, flow: FlowKeys) -> None:
    name = flow["congestion_control"]
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except FileNotFoundError:
        with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as listed:
            here = ", ".join(listed.read().split())
        raise OSError(
            f"this kernel has no congestion control {name}; it has {here} (`modprobe tcp_{name}`"
            " may add it)"
        ) from None
    size = flow["packet_bytes"] - TCP_HEADERS
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, size)
