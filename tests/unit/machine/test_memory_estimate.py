"""Estimates of memory: what does not fit is refused before anything is built, with the remedy."""

from __future__ import annotations

import subprocess
import sys

import pytest
from p4fabric.base.errors import UserError

from testbed.experiment import load_text
from testbed.machine import memory_estimate as memory
from testbed.protocols import host_sums, ps, send_scoreboard, server_store
from testbed.schemes import new_machine, set_up
from testbed.setup.host_specs import host_specs
from tests.support.experiments import memory_line
from tests.support.paths import ROOT

TEXT = """
name: large
runtime: virtual
topology: {kind: star, hosts: 9}
system: %(system)s
%(memory)s
jobs: [{model: vgg16, workers: 8, iterations: %(iterations)d, scale: %(scale)g}]
"""


def load(system="esa", scale=0.01, iterations=2):
    uses = memory_line(system, 64)
    parts = {"system": system, "memory": uses, "scale": scale, "iterations": iterations}
    return set_up(load_text(TEXT % parts))


IN_USE = {send_scoreboard.SendScoreboard: send_scoreboard.FLIGHTS, host_sums.Member: host_sums.HELD}
SLOTS = {server_store.Server: server_store.BY_SLOT, ps.Server: ("finished",)}


def counted(part, skipped=IN_USE):
    """Bytes of a machine's arrays, apart from flights and a ring's sums, of which only those in use
    take memory."""
    if not isinstance(part, tuple):
        return part.nbytes
    names = skipped.get(type(part), ())
    return sum(
        counted(each, skipped)
        for name, each in zip(part._fields, part, strict=True)
        if name not in names
    )


# Bytes of a fragment: a worker's status, tensor and flight, and what systems keep beside; of a
# server where each of two iterations' fragments is, and what it knows of the workers' progress.
PER_FRAGMENT = {
    "esa": (7, 14),
    "atp": (19, 22),
    "switchml": (19, 0),
    "ps": (7, 8),
    "ring": (69, 0),
}


@pytest.mark.parametrize("system", PER_FRAGMENT)
def test_what_grows_with_tensors_are_some_bytes_of_a_fragment(system):
    """Values and timers are those of what is under way, however long a tensor is."""
    small, large = (host_specs(load(system, scale)) for scale in (0.1, 1.0))
    more = large[0].job.fragments - small[0].job.fragments
    for few, many in ((small[0], large[0]), (small[-1], large[-1])):
        each = [counted(new_machine(spec), IN_USE | SLOTS) for spec in (few, many)]
        grown = each[1] - each[0]
        assert grown / more <= PER_FRAGMENT[system][few.role == "ps"] + 0.01


@pytest.mark.parametrize("system", ["esa", "atp", "ps"])
def test_a_server_has_slots_for_some_windows(system):
    slots = {server_store.room_of(host_specs(load(system, scale))[-1]) for scale in (0.1, 1.0)}
    assert len(slots) == 1
    ((kept, room),) = slots
    assert 16 * 64 < kept < room < 20_000


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "ps", "ring"])
def test_the_estimate_is_what_machines_take(system):
    setup = load(system)
    made = sum(counted(new_machine(spec)) for spec in host_specs(setup))
    guessed = memory.estimate_bytes(setup) - memory.BASE_BYTES
    # Beside the machines: frames on their way and times.
    assert made <= guessed <= 1.15 * made + (24 << 20)


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "ps", "ring"])
def test_a_machine_takes_less_than_the_bound(system):
    for spec in host_specs(load(system)):
        assert counted(new_machine(spec)) <= memory.machine_bytes_at_most(spec)


def test_a_run_that_is_small_beyond_doubt_waits_for_no_compiler():
    program = f"""
import sys
from testbed.experiment import load
from testbed.machine import memory_estimate
from testbed.schemes import set_up
setup = set_up(load({str(ROOT / "experiments" / "quickstart.yaml")!r}))
memory_estimate.available_bytes = lambda: 8 << 30
memory_estimate.require({{"a run": setup}})
print("numba" in sys.modules)
memory_estimate.available_bytes = lambda: 1 << 30
memory_estimate.require({{"a run": setup}})
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]


def test_it_grows_with_the_model():
    small, large = (memory.estimate_bytes(load(scale=scale)) for scale in (0.1, 1.0))
    assert 6 < (large - memory.BASE_BYTES) / (small - memory.BASE_BYTES) < 10.5


def test_sizes_of_sampled_layers_are_there_side_by_side(monkeypatch):
    """As many as there are processors; with the largest one there are four."""
    model = "{transformer: llama2-7b, layers: sampled, sequence: 64, global_batch: 2}"
    parts = {"system": "ring", "memory": "", "iterations": 1, "scale": 0.0001}
    text = (TEXT % parts).replace("vgg16", model).replace("8,", "8, parallel: {tp: 4, dp: 2},")
    setup, found = set_up(load_text(text)), []
    for cores in (1, 2, 64):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: {*range(cores)})
        found.append(memory.estimate_bytes(setup, lambda spec: 1 << 20) - memory.BASE_BYTES)
    assert found == [found[0], 2 * found[0], 4 * found[0]]


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 30)
    memory.require({"a run of x": load()})
    with pytest.raises(UserError) as error:
        memory.require({"a run of x": load(), "a run of y": load("ring", scale=1.0)})
    assert "a run of y takes about" in str(error.value) and "smaller scale" in str(error.value)


def test_a_sweep_counts_what_runs_at_a_time(monkeypatch):
    points = {f"iterations={number}": load(iterations=number) for number in (1, 2, 3, 4)}
    each = memory.estimate_bytes(points["iterations=4"])
    monkeypatch.setattr(memory, "available_bytes", lambda: int(2.5 * each))
    memory.require(points, 2)
    memory.require({name: points[name] for name in list(points)[:2]}, 8)
    with pytest.raises(UserError) as error:
        memory.require(points, 4)
    assert "4 points at a time" in str(error.value) and "--processes 2" in str(error.value)


def test_jobs_that_come_and_go_count_as_many_as_run_at_once():
    text = TEXT.partition("jobs:")[0] % {"system": "esa", "memory": "memory: {aggregators: 64}"}
    shape = "model: vgg16, workers: 3, iterations: 1, scale: 0.1"
    listed = ", ".join(f"{{submit: {n} ms, {shape}}}" for n in range(8))

    def extra(at_once):
        arrivals = f"arrivals: {{submissions: [{listed}], at_once: {at_once}}}"
        return memory.estimate_bytes(set_up(load_text(text + arrivals))) - memory.BASE_BYTES

    assert extra(2) == 2 * extra(1)


RANKS = """
name: ranks
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 100 Gbit/s}
system: %s
%s
values_per_packet: 256
jobs:
  - model: {transformer: llama2-7b, sequence: 4096, global_batch: 2, gpu: h100}
    parallel: {dp: 2, sharding: zero1}
    workers: 2
    iterations: 1
    scale: 0.05
"""


@pytest.mark.parametrize("system", ["esa", "switchml", "ring"])
def test_the_machines_of_groups_of_ranks_count(system):
    """A program of ranks has next to nothing in the machines of its hosts' own roles."""
    setup = set_up(load_text(RANKS % (system, memory_line(system, 1024))))
    specs = host_specs(setup)
    own = sum(counted(new_machine(spec)) for spec in specs)
    made = own + sum(counted(new_machine(role)) for spec in specs for role in spec.members)
    assert own < made // 10
    guessed = memory.estimate_bytes(setup) - memory.BASE_BYTES
    assert made <= guessed <= 1.15 * made + (24 << 20)
