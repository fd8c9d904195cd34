"""Programs as jobs on Mininet: what each rank gets, says and may do."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from testbed import results
from tests.support.paths import ROOT
from tests.support.runs import PYTHON, run

EXPERIMENT = """
name: programs
topology: {{kind: star, hosts: 8}}
links: {{bandwidth: 20 Mbit/s, loss: 1 %, duplicate: 1 %}}
system: {{name: {system}, window: 64}}
{memory}
jobs:
  - {{name: p, command: program.py, workers: 4}}
{more}
"""

# Checks its surroundings, and sums while a job that replays a model competes for the switch; then
# reports.
SUMS = """
import os
import socket
import numpy as np
import testbed
from testbed import collective

rank = int(os.environ["RANK"])
assert os.environ["WORLD_SIZE"] == "4" and os.environ["LOCAL_RANK"] == "0"
assert os.environ["MASTER_ADDR"].startswith("10.") and os.environ["MASTER_PORT"]
name = socket.gethostname()
assert socket.gethostbyname(name).startswith("10.") and name == f"h{rank + 1}", name
assert set(os.listdir("/sys/class/net")) == {"lo", f"{name}-eth0"}
with collective.join() as job:
    assert (job.rank, job.size) == (rank, 4)
    for step in range(6):
        random = np.random.default_rng(step)
        whole = random.integers(-2**31, 2**31, (4, 3000)).astype(np.int32)
        floats = random.normal(size=(4, 70, 100)).astype(np.float32)
        handles = [job.allreduce_async(whole[rank]), job.allreduce_async(floats[rank], layer=1)]
        assert (handles[0].wait() == whole.sum(axis=0, dtype=np.int32)).all()
        error = np.abs(handles[1].wait() - floats.astype(np.float64).sum(axis=0)).max()
        assert error < 1e-6, error
        testbed.report(step=step, error=error)
    print("all sums were right")
"""

DIES = """
import os, sys
import numpy as np
from testbed import collective

job = collective.join()
job.allreduce(np.ones(10, np.int32))
if job.rank == 2:
    sys.exit("rank 2 has had enough")
job.allreduce(np.ones(10, np.int32))
"""

LEAVES = """
import numpy as np
from testbed import collective

with collective.join() as job:
    job.allreduce(np.ones(10, np.int32))
    if job.rank != 2:
        job.allreduce(np.ones(10, np.int32))
"""

LATE = """
import time
import numpy as np
from testbed import collective

with collective.join() as job:
    job.allreduce(np.ones(10, np.int32))
    if job.rank == 2:
        time.sleep(1000)
    job.barrier()
"""

DIFFERS = """
import numpy as np
from testbed import collective

with collective.join() as job:
    job.allreduce(np.ones(10 + job.rank // 3, np.float32))
"""


TWICE = """
import subprocess, sys
import numpy as np
from testbed import collective

JOIN = "from testbed import collective; collective.join()"


def refused():
    ended = subprocess.run([sys.executable, "-c", JOIN], capture_output=True, text=True)
    return ended.stderr.splitlines()[-1].partition("cannot join the job: ")[2]


with collective.join() as job:
    if job.rank == 1:
        print(refused())
    job.allreduce(np.ones(10, np.int32))
if job.rank == 1:
    print(refused())
"""


REFUSED = """
from testbed import collective
from testbed.collective import client

with collective.join() as job:
    try:
        client.join_group("all", range(4))
    except client.Refused as error:
        print(error)
    job.barrier()
"""

# Rows and columns of a 2 x 2 mesh; what a group is called in does not matter to the others.
GROUPS = """
import numpy as np
from testbed import collective
from testbed.collective import client

with collective.join() as job:
    rank = job.rank
    for turn in range(3):
        row = [rank // 2 * 2, rank // 2 * 2 + 1]
        column = [rank % 2 + 2, rank % 2]  # the second is the first one's rank 0
        rows = client.join_group(f"row {row} {turn}", row)
        columns = client.join_group(f"column {sorted(column)} {turn}", column)
        assert (rows.rank, columns.rank) == (rank % 2, 1 - rank // 2)
        assert (rows.size, columns.size) == (2, 2)
        for step in range(5):
            given = np.arange(5000, dtype=np.int32) * (rank + 1) + step
            calls = [(rows, row, given), (columns, column, given[:70])]
            if rank % 2:  # the ranks of a row call them in different order
                calls.reverse()
            handles = [group.allreduce_async(values) for group, _, values in calls]
            whole = job.allreduce_async(given)
            for handle, (_, members, values) in zip(handles, calls):
                expected = sum(np.arange(values.size) * (each + 1) + step for each in members)
                assert (handle.wait() == expected).all()
            assert (whole.wait() == np.arange(5000) * 10 + 4 * step).all()
        assert (columns.all_gather(np.full(3, rank))[:, 0] == column).all()
        assert columns.broadcast(np.full(3, rank), root=1)[0] == column[1]
        rows.close()
        columns.close()
    job.barrier()
    try:
        client.join_group("strangers", [0, 9])
    except client.Refused as error:
        print(error)
"""


def start(tmp_path: Path, program: str = "", system: str = "esa", more: str = "", keys: str = ""):
    """Run four ranks of a program, by its text; `keys` are further ones of the job."""
    (tmp_path / "program.py").write_text(program)
    memory = "" if system in ("ring", "ps") else "memory: {aggregators: 64}"
    path = tmp_path / "experiment.yaml"
    text = EXPERIMENT.format(system=system, memory=memory, more=more)
    command = "" if ", command" in keys else "command: program.py, "
    text = text.replace("command: program.py, workers: 4", f"{command}workers: 4{keys}")
    path.write_text(text)
    return run(path, tmp_path / "results", "--no-report")


def logs(tmp_path: Path) -> list[str]:
    """Output of each rank."""
    (folder,) = (tmp_path / "results").iterdir()
    return [(folder / "logs" / f"p-rank{rank}.log").read_text() for rank in range(4)]


def ended_well(tmp_path: Path, *program: str, **options: str) -> results.Results:
    done = start(tmp_path, *program, **options)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    return results.read(folder)


@pytest.mark.parametrize(
    "system", ["esa", pytest.param("esa, results_from: switch", marks=pytest.mark.slow)]
)
def test_sums_are_right_beside_a_job_that_replays(tmp_path, system):
    more = "  - {name: r, model: resnet18, workers: 2, iterations: 2, scale: 0.005}"
    read = ended_well(tmp_path, SUMS, system, more)
    assert logs(tmp_path) == ["all sums were right\n"] * 4
    job = read.jobs.set_index("name").loc["p"]
    assert job.outcome == "finished" and job.jct_ns > 0
    assert job.values_checked > 4 * 6 * 10_000  # with preludes
    counted = read.switch_counters.set_index(["job", "counter"]).value
    assert counted[0, "completions"] > 0
    said = read.measures
    assert sorted(zip(said.worker, said.step, strict=True)) == [
        (rank, step) for rank in range(4) for step in range(6)
    ]
    assert set(said.name) == {"error"} and (said.value < 1e-6).all()
    assert (said.time_ns <= job.end_ns).all()


GROUP_SYSTEMS = ["esa"] + [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (
        *("esa, results_from: switch", "atp", "switchml", "tree, mode: quotas", "grid", "ps"),
        "ring",
    )
]


@pytest.mark.parametrize("system", GROUP_SYSTEMS)
def test_groups_of_ranks_have_communicators_of_their_own(tmp_path, system):
    more = "  - {name: r, model: resnet18, workers: 2, iterations: 2, scale: 0.005}"
    read = ended_well(tmp_path, GROUPS, system, more, ", groups: 4")  # 12, one after the other
    assert all("the ranks disagree about group strangers" in log for log in logs(tmp_path))
    job = read.jobs.set_index("name").loc["p"]
    checked = 3 * 5 * 4 * (5000 + 5000 + 70)
    assert checked < job.values_checked < 1.2 * checked
    # Of each turn and step 2 rows, 2 columns and all; of each turn a gather and a broadcast of 2
    # columns; a barrier. Each has a prelude, which has the whole of the last three, and is counted
    # once, not at each rank.
    sums = 3 * 5 * (2 * (1 + 79) + 2 * (1 + 2) + (1 + 79)) + 3 * 2 * 2 + 1
    assert job.fragments == sums
    called = read.collectives.query("collective == 'all_reduce'").groupby("communicator")
    assert called.calls.sum().to_dict() == {
        "all": 60,
        **dict.fromkeys(["0 1", "2 3", "2 0", "3 1"], 30),
    }
    assert called.bytes.sum()["0 1"] == 30 * 5000 * 4 and called.bytes.sum()["2 0"] == 30 * 70 * 4
    assert set(read.collectives.route) == {"system"} and (read.collectives.time_ns > 0).all()
    if system == "esa":
        counted = read.switch_counters.groupby(["job", "counter"]).value.sum()
        assert set(read.switch_counters.job) == {0, 1}
        # Of each turn and step: 2 sums of a row, 2 of a column, and 1 of all.
        assert counted[0, "completions"] > 0.5 * 3 * 5 * (2 * 79 + 2 * 2 + 79)


@pytest.mark.slow
def test_groups_that_get_no_communicator_are_refused(tmp_path):
    ended_well(tmp_path, REFUSED, keys=", groups: 0")
    why = "has made all 0 groups that its key `groups` allows"
    assert all(why in log for log in logs(tmp_path))


@pytest.mark.slow
def test_a_second_process_of_a_rank_is_told_why_it_cannot_join(tmp_path):
    ended_well(tmp_path, TWICE)
    beside, after = logs(tmp_path)[1].splitlines()
    assert "rank 1 of job p is a single process" in beside and "--nproc-per-node 1" in beside
    assert "the process that was rank 1 of job p has left it for good" in after


@pytest.mark.slow
def test_a_program_runs_as_the_user_behind_sudo(tmp_path):
    """It need not be Python, nor use the network."""
    path = tmp_path / "experiment.yaml"
    text = EXPERIMENT.format(system="ring", memory="", more="")
    path.write_text(text.replace("program.py", "sh -c 'id -u; id -G; pwd; cat; echo $USER$RANK'"))
    done = subprocess.run(
        [PYTHON, str(ROOT / "run.py"), str(path), "--results", str(tmp_path / "results")],
        cwd="/",
        env=dict(os.environ, SUDO_UID="54321", SUDO_GID="54322", USER="somebody"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [f"54321\n54322\n/\nsomebody{rank}\n" for rank in range(4)]
    assert logs(tmp_path) == said
    (folder,) = (tmp_path / "results").iterdir()
    assert results.read(folder).jobs.iloc[0].values_checked == 0


@pytest.mark.slow
def test_what_a_program_has_started_ends_with_it(tmp_path):
    command = ", command: sh -c 'sleep 1000 & echo $!; exit 3'"
    done = start(tmp_path, system="ring", keys=command)
    assert done.returncode == 1 and "ended with exit code 3" in done.stderr
    deadline_s = time.monotonic() + 20  # killed, but perhaps not gone yet
    for said in logs(tmp_path):
        while Path(f"/proc/{int(said)}").exists():
            assert time.monotonic() < deadline_s, f"process {said} goes on"
            time.sleep(0.05)


ENDS = {
    "a rank dies": (DIES, "", [0, 1, 3], "rank 2 of job p ended with exit code 1"),
    "a rank leaves early": (LEAVES, "", [0, 1, 3], "rank 2 of job p has ended after 1 collectives"),
    "arrays differ": (
        *(DIFFERS, "", [0, 1, 2, 3]),
        "ranks 0, 1, 2: allreduce of 10 float32 values; rank 3: allreduce of 11 float32 values",
    ),
    "a rank does not come": (
        *(LATE, ", collective_timeout: 6 s", [0, 1, 3]),
        "rank 2 of job p has not called the collective that they wait in: ranks 0, 1, 3 for 6 s,"
        " the job's collective_timeout",
    ),
}


@pytest.mark.parametrize(
    "how", [next(iter(ENDS)), *(pytest.param(h, marks=pytest.mark.slow) for h in [*ENDS][1:])]
)
def test_what_ends_a_job_is_named_on_all_its_ranks(tmp_path, how):
    program, keys, ranks, message = ENDS[how]
    done = start(tmp_path, program, keys=keys)
    assert done.returncode == 1
    assert message in done.stderr and ("had enough" in done.stderr) == (program is DIES)
    told = [rank for rank, said in enumerate(logs(tmp_path)) if "CollectiveError: " in said]
    assert told == ranks and all(message in logs(tmp_path)[rank] for rank in told)


@pytest.mark.slow
def test_a_program_that_ignores_the_backend_is_an_error(tmp_path):
    done = start(tmp_path, keys=", command: /usr/bin/true, backend: ina")
    assert done.returncode == 1
    assert "of job p has ended and never joined the job" in done.stderr
    assert "not installed for the Python that runs it (/usr/bin/true)" in done.stderr
