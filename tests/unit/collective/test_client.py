"""A rank and its host process: the memory that they share, its calls, and the link."""

from __future__ import annotations

import functools
import json
import os
import random
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed.collective import CollectiveError, client, memory_map, prelude, tally
from testbed.collective.client import _Arena


def test_no_two_arrays_share_words():
    draw = random.Random(3)
    arena, taken = _Arena(4096), []
    for _ in range(2000):
        if taken and draw.random() < 0.5:
            arena.give_back(*taken.pop(draw.randrange(len(taken))))
        elif (place := arena.take(words := draw.randrange(1, 300))) is not None:
            taken.append((place, words))
        ends = sorted((place, place - -words // 16 * 16) for place, words in taken)
        assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:], strict=False))
    for place, words in taken:
        arena.give_back(place, words)
    assert arena.free == [(0, 4096)]


def test_a_long_failure_is_cut():
    memory = memory_map.shared(memory_map.new_memory(16))
    assert memory_map.read_failure(memory) is None
    memory_map.write_failure(memory, "é" * memory_map.TEXT_BYTES)
    said = memory_map.read_failure(memory)
    assert said == "é" * (memory_map.TEXT_BYTES // 2)
    assert not memory.words.any(), "nothing behind the text is written"


class OneByOne(client.Link):
    """The end of a host process in a job of four ranks that all give the same. While the rank
    waits, its oldest call is done."""

    def __init__(self, words: int = 1 << 16) -> None:
        facts = dict(
            rank=2, ranks=4, block_values=1024, floats=memory_map.FLOATS, wide=(), formats=["int32"]
        )
        super().__init__(memory_map.new_memory(words), facts)
        self.done = 0
        self.most = 0  # calls under way

    def ring(self) -> None:
        self.most = max(self.most, int(self.memory.header["submitted"][0]) - self.done)

    def wait(self, timeout_s: float | None) -> None:
        record = self.memory.calls[self.done % memory_map.CALLS]
        assert record.state == memory_map.SUBMITTED
        integers = record.form == memory_map.INTEGERS
        words = self.memory.words if integers else self.memory.numbers
        source, target, values = record.source, record.target, record.values
        if values == 0:
            said = prelude.prelude_words(4, 0)
            source = target = record.prelude + said
            values = record.prelude_words - said
        words[target : target + values] = 4 * words[source : source + values] / record.divisor
        record.state = memory_map.DONE
        self.done += 1


def test_more_calls_than_records_wait_for_the_oldest():
    job = client.Job(link := OneByOne())
    handles = [job.allreduce_async(np.full(3, i, np.int32)) for i in range(600)]
    assert (link.most, link.done) == (memory_map.CALLS, 600 - memory_map.CALLS)
    assert handles[343].done() and not handles[344].done()
    for i in (599, *range(599)):
        assert handles[i].wait().tolist() == 3 * [4 * i]
    assert not any(handle.rare_blocks for handle in handles)
    assert (link.memory.calls["done_ns"] == -1).all(), "the host process says when they are done"
    job.close()
    assert link.memory.header["closed"] == 1


def test_a_list_of_numbers_is_an_array():
    job = client.Job(OneByOne())
    four = [np.float32(n) for n in range(4)]
    assert job.reduce_scatter(four).tolist() == [8.0]
    assert job.reduce(np.array(four), 2).tolist() == [0, 4, 8, 12]
    assert job.all_gather([1.5, 2]).shape == (4, 2)
    assert job.broadcast([7, 8], 2).tolist() == [7, 8]


def test_calls_wait_for_room_in_the_memory_that_is_shared():
    job = client.Job(link := OneByOne(4096))
    handles = [job.allreduce_async(np.full(1000, i, np.float32)) for i in range(20)]
    assert link.most == 3, "each has a prelude, too"
    kept = job.empty(2000)
    assert link.done >= 18
    kept[:] = 7
    for i, handle in enumerate(handles):
        assert (handle.wait() == 4 * i).all()
    assert (job.allreduce(kept, mean=True) == 7).all()
    with pytest.raises(MemoryError, match="an array of 2100 values does not fit"):
        job.allreduce_async(np.zeros(2100, np.float32))


def test_the_first_results_that_are_not_finite_are_named(capsys):
    job = client.Job(link := OneByOne())
    for i in range(client.NAMED + 5):
        given = np.zeros(20, np.float32)  # of fewer the sum is a gather
        given[3:5] = np.inf
        handle = job.allreduce_async(given)
        link.memory.calls[i].rare_blocks = 1
        handle.wait()
    named = [
        f"ina: collective {i + 1}, allreduce of 20 float32 values: 2 values of the result are not"
        " finite, the first is inf at index 3"
        for i in range(client.NAMED)
    ]
    last = "ina: further results that are not finite are not named"
    assert capsys.readouterr().err.splitlines() == [*named, last]


def test_a_wait_ends_in_time_or_with_the_job():
    job = client.Job(link := OneByOne())
    handle = job.allreduce_async(np.ones(1, np.int32))
    with pytest.raises(TimeoutError, match="not done after 0 s"):
        handle.wait(0)
    memory_map.write_failure(link.memory, "rank 1 has ended")
    for waiting in (handle.wait, handle.done, job.look):
        with pytest.raises(CollectiveError, match="rank 1 has ended"):
            waiting()


def test_what_a_rank_has_given_is_counted(monkeypatch, tmp_path):
    monkeypatch.setattr(tally, "TALLY", counts := tally.Tally())
    job = client.Job(OneByOne())
    for count in (3, 5):
        handle = job.allreduce_async(np.ones(count, np.int32))
        handle.wait()
        handle.wait()
    job.reduce_scatter(np.ones((8, 2), np.float32), mean=True)
    job.all_gather(np.ones(3, np.uint8))
    job.broadcast(np.ones(2))
    job.barrier()
    counts.add("0 2", "reduce", "int64", 24, None, tally.GLOO)
    counts.add("0 2", "reduce", "int64", 24, 7, tally.GLOO)
    path = tmp_path / "counts"
    counts.write()  # outside a job
    monkeypatch.setenv(tally.COLLECTIVES, str(path))
    for each in (counts, tally.Tally(), counts):
        each.write()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 6, "what has been written counts once"
    monkeypatch.setattr(counts, "_due_s", 0)  # it is time to write
    counts.add("0 2", "reduce", "int64", 24, 8, tally.GLOO)
    assert counts.rows() == [] and json.loads(path.read_text().splitlines()[6])["time_ns"] == 8
    counts.add("0 2", "reduce", "int64", 24, 8, tally.GLOO)
    assert len(counts.rows()) == 1 and len(path.read_text().splitlines()) == 7
    times = [row.pop("time_ns") for row in rows[:6]]
    assert times[0] is None and all(time > 0 for time in times[1:])
    assert [tuple(row.values()) for row in rows[:6]] == [
        ("0 2", "reduce", "int64", "gloo", 2, 48),
        ("all", "all_gather", "uint8", "system", 1, 3),
        ("all", "all_reduce", "int32", "system", 2, 32),
        ("all", "barrier", "", "system", 1, 0),
        ("all", "broadcast", "float64", "system", 1, 16),
        ("all", "reduce_scatter", "float32", "system", 1, 64),
    ]


def test_counts_of_long_runs_are_written_more_rarely(monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(tally, "time", clock)
    counts = tally.Tally()
    for now_s, due_s in ((100.0, 101.0), (140.0, 141.0), (1100.0, 1120.0)):
        clock.monotonic = functools.partial(float, now_s)
        counts.write()
        assert counts._due_s == due_s


class HostProcess:
    """The other end of the links of one rank, in a thread; `wishes`: what they have asked for."""

    def __init__(self, name: str, answer: dict) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(client.address_of(name))
        self.listener.listen()
        self.listener.settimeout(60)
        self.wishes: list[dict] = []
        self.memory = os.memfd_create("shared")
        os.truncate(self.memory, memory_map.shared_bytes(256))
        self.bell, self.news = os.eventfd(0), os.eventfd(0)
        self.connection: socket.socket | None = None
        self.answer = {"bytes": memory_map.shared_bytes(256), **answer}
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        self.connection = connection
        self.wishes.append(json.loads(connection.recv(memory_map.MAX_MESSAGE)))
        descriptors = [self.memory, self.bell, self.news]
        socket.send_fds(connection, [json.dumps(self.answer).encode()], descriptors)

    def close(self) -> None:
        self.thread.join()
        self.listener.close()
        if self.connection is not None:
            self.connection.close()
        for descriptor in (self.memory, self.bell, self.news):
            os.close(descriptor)


@pytest.fixture
def host_process(monkeypatch):
    """Begins a host process, of rank 7 of a job, that gives an answer."""
    begun = []
    name = client.socket_name(os.getpid(), 7)
    monkeypatch.setenv(client.SOCKET, name)

    def begin(**answer) -> HostProcess:
        begun.append(HostProcess(name, answer))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


FACTS = dict(rank=1, ranks=3, block_values=1024, floats=memory_map.FIXED_SCALE, members=[4, 7, 9])
FACTS |= {"wide": (), "formats": ["int32"]}


def test_a_rank_and_its_host_process_wake_each_other(host_process):
    host = host_process(**FACTS)
    with client.join_group("key", [4, 7, 9], timeout_s=20) as job:
        assert host.wishes == [{"key": "key", "rank": 1, "size": 3, "ranks": [4, 7, 9]}]
        assert (job.rank, job.size, job.label) == (1, 3, "4 7 9")
        handle = job.allreduce_async(np.ones(30, np.float32))
        assert os.eventfd_read(host.bell) == 1
        memory = memory_map.shared(memory_map.map_memory(host.memory, host.answer["bytes"]))
        record = memory.calls[0]
        assert (record.form, record.values) == (memory_map.FIXED_SCALE, 30)
        assert record.prelude_words == prelude.prelude_words(3, 0)
        memory.numbers[record.target : record.target + 30] = range(30)
        record.state = memory_map.DONE
        os.eventfd_write(host.news, 1)
        assert handle.wait(20).tolist() == [*range(30)]
        handle = job.allreduce_async(np.ones(30, np.float32))
        host.connection.close()
        with pytest.raises(CollectiveError, match="host process of this rank has ended"):
            handle.wait(20)
        record = memory.calls[1]
        record.state = memory_map.DONE
        job.look()
    assert os.eventfd_read(host.bell) == 2, "also of the end"
    assert memory.header["closed"] == 1


def test_a_rank_joins_its_job_by_another_number(host_process):
    host_process(**FACTS | {"members": None})
    job = client.join(rank=2)
    assert (client.job_rank(), job.rank, job.label) == (7, 2, "all")
    job.close()
    job.close()
    with pytest.raises(UserError, match="this process is rank 4 of its group; the job has 4"):
        client.Job(OneByOne(), 4)


def test_who_cannot_join_is_told_why(host_process, monkeypatch):
    with pytest.raises(UserError, match=r"its host process does not answer as ina-\d+-7 \("):
        client.join()
    host_process(refused="there is no communicator left", ended=True)
    with pytest.raises(client.Refused, match="^cannot join the job: there is no comm") as caught:
        client.join()
    assert caught.value.ended
    monkeypatch.delenv(client.SOCKET)
    with pytest.raises(UserError, match="this process belongs to no job"):
        client.join()
