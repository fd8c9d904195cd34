"""Any experiment that the checks accept ends in virtual time, with every value right."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Program
from tests.support.any_experiment import experiments
from tests.support.budget import Budget
from tests.support.ranks import drawn
from tests.support.virtual import run_virtual


def accepted(text: str):
    """The experiment, if its checks take it; a refusal is drawn again."""
    try:
        spec = load_text(text)
        set_up(spec)
    except UserError:
        reject()
    return spec


Calls = dict[tuple[str | int, ...], list[int]]


def calls_of(program: Program, times: int) -> Calls:
    """[calls, bytes] of each rank by communicator, kind, type and whether flows carry them, without
    what a rank does alone."""
    found: Calls = defaultdict(lambda: [0, 0])
    for rank, nodes in enumerate(program.ranks):
        for node in nodes:
            members = program.groups[node.group] if node.group else range(len(program.ranks))
            moved = node.kind in ("all_to_all", "gather", "scatter", "send", "recv")
            if node.kind == "compute" or len(members) == 1 and not moved:
                continue
            everyone = len(members) == len(program.ranks)
            group = "all" if everyone else " ".join(map(str, members))
            row = found[rank, group, node.kind, node.dtype, moved]
            row[0] += times
            row[1] += times * node.bytes
    return found


@pytest.mark.timeout(900)
def test_any_experiment_ends_with_every_value_right(budget: Budget, request, tmp_path):
    """Always the same experiments, and with --slow others each time."""

    @settings(
        max_examples=budget.examples,
        derandomize=not request.config.getoption("--slow"),
        suppress_health_check=[*HealthCheck],
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        text = data.draw(experiments(tmp_path))
        if budget.is_spent():
            return
        with budget.example():
            note(text)
            spec = accepted(text)
            tables = run_virtual(spec)
            for number, job in enumerate(tables["jobs"]):
                assert job["outcome"] == "finished" and job["exact"], job
                if str(spec.jobs[number].model).endswith(".et"):
                    program = chakra.load(spec.jobs[number].model)
                    columns = ("worker", "communicator", "collective", "dtype")
                    found = {
                        (*map(row.get, columns), row["route"] == "flow"): [
                            row["calls"],
                            row["bytes"],
                        ]
                        for row in tables["collectives"]
                        if row["job"] == number
                    }
                    assert found == calls_of(program, job["iterations"])
                else:
                    all_values = job["values"] * job["iterations"] * job["workers"]
                    assert job["values_checked"] == all_values, job

    holds()
    assert budget.done > 1


def test_a_pace_that_the_link_holds_up_lets_time_go_on(tmp_path):
    """A partial sum waited for its pace when a retransmission took the link."""
    program = drawn(184, 4, typed=False).write(tmp_path / "program.et")
    text = f"""
name: any
seed: 7
runtime: virtual
topology: {{kind: leaf_spine, leaves: 2, spines: 2, hosts: 5}}
links: {{bandwidth: 1 Gbit/s, delay: 1 us, queue: 12 packets, reorder: 3 %, reorder_delay: 200 us}}
system: {{name: hierarchical, order: fifo, timeout: 2 ms}}
values_per_packet: 4
jobs: [{{name: a, model: {program}, workers: 4, iterations: 1, placement: spread}}]
"""
    (job,) = run_virtual(load_text(text))["jobs"]
    assert job["exact"]


def test_gradients_that_pass_by_plan_have_no_event_when_a_server_asks_for_them_first():
    """GRID's plan lets those of one worker pass, and the server asked before it had sent any."""
    text = """
runtime: virtual
topology: {kind: star, hosts: 4}
links: {bandwidth: 1 Gbit/s}
switches: {capacity: 1 Gbit/s, burst: 3 packets}
system: {name: grid, timeout: 2 ms}
memory: {aggregators: 8}
faults: [{at: 0 s, fault: slow, job: a, worker: 2, factor: 3, for: 1 s}]
jobs: [{name: a, model: alexnet, workers: 3, iterations: 1, scale: 0.0001, compute_scale: 0.3}]
"""
    tables = run_virtual(load_text(text))  # holds the laws
    assert "not_aggregated" not in {row["cause"] for row in tables["departures"]}
