"""Any experiment that the checks accept ends in virtual time, with every value right."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, note, reject, settings
from hypothesis import strategies as st

from testbed.errors import UserError
from testbed.experiment import load_text
from testbed.schemes import set_up
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
            tables = run_virtual(accepted(text))
            for job in tables["jobs"]:
                assert job["outcome"] == "finished" and job["exact"], job

    holds()
    assert budget.done > 3


def test_a_pace_that_the_link_holds_up_lets_time_go_on(tmp_path):
    """A partial sum waited for its pace when a retransmission took the link."""
    program = drawn(184, 4).write(tmp_path / "program.et")
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
