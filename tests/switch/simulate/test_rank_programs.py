"""Programs of ranks in virtual time: every value of every group is exact, whatever is lost, and
times are those of the graph."""

from __future__ import annotations

from collections import Counter

import pytest
from p4fabric.base.errors import RunError

from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.timeline_data import worker_phases, worker_rows
from testbed.analysis.perfetto import WORKERS
from testbed.cli import main as commands
from testbed.experiment import Experiment, load_text
from testbed.protocols.flows import Flows
from testbed.results import find, read
from testbed.run_parts.program import prepare
from testbed.setup.host_specs import host_specs
from testbed.simulate.simulation import Simulation
from tests.support.experiments import setup_of
from tests.support.ranks import Ranks, every_transfer, text
from tests.support.trace_events import checked
from tests.support.virtual import run_virtual


def mesh() -> Ranks:
    """Tensor parallel pairs and data parallel groups of four, as of a transformer's layer."""
    tensor = {f"tp{pair}": (2 * pair, 2 * pair + 1) for pair in range(4)}
    data = {f"dp{half}": tuple(range(half, 8, 2)) for half in range(2)}
    made = Ranks(**tensor, **data, everyone=tuple(range(8)), alone=(3,))
    for rank in range(8):
        pair, half = f"tp{rank // 2}", f"dp{rank % 2}"
        for _ in range(2):
            made.add(rank, "compute", duration_ns=50_000)
            made.add(rank, "all_gather", group=pair, bytes=4000, dtype="float32")
            made.add(rank, "compute", duration_ns=20_000)
            made.add(rank, "reduce_scatter", group=pair, bytes=8008, dtype="float32")
        step = made.add(rank, "compute", duration_ns=50_000)
        first = made.add(rank, "all_reduce", group=half, bytes=40_000, dtype="bfloat16")
        made.add(rank, "compute", (step,), duration_ns=50_000)
        second = made.add(rank, "all_reduce", group=half, bytes=20_000, dtype="float32")
        made.add(rank, "compute", (first, second), duration_ns=1000)
        made.add(rank, "broadcast", group=half, bytes=777, peer=2 + rank % 2)
        made.add(rank, "reduce", group=pair, bytes=777, peer=rank - rank % 2)
        if rank == 3:
            made.add(rank, "all_reduce", group="alone", bytes=100)
        made.add(rank, "barrier", group="everyone")
    return made


def experiment(*arguments, **options) -> Experiment:
    return load_text(text(*arguments, **options))


def test_what_does_not_depend_overlaps_and_the_rest_waits(tmp_path):
    """Two pairs of groups: a call that runs beside computing, one after it, and compute nodes that
    the processor takes in the order of the file."""
    made = Ranks(a=(0, 1), b=(1, 0))
    for rank in range(2):
        start = made.add(rank, "compute", duration_ns=100_000)
        call = made.add(rank, "all_reduce", (start,), group="a", bytes=256_000)  # 2.6 ms
        other = made.add(rank, "compute", (start,), duration_ns=5_000_000)
        made.add(rank, "compute", (start,), duration_ns=1_000_000)
        made.add(rank, "all_reduce", (other, call), group="b", bytes=4)
    tables = run_virtual(experiment(made.write(tmp_path / "two.et"), "esa", 2))
    (job,) = tables["jobs"]
    # The call of b begins after 5.1 ms, beside the last compute node, which ends after 6.1 ms.
    assert job["jct_ns"] == 6_100_000
    for row in tables["collectives"]:  # both groups have all ranks
        assert (row["communicator"], row["calls"]) == ("all", 2)
        assert 2_600_000 < row["time_ns"] < 3_200_000


def test_iterations_repeat_a_program_and_compute_scale_stretches_it(tmp_path):
    made = Ranks(everyone=(0, 1))
    for rank in range(2):
        made.add(rank, "compute", duration_ns=(1 + rank) * 1_000_000)
        made.add(rank, "barrier", group="everyone")
    path = made.write(tmp_path / "three.et")
    tables = run_virtual(experiment(path, "esa", 2, iterations=3))
    assert 6_000_000 < tables["jobs"][0]["jct_ns"] < 6_200_000
    stretched = text(path, "esa", 2, iterations=3).replace("workers", "compute_scale: 2, workers")
    tables = run_virtual(load_text(stretched))
    assert 12_000_000 < tables["jobs"][0]["jct_ns"] < 12_200_000
    ends = [row["end_ns"] for row in _rows(tables["iterations"]) if row["worker"] == 0]
    assert len(ends) == 3 and ends == sorted(ends)


def _rows(columns) -> list[dict]:
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_charts_show_what_ranks_compute_and_what_they_wait_for(tmp_path):
    """Computing and waiting fill a rank's time, and the summary's computation is that of its steps:
    here of a rank that is slower than its program says."""
    made = Ranks(everyone=(0, 1))
    for rank in range(2):
        made.add(rank, "compute", duration_ns=(1 + 2 * rank) * 1_000_000)
        made.add(rank, "all_reduce", group="everyone", bytes=4000, dtype="float32")
        made.add(rank, ("send", "recv")[rank], peer=1 - rank, tag=1, bytes=4000)
        made.add(rank, "compute", duration_ns=500_000)
    slow = "faults: [{at: 0 s, fault: slow, job: ranks, worker: 1, factor: 2}]\n"
    path = tmp_path / "waits.yaml"
    path.write_text(text(made.write(tmp_path / "waits.et"), "esa", 2, iterations=2) + slow)
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report"]) == 0
    folder = find(tmp_path)[-1]
    assert commands.main(["report", str(folder), "--perfetto"]) == 0
    results, events = read(folder), checked(folder / "perfetto.json")
    computes_ns = [2 * 1_500_000, 2 * 2 * 3_500_000]  # of the ranks, in two iterations
    (found,) = summary(results)["jobs"]["computation_ns"]
    assert found == sum(computes_ns) / 2 / 2
    pieces = worker_phases(results, worker_rows(results))
    took_ns = (pieces["end"] - pieces["start"]).groupby([pieces["row"], pieces["phase"]]).sum()
    by_rank = results.iterations.groupby("worker")
    whole_ns = by_rank["end_ns"].max() - by_rank["start_ns"].min()
    for rank, computes in enumerate(computes_ns):
        assert took_ns[rank].index.tolist() == ["communication", "step", "waiting"]
        assert took_ns[rank]["step"] == computes
        assert took_ns[rank]["waiting"] == whole_ns[rank] - computes
        mine = [each for each in events if each["pid"] == WORKERS + rank and each["ph"] == "X"]
        drawn = [0, 0]
        for each in mine:
            drawn["wait" in each["name"]] += round(1000 * each["dur"])
        assert drawn == [computes, whole_ns[rank] - computes]
        moved = Counter(
            each["name"]
            for each in events
            if each["pid"] == WORKERS + rank
            and (each["ph"], each.get("cat")) == ("b", "collectives and transfers")
        )
        assert moved == {"all_reduce": 2, ("send", "recv")[rank]: 2}


def test_a_wrong_value_is_that_of_the_group_that_found_it(tmp_path):
    """Of hosts in several groups, with transfers to single ranks and without."""
    for made in (mesh(), every_transfer()):
        setup = setup_of(text(made.write(tmp_path / "some.et"), "esa", len(made.nodes)))
        compiled, specs = prepare(setup).compiled, host_specs(setup)
        for place, spec in enumerate((specs[0], *specs[0].members)):
            simulation = Simulation(setup, compiled)
            protocol = [*simulation.nodes.present_at(0).roles][place][1].protocol
            if isinstance(protocol, Flows) and not spec.program.partners:
                continue  # nothing is transferred that could be wrong
            getattr(protocol, "links", protocol).config.seed += 1
            with pytest.raises(RunError) as caught:
                simulation.run()
            found = str(caught.value).splitlines()[0]
            assert found.startswith(f"wrong value: job {spec.job.name}, iteration 0, ")
            same = [
                each
                for first in specs
                for each in (first, *first.members)
                if each.job.number == spec.job.number
            ]
            assert any(found.endswith(f"(worker {s.number} on {s.host})") for s in same)


@pytest.mark.parametrize(
    "change, message",
    [
        (("workers: 8", "workers: 4"), "the program has 8 ranks. Write 8"),
        (("workers: 8", "workers: 8, gpu: v100"), "a program of ranks is replayed as it is"),
        (("workers: 8", "workers: 8, buckets: ddp"), "a program of ranks is replayed as it is"),
        (("mesh.et", "other.et"), "there is no such trace"),
    ],
)
def test_what_does_not_fit_a_program_is_said(change, message, tmp_path):
    path = mesh().write(tmp_path / "mesh.et")
    with pytest.raises(Exception, match=message):
        setup_of(text(path, "esa", 8).replace(*change))
