"""Rows of the results tables: counts around a switch's restart, and mean rates."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from testbed.run_parts.result_rows import together, worker_files


def test_what_a_switch_counted_before_its_restart_is_kept():
    port = {"port": 1, "direction": "egress", "packets": 5, "bytes": 50, "max_queue": 9}
    port |= {"unmodelled_drops": None}
    left = [(0, True, "evicted", 2)], [(0, True, "evicted", 5), (0, False, "evicted", 1)]
    first = [(0, "completions", 3), (1, "completions", 4)], [port], left[0]
    more = [port | {"max_queue": 2}]
    second = [(0, "completions", 10), (1, "completions", 0)], more, left[1]
    registers, ports, departures = together([first, second])
    assert departures == [(0, True, "evicted", 7), (0, False, "evicted", 1)]
    assert registers == [(0, "completions", 13), (1, "completions", 4)]
    (found,) = ports
    assert (found["packets"], found["bytes"], found["max_queue"]) == (10, 100, 9)
    assert together([first]) == first


def test_the_file_of_a_killed_worker_may_end_anywhere_and_goes(tmp_path):
    hosts = []
    for number, done in enumerate(({"end_ns": 5}, None, None)):
        job = SimpleNamespace(number=0)
        spec = SimpleNamespace(is_worker=True, job=job, number=number)
        hosts.append(SimpleNamespace(spec=spec, done=done, output=tmp_path / f"{number}.npz"))
    np.savez(hosts[0].output, end_ns=np.array([5]))
    hosts[1].output.write_bytes(hosts[0].output.read_bytes()[:20])  # the third has none
    (((worker, times)),) = worker_files(hosts)
    assert worker == (0, 0) and times["end_ns"].tolist() == [5]
    assert not list(tmp_path.iterdir())
