"""Send times of the small senders of background flows."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket

import pytest
from p4fabric.emulate import flow_process
from p4fabric.emulate.flow_process import SECOND, STILL_NS, Backlog, packets_due, sending_until

FLOW = {"start_ns": 100, "end_ns": None, "on_ns": None, "off_ns": None}
PULSED = FLOW | {"on_ns": 10, "off_ns": 30, "end_ns": 185}


def test_when_a_flow_sends():
    assert sending_until(FLOW, 99) == (False, 100)
    assert sending_until(FLOW, 100) == (True, -1)
    assert sending_until(FLOW | {"end_ns": 150}, 120) == (True, 150)
    assert sending_until(FLOW | {"end_ns": 150}, 150) == (False, -1)
    assert sending_until(PULSED, 105) == (True, 110)
    assert sending_until(PULSED, 110) == (False, 140)
    assert sending_until(PULSED, 182) == (True, 185)


@pytest.mark.parametrize("flow", [FLOW, FLOW | {"end_ns": 170}, PULSED])
@pytest.mark.parametrize("interval_ns", [1, 3, 5.5, 12])
def test_packets_due_are_those_of_a_step_by_step_count(flow, interval_ns):
    due, phase_ns, counted = 0, None, []
    for now_ns in range(300):
        on = sending_until(flow, now_ns)[0]
        if not on:
            phase_ns = None
        elif phase_ns is None:
            phase_ns, due = now_ns, due + 1
            sent_at = 1
        while on and phase_ns is not None and phase_ns + sent_at * interval_ns <= now_ns:
            sent_at, due = sent_at + 1, due + 1
        counted.append(due)
    found = [packets_due(flow, interval_ns, now_ns) for now_ns in range(300)]
    if flow["end_ns"] is not None:  # the packet due at the very end may count
        counted, found = counted[: flow["end_ns"]], found[: flow["end_ns"]]
    assert found == counted


def grows(backlogs: list[int], each_ns: int = 1_000_000_000) -> list[bool]:
    backlog = Backlog()
    return [backlog.grows(packets, n * each_ns) for n, packets in enumerate(backlogs, 1)]


def test_a_sender_that_falls_further_behind_for_ten_seconds_is_given_up():
    assert grows([100 * n for n in range(1, 12)]) == [False] * 9 + [True, True]
    # The machine stood still, and the sender catches up; a second without growth begins anew.
    assert not any(grows([0, 0, 9000, *range(8000, 0, -500), 0, 0]))
    assert not any(grows([*range(1, 10), 9, *range(10, 19)]))
    # It is looked at once a second, however often it is asked.
    assert grows(list(range(1, 101)), 100_000_000) == [False] * 99 + [True]


def test_a_process_notes_that_it_stood_still(monkeypatch):
    """Waiting does not count, however long; what a wait takes beyond its time does."""
    clock = [0]
    extra: list[int] = []  # that waits take beyond their time

    def wait(_reading, _writing, _failed, wait_s):
        clock[0] += int(wait_s * SECOND) + (extra.pop(0) if extra else 0)
        return [], [], []

    monkeypatch.setattr(flow_process.time, "monotonic_ns", lambda: clock[0])
    monkeypatch.setattr(flow_process.select, "select", wait)
    control = flow_process.Control(socket.socket())
    with control.channel:
        control.sleep_until(10 * SECOND)
        assert (clock[0], control.still_ns) == (10 * SECOND, 0)
        extra[:] = [STILL_NS, 3 * SECOND, 0, STILL_NS + 1]
        control.sleep_until(20 * SECOND)
        assert control.still_ns == 3 * SECOND + STILL_NS + 1
        clock[0] += SECOND  # between two waits
        control.sleep_until(21 * SECOND)
        assert control.still_ns == 4 * SECOND + STILL_NS + 1
        due_ns = clock[0] + SECOND // 30  # less than its longest sleep
        control.sleep_until(due_ns)
        assert abs(clock[0] - due_ns) <= 1


MS = 1_000_000


class Time:
    """A clock that goes on only while an end of a flow waits, which is told to stop at `stop_ns`.
    `looks`: called at every wait; `sending`: the times of waits to send."""

    def __init__(self) -> None:
        self.begun_ns = self.now_ns = 5 * SECOND
        self.stop_ns = 1000 * SECOND
        self.looks = lambda: None
        self.sending: list[int] = []

    def stop_after(self, ms: float) -> None:
        self.stop_ns = self.begun_ns + int(ms * MS)

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / SECOND

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)

    def select(self, reading, writing, _failed, wait_s):
        channel, *others = reading
        self.looks()
        if writing:
            self.sending.append(self.now_ns - self.begun_ns)
        ready, writable, _ = select.select(others, writing, [], 0.02 if writing else 0)
        if not ready and not writable:
            self.now_ns += max(int(wait_s * SECOND), 1000)
        if self.now_ns >= self.stop_ns:
            self.now_ns = self.stop_ns
            return [channel], [], []
        return ready, writable, []


@pytest.fixture
def clock(monkeypatch):
    made = Time()
    monkeypatch.setattr(flow_process, "time", made)
    monkeypatch.setattr(flow_process, "select", made)
    return made


# Number of the flow. Its port is below those that the system gives away, and this process's own.
NUMBER = 1000 + os.getpid() % 11_000


def flow(**changed):
    return {
        **dict(kind="udp", number=NUMBER, packet_bytes=142, rate_bps=1_136_000),  # one per ms
        **dict(start_ns=2 * MS, end_ns=None, on_ns=None, off_ns=None),
        **dict(burst_bytes=None, every_ns=None, congestion_control="reno"),
        **changed,
    }


def run_end(clock, end: str, **changed) -> tuple[int, list[dict]]:
    """Run an end until it is told to stop; returns its exit code and what it has said."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.send(json.dumps({"start_ns": clock.now_ns}).encode())
        ours.shutdown(socket.SHUT_WR)  # so it has hung up at the end
        arguments = {"flow": flow(**changed), "end": end, "address": "127.0.0.1"}
        try:
            code = flow_process.run(arguments, [its.detach()])
        except SystemExit as ended:
            code = ended.code
        said = []
        while True:
            try:
                data = ours.recv(1 << 16)
            except ConnectionResetError:
                continue  # it ended before it read everything
            if not data:
                return code, said
            said.append(json.loads(data))


@pytest.fixture
def sink():
    """A socket that gets the datagrams of the flow."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", flow_process.PORT + NUMBER))
        made.setblocking(False)
        yield made


def drain(sink: socket.socket) -> list[int]:
    """Sizes of the datagrams that have come."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(len(sink.recv(4096)))
    return found


@pytest.mark.parametrize(
    "changed, until_ms, packets",
    [
        ({}, 12.5, 11),  # from 2 to 12 ms, one each
        ({"end_ns": 7 * MS + 1}, 60, 6),
        ({"on_ns": 3 * MS, "off_ns": 7 * MS}, 24.5, 9),  # at 2, 3, 4, 12, 13, 14, 22, 23, 24 ms
        ({"start_ns": 80 * MS}, 70, 0),
        ({"rate_bps": 1_136_000 * 100, "end_ns": 12 * MS}, 20, 1001),  # many at a time
        ({"rate_bps": 1_136_000 * 1000, "end_ns": 12 * MS}, 20, 10001),  # more than in one go
    ],
)
def test_packets_of_a_constant_rate_are_sent_when_they_are_due(
    clock, sink, changed, until_ms, packets
):
    sizes: list[int] = []
    clock.looks = lambda: sizes.extend(drain(sink))
    clock.stop_after(until_ms)
    code, said = run_end(clock, "sender", **changed)
    sizes.extend(drain(sink))
    assert (code, said[0]) == (0, {"ready": True})
    assert said[1:] == [{"done": {"packets_sent": packets}, "still_ns": 0}]
    assert sizes == [100] * packets  # without headers


def test_a_sender_that_is_too_late_says_so(clock):
    """Nobody has to be there for its packets."""

    def a_second_goes_by():  # it gets no more than a turn in each
        clock.now_ns += SECOND

    clock.looks = a_second_goes_by
    clock.stop_after(60_000)
    code, said = run_end(clock, "sender", rate_bps=1_136_000)
    assert code == 1
    (failed,) = (each["failed"] for each in said if "failed" in each)
    assert failed.endswith(
        "packets: this machine is too slow for 1.136 Mbit/s in packets of 142 B; take a lower rate"
        " or larger packets"
    )
    assert 10 * SECOND <= clock.now_ns - clock.begun_ns < 20 * SECOND, "it gives up"


def test_a_receiver_counts_packets_and_the_bytes_of_those_that_are_no_copies(clock, monkeypatch):
    monkeypatch.setattr(flow_process, "WINDOW", 16)
    sent = iter([(0, 2, 0, 1), range(2, 300), (299, 300)])

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            for number in next(sent, ()):
                packet = number.to_bytes(8, "little") + bytes(10)
                end.sendto(packet, ("127.0.0.1", flow_process.PORT + NUMBER))

    clock.looks = send
    clock.stop_after(1000)
    code, said = run_end(clock, "receiver")
    assert code == 0 and said[0] == {"ready": True}
    assert said[1]["done"] == {"packets_received": 304, "different": 301, "bytes": 301 * 18}


def test_a_stream_that_cannot_send_looks_at_its_times_all_the_same(clock, peer, monkeypatch):
    receiver = peer()
    clock.looks = receiver.look
    clock.stop_after(60)
    real = clock.select

    def full(reading, writing, failed, wait_s):
        if writing:
            clock.sending.append(clock.now_ns - clock.begun_ns)
        return real(reading, (), failed, wait_s)

    monkeypatch.setattr(clock, "select", full)
    times = dict(start_ns=5 * MS, on_ns=5 * MS, off_ns=10 * MS, end_ns=47 * MS)
    run_end(clock, "sender", kind="tcp", packet_bytes=1514, **times)
    tries = [round(time_ns / MS) for time_ns in clock.sending]
    assert sorted(set(tries)) == [5, 20, 35] and receiver.count == 0


class Peer:
    """The receiver of a TCP flow, without a clock: it takes what comes, and answers each burst."""

    def __init__(self, burst_bytes: int = 0) -> None:
        self.listening = socket.create_server(("127.0.0.1", flow_process.PORT + NUMBER))
        self.end: socket.socket | None = None
        self.burst_bytes, self.count, self.answered = burst_bytes, 0, 0

    def look(self) -> None:
        if self.end is None:
            self.end, _ = self.listening.accept()
            self.end.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while data := self.end.recv(1 << 20):
                self.count += len(data)
        if self.burst_bytes and self.count >= (self.answered + 1) * self.burst_bytes:
            self.answer()

    def answer(self) -> None:
        self.answered += 1
        self.end.send(b"b")

    def close(self) -> None:
        self.listening.close()
        if self.end is not None:
            self.end.close()


@pytest.fixture
def peer():
    made = []

    def begin(burst_bytes: int = 0) -> Peer:
        made.append(Peer(burst_bytes))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def test_a_stream_sends_only_in_its_times(clock, peer):
    """A wait in which something can be sent takes no time; here it takes a quarter of a ms."""
    receiver = peer()

    def look():
        receiver.look()
        clock.now_ns += MS // 4

    clock.looks = look
    clock.stop_after(40)
    times = dict(start_ns=5 * MS, on_ns=5 * MS, off_ns=10 * MS, end_ns=23 * MS)
    code, said = run_end(clock, "sender", kind="tcp", packet_bytes=1514, **times)
    assert code == 0 and set(said[1]["done"]) == {"lost"}  # 1 if an ACK takes long
    assert receiver.count >= len(flow_process.BUFFER)
    assert {time_ns // MS for time_ns in clock.sending} == {5, 6, 7, 8, 9, 10, 20, 21, 22, 23}
    assert len(clock.sending) < 4 * 10


def test_bursts_are_sent_at_their_times_and_answered(clock, peer):
    receiver, begun = peer(150_000), []

    def look():
        before = receiver.count
        receiver.look()
        if before % 150_000 == 0 and receiver.count > before:
            begun.append((clock.now_ns - clock.begun_ns) // MS)

    clock.looks = look
    clock.stop_after(90)
    times = dict(start_ns=3 * MS, end_ns=40 * MS, burst_bytes=150_000, every_ns=10 * MS)
    code, said = run_end(clock, "sender", kind="tcp", packet_bytes=1514, **times)
    done = said[1]["done"]
    assert code == 0 and set(done) == {"lost", "bursts"}
    assert 0 < len(done["bursts"]) == receiver.answered
    assert receiver.count == 150_000 * receiver.answered
    assert set(begun) <= {3, 13, 23, 33} and len(begun) == len(set(begun))


def test_a_burst_that_takes_long_moves_only_the_next_one(clock, peer):
    """Here the first takes 14 ms: then those of 13 ms begin at once, and the others in time."""
    receiver, begun = peer(1000), []
    send = receiver.answer

    def answer():
        if receiver.answered == 0:
            clock.now_ns += 14 * MS
        begun.append((clock.now_ns - clock.begun_ns) // MS)
        send()

    receiver.answer = answer
    clock.looks = receiver.look
    clock.stop_after(50)
    times = dict(start_ns=3 * MS, end_ns=45 * MS, burst_bytes=1000, every_ns=10 * MS)
    code, _ = run_end(clock, "sender", kind="tcp", packet_bytes=1514, **times)
    assert code == 0 and begun == [17, 17, 23, 33, 43]


def test_a_receiver_that_has_hung_up_is_an_error(clock, peer):
    receiver = peer()

    def look():
        receiver.look()
        if receiver.count == 1000:
            receiver.end.shutdown(socket.SHUT_WR)

    clock.looks = look
    times = dict(start_ns=0, burst_bytes=1000, every_ns=10 * MS)
    code, said = run_end(clock, "sender", kind="tcp", packet_bytes=1514, **times)
    assert code == 1 and said[1] == {"failed": "sender: the receiver has hung up"}


@pytest.mark.parametrize("burst_bytes, answers", [(None, b""), (400, b"bb")])
def test_a_receiver_of_a_stream_answers_whole_bursts(clock, monkeypatch, burst_bytes, answers):
    ends, answered = [], []
    say = flow_process.Control.say

    def connect(self, **message):
        say(self, **message)
        if "ready" in message:
            ends.append(socket.create_connection(("127.0.0.1", flow_process.PORT + NUMBER)))
            ends[0].sendall(bytes(950))
            ends[0].setblocking(False)

    def look():
        with contextlib.suppress(BlockingIOError):
            answered.append(ends[0].recv(10))

    monkeypatch.setattr(flow_process.Control, "say", connect)
    clock.looks = look
    clock.stop_after(5000)
    code, said = run_end(clock, "receiver", kind="tcp", packet_bytes=1514, burst_bytes=burst_bytes)
    ends[0].close()
    assert code == 0 and said[1]["done"] == {"bytes": 950}
    assert b"".join(answered) == answers


def test_a_sender_waits_for_its_receiver_for_some_time(clock):
    code, said = run_end(clock, "sender", kind="tcp", packet_bytes=1514)
    assert code == 1 and "refused" in said[0]["failed"]
    assert 0 <= clock.now_ns - clock.begun_ns - flow_process.CONNECT_S * SECOND < SECOND


def test_an_end_that_is_stopped_before_the_start_has_done_nothing(clock):
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.shutdown(socket.SHUT_WR)
        arguments = {"flow": flow(), "end": "receiver", "address": "127.0.0.1"}
        assert flow_process.run(arguments, [its.detach()]) == 0
        assert [json.loads(ours.recv(100)) for _ in range(2)] == [
            {"ready": True},
            {"done": {}, "still_ns": 0},
        ]


def test_a_socket_has_the_congestion_control_of_the_file():
    flow = {"packet_bytes": 1000, "congestion_control": "reno"}
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        flow_process._set_up(made, flow)
        name = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert name.rstrip(b"\0") == b"reno"
        with pytest.raises(OSError, match=r"no congestion control nosuch; it has .*\breno\b"):
            flow_process._set_up(made, flow | {"congestion_control": "nosuch"})


@pytest.mark.parametrize("due, sent, late", [(64, 0, False), (65, 0, True), (0, 100, False)])
def test_a_few_packets_are_not_late(due, sent, late):
    assert flow_process._late(due, sent) == late
