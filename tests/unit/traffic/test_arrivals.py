"""Job mixes: what is drawn, what a CSV file says, who gets which hosts, and who waits."""

from __future__ import annotations

import math

import pytest

from testbed.errors import UserError
from testbed.experiment import load_text
from testbed.experiment.placement import choose
from testbed.routing.tree import switch_of
from testbed.simulate.admission import Admission
from testbed.topos import KINDS
from testbed.traffic.arrivals import kinds, poisson
from testbed.traffic.draws import Stream
from testbed.traffic.mix import read_mix

TEXT = """
runtime: virtual
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
system: %(system)s
memory: {aggregators: 64}
repetitions: 2
arrivals:
  %(arrivals)s
"""
KIND = "{name: a, model: resnet18, workers: 4, iterations: 1, scale: 0.001}"
LARGE = "{name: b, model: vgg16, workers: 8, iterations: 1, scale: 0.001, weight: 2}"
DRAWN = f"poisson: {{jobs: 30, interval: 1 ms, kinds: [{KIND}, {LARGE}]}}"
CSV = "submit, model, workers, iterations, scale\n"


def load(arrivals, system="esa", folder="."):
    return load_text(TEXT % {"arrivals": arrivals, "system": system}, folder=folder)


def test_gaps_are_exponential():
    stream = Stream(3, 0)
    drawn = [stream.exponential(10**6) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(10**6, rel=0.03)
    for share in (0.1, 0.5, 0.9, 0.99):
        within = sum(each <= -(10**6) * math.log(1 - share) for each in drawn) / len(drawn)
        assert within == pytest.approx(share, abs=0.01)


def test_draws_are_the_same_everywhere():
    # Integer arithmetic alone, so these numbers hold on any machine.
    assert poisson(1, 5, 1_000_000) == [0, 151231, 382317, 1083334, 1178118]
    assert kinds(1, 12, [1, 3]) == [1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0]
    assert Stream(7, 1).sample(list("abcdef"), 4) == ["f", "d", "e", "b"]


def test_streams_do_not_shift_each_other():
    assert poisson(1, 10, 1000)[:5] == poisson(1, 5, 1000)
    assert poisson(1, 50, 1000) != poisson(2, 50, 1000)
    drawn = kinds(1, 4000, [1, 3])
    assert sum(drawn) / 4000 == pytest.approx(0.75, abs=0.03)


def test_policies():
    topology = KINDS["two_level"](tors=3, hosts=4, servers=1)
    free = list(topology.hosts)

    def racks(policy, job=0, seed=1):
        hosts = choose(policy, topology, free, 6, seed, job)
        assert len(set(hosts)) == 6
        return [switch_of(topology, host) for host in hosts]

    assert racks("packed") == ["s1"] * 4 + ["s2"] * 2
    assert racks("spread") == ["s1", "s2", "s3"] * 2
    assert racks("random") == racks("random") != racks("random", job=1)
    assert racks("random", seed=2) != racks("random")
    assert choose("packed", topology, free[:5], 6, 1, 0) is None


def test_jobs_of_a_list_may_be_spread():
    text = TEXT.partition("arrivals")[0] % {"system": "ps"}
    jobs = "jobs: [{model: vgg16, workers: 4, iterations: 1, placement: spread}]"
    (job,) = load_text(text.replace("memory: {aggregators: 64}\n", "") + jobs).jobs
    assert job.fixed_placement.workers == ("h1", "h5", "h2", "h6")


def test_each_repetition_draws_its_own_jobs():
    experiment = load(DRAWN)
    first, second = experiment.jobs, experiment.of_repetition(1).jobs
    assert [job.name for job in first[:3]] == ["b-0", "b-1", "b-2"] and len(first) == 30
    assert [job.start_ns for job in first] != [job.start_ns for job in second]
    assert {job.workers for job in second} == {4, 8}
    assert all(not job.placed and job.trace().values > 0 for job in (*first, *second))
    assert experiment.of_repetition(0).jobs is first
    again = load_text(experiment.resolved_yaml())
    assert again.resolved_yaml() == experiment.resolved_yaml()
    assert again.of_repetition(1).jobs == second


def test_a_mix_from_a_file(tmp_path):
    (tmp_path / "mix.csv").write_text(
        f"# of a cluster\n{CSV}1.5 ms, resnet18, 2, 3, 0.01\n\n0, vgg16, 4, 1,\n"
    )
    experiment = load("csv: mix.csv", folder=tmp_path)
    assert [(job.name, job.start_ns, job.workers) for job in experiment.jobs] == [
        ("resnet18-0", 1_500_000, 2),
        ("vgg16-1", 0, 4),
    ]
    # What is resolved does not need the file any more.
    (tmp_path / "mix.csv").unlink()
    assert load_text(experiment.resolved_yaml()).jobs == experiment.jobs


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CSV + "5, vgg16, 4, 1, 1\n", "line 2, column submit: found 5"),
        (CSV + "0, vgg16, 4, 1\n", "line 2: found 4 cells; the header has 5 columns"),
        (CSV + "0, vgg16, , 1, 1\n", "line 2, column workers: missing"),
        (CSV.replace("workers", "wrokers") + "0, vgg16, 4, 1, 1\n", "did you mean workers?"),
        (CSV + "0, vgg17, 4, 1, 1\n", "vgg17"),
        (CSV, "there are no jobs below the line"),
        ("model, model\n", "two columns are called 'model'"),
        ("", "the file is empty"),
    ],
)
def test_a_bad_mix(tmp_path, content, message):
    (tmp_path / "mix.csv").write_text(content)
    with pytest.raises(UserError) as error:
        load("csv: mix.csv", folder=tmp_path)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ("placement: packed", "found none of them; allowed: one of csv, poisson, submissions"),
        ("csv: there-is-none.csv", "arrivals.csv"),
        ("submissions: [{model: vgg16, workers: 10, iterations: 1}]", "the topology has 10 hosts"),
        (DRAWN.replace("workers: 8", "workers: 80"), "kinds[1].workers: found 80 workers and 1"),
        (DRAWN + "\njobs: [{model: vgg16, workers: 2, iterations: 1}]", "there are jobs, too"),
        (DRAWN + "\nfaults: [{at: 1 ms, fault: slow, job: b, worker: 0, factor: 2}]", "faults"),
        (DRAWN.replace("1 ms", "1"), "the unit is missing"),
        (DRAWN.replace("name: b", "name: a"), "which is already the name of arrivals.poisson"),
    ],
)
def test_bad_arrivals(arrivals, message):
    with pytest.raises(UserError) as error:
        load(arrivals)
    assert message in str(error.value)


def test_mininet_has_no_arrivals():
    text = TEXT.replace("virtual", "mininet") % {"arrivals": DRAWN, "system": "esa"}
    with pytest.raises(UserError) as error:
        load_text(text)
    assert "is for runtime virtual" in str(error.value) and "jobs with a start" in str(error.value)


def test_a_plan_needs_hosts():
    with pytest.raises(UserError) as error:
        load(DRAWN, "grid")
    assert "GRID plans for jobs that have their hosts from the start" in str(error.value)


def test_divided_memory_must_do_for_those_that_run_at_once():
    assert load(DRAWN, "switchml").memory_parts == 2
    with pytest.raises(UserError) as error:
        load_text(TEXT.replace("64", "3") % {"arrivals": DRAWN, "system": "switchml"})
    assert "2 at once (arrivals.at_once) need at least 4" in str(error.value)


def admission(at_once="all"):
    shape = "model: resnet18, iterations: 1, scale: 0.001"
    listed = ", ".join(
        f"{{name: {name}, workers: {workers}, submit: {submit} ms, {shape}}}"
        for name, workers, submit in (("c", 2, 2), ("a", 6, 0), ("b", 6, 1))
    )
    return Admission(load(f"submissions: [{listed}]\n  at_once: {at_once}", "ps_"[:2]), 0)


def test_first_come_first_served(monkeypatch):
    monkeypatch.setitem(globals(), "TEXT", TEXT.replace("memory: {aggregators: 64}\n", ""))
    queue = admission()
    assert queue.next_ns() == 0
    assert queue.begin(0) == 1 and queue.begin(0) is None
    assert queue.next_ns() == 10**6
    # b needs seven hosts of which three are free, and c, which would fit, does not overtake it.
    assert queue.begin(2 * 10**6) is None
    queue.end(1)
    assert not queue.experiment.jobs[1].placed
    assert [queue.begin(3 * 10**6) for _ in range(3)] == [2, 0, None]
    job = queue.experiment.jobs[2]
    assert (job.submitted_ns, job.start_ns) == (10**6, 3 * 10**6)
    assert job.fixed_placement.workers == tuple(f"h{n}" for n in range(1, 7))
    assert queue.experiment.jobs[0].fixed_placement.servers == ("h10",)
    assert queue.running == {0, 2} and queue.next_ns() is None


def test_no_more_at_once_than_asked_for(monkeypatch):
    monkeypatch.setitem(globals(), "TEXT", TEXT.replace("memory: {aggregators: 64}\n", ""))
    queue = admission(at_once=1)
    assert queue.begin(10**9) == 1 and queue.begin(10**9) is None
    queue.end(1)
    assert queue.begin(10**9) == 2 and queue.begin(10**9) is None


def test_lines_of_a_mix(tmp_path):
    path = tmp_path / "mix.csv"
    path.write_text('a, b\n1, "x, y"\n , z\n')
    assert [(line.number, line.cells) for line in read_mix(path)] == [
        (2, {"a": "1", "b": "x, y"}),
        (3, {"b": "z"}),
    ]
