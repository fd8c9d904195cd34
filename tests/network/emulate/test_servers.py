"""Servers with several ranks on Mininet: one namespace, an interface for each rank, and programs
that make the processes of their ranks themselves."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from testbed import results
from tests.support.runs import finished, run

EXPERIMENT = """
name: servers
topology: {kind: rails, servers: 2, ranks: 2, server_ps: 1}
links: {bandwidth: 20 Mbit/s, loss: 1 %}
system: SYSTEM
memory: {aggregators: 320}
jobs:
  - {name: p, command: COMMAND, workers: 4, parallel: {tp: 2, dp: 2}}
"""

REPLAY = """
topology: TOPOLOGY
links: {bandwidth: 20 Mbit/s}
system: SYSTEM
jobs: [{model: resnet18, workers: 4, iterations: 1, scale: 0.0005, compute_scale: 0}]
"""

# A rank of a 2 x 2 mesh, which says where it is.
RANK = """
import os
import socket
import sys
import time
import numpy as np
import testbed
from testbed import collective
from testbed.collective import client

with collective.join() as job:
    rank = client.job_rank()
    assert (job.rank, job.size) == (rank, 4)
    for members in [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2, rank % 2 + 2]:
        group = client.join_group(str(members), members)
        total = group.allreduce(np.arange(5000, dtype=np.int32) * (rank + 1))
        assert (total == np.arange(5000) * sum(each + 1 for each in members)).all()
    for target in "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unbound:
            unbound.connect((target, 9))
            assert unbound.getsockname()[0] == f"10.0.0.{rank + 1}", (rank, target)
    total = job.allreduce(np.arange(3000, dtype=np.int32) * (rank + 1))
    assert (total == 10 * np.arange(3000)).all()
    testbed.report(step=1, rank=rank)
    if {"fail", "hang"} & {*sys.argv} and rank == 3:
        sys.exit("rank 3 has had enough")
    if "hang" in sys.argv:
        time.sleep(1000)
    job.barrier()
    names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK"
    names += " ROLE_WORLD_SIZE NODE_RANK MASTER_PORT GLOO_SOCKET_IFNAME"
    said = [os.environ.get(name, "-") for name in names.split()]
    print("in order", rank, os.uname().nodename, sorted(os.listdir("/sys/class/net")), *said)
"""

# Makes the ranks of its server, each in a session of its own, as torchrun does. Words: it does not
# say which rank a process is; it does not wait for the others when one has failed.
LAUNCHER = """
import os
import subprocess
import sys
import time

count, node = int(os.environ["PET_NPROC_PER_NODE"]), os.environ["PET_NODE_RANK"]
assert os.environ["PET_NNODES"] == "2" and os.environ["PET_MASTER_ADDR"].startswith("10.0.")
assert "RANK" not in os.environ and "LOCAL_RANK" not in os.environ
started = []
for local in range(count):
    told = {} if "silent" in sys.argv else {"LOCAL_RANK": str(local)}
    command = [sys.executable, os.path.join(os.path.dirname(__file__), "rank.py"), *sys.argv[1:]]
    started.append(subprocess.Popen(command, env=os.environ | told, start_new_session=True))
while "hang" in sys.argv and not any(process.poll() for process in started):
    time.sleep(0.1)
if "hang" in sys.argv:
    sys.exit(1)
sys.exit(max(process.wait() for process in started))
"""


def start(tmp_path: Path, command: str, system: str = "esa", launch: str = "ranks"):
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    path = tmp_path / "experiment.yaml"
    text = EXPERIMENT.replace("COMMAND", command).replace("SYSTEM", system)
    if system == "ring":
        text = text.replace("memory: {aggregators: 320}", "")
    path.write_text(text.replace("workers: 4", f"workers: 4, launch: {launch}"))
    return run(path, tmp_path / "results", "--no-report")


def folder_of(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "results").iterdir()
    return folder


@pytest.mark.parametrize(
    "topology, system",
    [
        # Of each rank of the ring, the next one is on the same server, or on the other.
        ("{kind: star, hosts: 4, per_server: 2}", "ring"),
        # The parameter server is on the server of all workers.
        pytest.param("{kind: star, hosts: 5, per_server: 5}", "ps", marks=pytest.mark.slow),
    ],
)
def test_packets_between_ranks_of_a_server_take_the_wire(tmp_path, topology, system):
    read = finished(
        REPLAY.replace("TOPOLOGY", topology).replace("SYSTEM", system), tmp_path / "results"
    )
    sent = read.hosts.set_index("host").packets_sent
    links = read.links.set_index(["neighbour", "direction"])
    for host in sent.index:
        # An acknowledgement may be on its way while they are counted.
        assert 0 <= links.packets[host, "ingress"] - sent[host] < 10 < sent[host]
    # What a server receives comes to the rank that it is for.
    received = read.hosts.set_index("host").packets_received
    for host in received.index:
        assert 0 <= links.packets[host, "egress"] - received[host] < 10 < received[host]
    assert (read.hosts.socket_drops == 0).all() and (read.links.refused.fillna(0) == 0).all()


def test_each_rank_of_a_server_has_its_place(tmp_path):
    done = start(tmp_path, "rank.py")
    assert done.returncode == 0, done.stderr
    folder = folder_of(tmp_path)
    for rank in range(4):
        node, local = divmod(rank, 2)
        first = 2 * node + 1
        (line,) = (folder / "logs" / f"p-rank{rank}.log").read_text().splitlines()
        interfaces = [f"h{number}-eth0" for number in (first, first + 1, 7 + node)] + ["lo"]
        words = f"{rank} 4 {local} 2 {node} 2 {rank} 4 {node} 29500 h{rank + 1}-eth0"
        assert line == f"in order {rank} n{node + 1} {interfaces} {words}"
    read = results.read(folder)
    # Groups between servers have a rail each, with a parameter server there; h7 and h8 are those
    # of the groups inside a server.
    assert {*read.hosts.query("role == 'ps'").host} == {"h5", "h6", "h7", "h8"}
    links = read.links.query("direction == 'egress'").set_index(["node", "neighbour"]).packets
    assert links["s4", "h6"] > 79 and min(links["s1", "h7"], links["s2", "h8"]) > 79
    assert links["s1", "s4"] < 1.2 * links["s4", "h6"], "only one group is on this rail"
    called = read.collectives.groupby("communicator").bytes.sum()
    assert set(called.index) == {"all", "0 1", "2 3", "0 2", "1 3"}


LAUNCHES = ["", pytest.param("silent", marks=pytest.mark.slow)]


@pytest.mark.parametrize("how", LAUNCHES)
def test_a_program_that_makes_the_ranks_of_its_server(tmp_path, how):
    done = start(tmp_path, f"launcher.py {how}", launch="servers")
    assert done.returncode == 0, done.stderr
    folder = folder_of(tmp_path)
    for node in range(2):
        said = (folder / "logs" / f"p-n{node + 1}.log").read_text()
        assert said.count("in order") == 2, said
    measures = results.read(folder).measures
    assert measures.sort_values("worker").value.to_list() == [0, 1, 2, 3]
    assert set(measures.worker) == {0, 1, 2, 3}
    called = results.read(folder).collectives.groupby("worker").calls.sum()
    assert [*called.index] == [0, 1, 2, 3] and called.nunique() == 1


@pytest.mark.slow
def test_a_rank_that_fails_ends_its_server_and_the_job(tmp_path):
    done = start(tmp_path, "launcher.py fail", launch="servers")
    assert done.returncode == 1
    assert "rank 3 of job p has left the job before its end, and the process on" in done.stderr
    assert "rank 3 of job p has ended after 1 collectives" in done.stderr
    log = folder_of(tmp_path) / "logs" / "p-n2.log"
    assert "rank 3 has had enough" in log.read_text()


def test_nothing_is_left_of_ranks_that_hang(tmp_path):
    """Their processes have sessions of their own, and the process that made them has ended, or is
    killed."""
    done = start(tmp_path, "launcher.py hang", launch="servers")
    assert done.returncode == 1
    assert "the process on server n2 of job p (ranks 2, 3) ended with exit code 1" in done.stderr
    script = str(tmp_path / "rank.py").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            assert script not in path.read_bytes()
