"""Job mixes in an experiment: from a list, drawn, from a CSV file; and on which hosts jobs are
placed."""

from __future__ import annotations

import pytest

from testbed.errors import UserError
from testbed.experiment import load_text
from testbed.experiment.placement import choose
from testbed.routing.tree import switch_of
from testbed.topos import KINDS

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
HEAVY = (
    "poisson: {jobs: 400, load: 80 %, kinds: [{name: a, model: resnet18, workers: 2,"
    " most_workers: 8, iterations: 2, longest: 200, tail: 0.8, scale: 0.001}]}"
)
CSV = "submit, model, workers, iterations, scale\n"


def load(arrivals, system="esa", folder="."):
    return load_text(TEXT % {"arrivals": arrivals, "system": system}, folder=folder)


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
        (DRAWN.replace("interval: 1 ms, ", ""), "found neither; allowed: one of interval, load"),
        (HEAVY.replace("load: 80 %", "load: 0 %"), "load: found"),
        (HEAVY.replace("longest: 200", "longest: 1"), "found longest: 1; allowed: at least iter"),
        (HEAVY.replace("most_workers: 8", "most_workers: 1"), "at least workers, 2"),
        (HEAVY.replace("most_workers: 8", "most_workers: 32"), "most_workers: found 32 workers"),
        (DRAWN.replace("name: b", "name: a"), "which is already the name of arrivals.poisson"),
    ],
)
def test_bad_arrivals(arrivals, message):
    with pytest.raises(UserError) as error:
        load(arrivals)
    assert message in str(error.value)


def test_a_heavy_tailed_mix():
    experiment = load(HEAVY)
    jobs = experiment.jobs
    iterations = [job.iterations for job in jobs]
    assert min(iterations) == 2 and 100 < max(iterations) <= 200
    assert {job.workers for job in jobs} == {2, 4, 8}
    assert sorted(iterations)[200] < 8  # half of the jobs are short
    again = load_text(experiment.resolved_yaml())
    assert again.jobs == jobs and again.of_repetition(1).jobs == experiment.of_repetition(1).jobs


def test_load_is_the_share_of_the_hosts_time():
    experiment = load(HEAVY)
    for repetition in (0, 1):
        jobs = experiment.of_repetition(repetition).jobs
        trace = jobs[0].trace()
        fragments = sum(-(-layer.values // 64) for layer in trace.layers)
        # 1 Gbit/s; 32 workers fit into the bitmap, so a frame has 324 bytes.
        alone_ns = trace.compute_ns + fragments * 324 * 8
        work = sum(alone_ns * job.iterations * (job.workers + 1) for job in jobs)
        times = [job.start_ns for job in jobs]
        assert work / (times[-1] * 10) == pytest.approx(0.8, rel=0.15)  # 400 random gaps
    half = load(HEAVY.replace("80 %", "40 %")).jobs
    assert half[-1].start_ns == pytest.approx(2 * experiment.jobs[-1].start_ns, rel=1e-6)


def test_mininet_has_no_arrivals():
    text = TEXT.replace("virtual", "mininet") % {"arrivals": DRAWN, "system": "esa"}
    with pytest.raises(UserError) as error:
        load_text(text)
    assert "is for runtime virtual" in str(error.value) and "jobs with a start" in str(error.value)


def test_a_planned_system_needs_jobs_with_hosts():
    with pytest.raises(UserError) as error:
        load(DRAWN, "grid")
    assert "GRID plans for jobs that have their hosts from the start" in str(error.value)


def test_divided_memory_must_suffice_for_concurrent_jobs():
    assert load(DRAWN, "switchml").memory_parts == 2
    with pytest.raises(UserError) as error:
        load_text(TEXT.replace("64", "3") % {"arrivals": DRAWN, "system": "switchml"})
    assert "2 at once (arrivals.at_once) need at least 4" in str(error.value)
