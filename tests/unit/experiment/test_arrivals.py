"""Job mixes in an experiment: from a list, drawn, from a CSV file; and on which hosts jobs are
placed."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.hops import switch_of

from testbed.experiment import load_text
from testbed.experiment.placement import POLICIES, choose
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
        hosts = choose(policy, topology, free, 5, 1, seed, job)
        assert len(set(hosts)) == 6
        return [switch_of(topology, host) for host in hosts]

    assert racks("packed") == ["s1"] * 4 + ["s2"] * 2
    assert racks("spread") == ["s1", "s2", "s3"] * 2
    assert racks("random") == racks("random") != racks("random", job=1)
    assert racks("random", seed=2) != racks("random")
    assert choose("packed", topology, free[:5], 5, 1, 1, 0) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_servers_get_the_hosts_that_are_kept_for_them(policy):
    # h1 to h8 are ranks, h9 to h12 on the leaves, h13 and h14 on the servers' switches.
    topology = KINDS["rails"](servers=2, ranks=4, leaves=2, spines=1, ps=2, server_ps=1)
    ranks, kept = topology.hosts[:8], topology.hosts[8:]

    def chosen(free, workers, servers):
        hosts = choose(policy, topology, free, workers, servers, 1, 0)
        assert len({*hosts}) == workers + servers and {*hosts} <= {*free}
        return {*hosts[:workers]}, {*hosts[workers:]}

    workers, servers = chosen(topology.hosts, 6, 3)
    assert workers < {*ranks} and servers < {*kept}
    # Where one kind does not suffice, the other one serves as well.
    workers, servers = chosen(topology.hosts, 9, 3)
    assert workers > {*ranks} and servers < {*kept}
    workers, servers = chosen((*ranks, "h9"), 4, 2)
    assert workers < {*ranks} and "h9" in servers
    assert choose(policy, topology, ranks, 8, 1, 1, 0) is None


@pytest.mark.parametrize("rails", [True, False])
def test_servers_stay_together(rails):
    topology = KINDS["rails"](
        servers=6, ranks=2, leaves=6 if rails else 3, spines=1, rail_optimized=rails, server_ps=1
    )
    first = {"h1 h2", "h3 h4", "h5 h6", "h7 h8", "h9 h10", "h11 h12"}

    def servers(policy, job=0):
        hosts = choose(policy, topology, topology.hosts, 6, 0, 1, job)
        pairs = [f"{a} {b}" for a, b in zip(hosts[::2], hosts[1::2], strict=True)]
        assert {*pairs} <= first and len({*pairs}) == 3
        return pairs

    # Of each leaf, or pod of leaves, one.
    assert servers("spread") == ["h1 h2", "h5 h6", "h9 h10"]
    assert servers("packed") == ["h1 h2", "h3 h4", "h5 h6"]
    assert len({(*servers("random", job),) for job in range(5)}) > 1


@pytest.mark.parametrize("policy", ["spread", "random"])
def test_servers_of_which_others_have_a_part_come_last(policy):
    topology = KINDS["star"](hosts=24, per_server=4)
    free = [host for host in topology.hosts if host != "h6"]
    for job in range(5):
        hosts = choose(policy, topology, free, 20, 0, 1, job)
        assert not {"h5", "h7", "h8"} & {*hosts}
    assert {"h5", "h7"} < {*choose(policy, topology, free, 22, 0, 1, 0)}


def test_servers_of_one_rank_are_spread_over_leaves_too():
    topology = KINDS["rails"](servers=4, ranks=1, leaves=2, spines=1, rail_optimized=False)
    assert choose("spread", topology, topology.hosts, 2, 0, 1, 0) == ["h1", "h3"]


def test_a_packed_server_is_near_its_workers():
    topology = KINDS["rails"](servers=4, ranks=2, leaves=2, spines=1, rail_optimized=False, ps=1)
    ranks = topology.hosts[:8]
    first = choose("packed", topology, topology.hosts, 4, 1, 1, 0)
    second = choose("packed", topology, [h for h in topology.hosts if h not in first], 4, 1, 1, 1)
    assert first == [*ranks[:4], "h9"] and second == [*ranks[4:], "h10"]


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
        (
            "placement: packed",
            "found none of them; allowed: one of csv, poisson, cluster_trace, sub",
        ),
        ("csv: there-is-none.csv", "arrivals.csv"),
        ("submissions: [{model: vgg16, workers: 10, iterations: 1}]", "the topology has 10 hosts"),
        (DRAWN.replace("workers: 8", "workers: 80"), "kinds[1].workers: found 80 workers and 1"),
        (DRAWN + "\njobs: [{model: vgg16, workers: 2, iterations: 1}]", "there are jobs, too"),
        (DRAWN + "\nfaults: [{at: 1 ms, fault: slow, job: b, worker: 0, factor: 2}]", "faults"),
        (DRAWN.replace("interval: 1 ms, ", ""), "found neither; allowed: one of interval, load"),
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
        # 1 Gbit/s; 32 workers fit into the bitmap, so a frame has 326 bytes.
        alone_ns = trace.compute_ns + fragments * 326 * 8
        work = sum(alone_ns * job.iterations * (job.workers + 1) for job in jobs)
        times = [job.start_ns for job in jobs]
        assert work / (times[-1] * 10) == pytest.approx(0.8, rel=0.15)  # 400 random gaps
    half = load(HEAVY.replace("80 %", "40 %")).jobs
    assert half[-1].start_ns == pytest.approx(2 * experiment.jobs[-1].start_ns, rel=1e-6)


TRACED = (
    "cluster_trace: {file: log.csv, format: helios, jobs: 30, time_scale: 0.00001, %s"
    "models: [{model: resnet18, scale: 0.001, weight: 3}, {model: vgg16, scale: 0.0001}]}"
)


@pytest.fixture
def cluster_log(tmp_path):
    """A made-up log.csv with 60 jobs, one submitted per minute, of 1 to 8 GPUs."""
    lines = [
        f"{n},u,v,{1 + n % 8},1,1,COMPLETED,2020-06-09 18:{n:02}:00,2020-06-09 19:00:00,"
        f"2020-06-09 20:00:00,{100 + 400 * n},0\n"
        for n in range(60)
    ]
    header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
    (tmp_path / "log.csv").write_text(f"{header}duration,queue\n{''.join(lines)}")
    return tmp_path


def test_jobs_of_a_cluster_trace(cluster_log):
    experiment = load(TRACED % "gpus_per_worker: 2, most_workers: 3,", folder=cluster_log)
    jobs = experiment.jobs
    assert len(jobs) == 30 and {job.workers for job in jobs} == {2, 3}
    assert {job.model for job in jobs} == {"resnet18", "vgg16"}
    first = int(jobs[0].name.rpartition("-")[2]) - 2
    for job in jobs:
        row = int(job.name.rpartition("-")[2]) - 2  # its line, without the header's
        assert row % 8 >= 2  # two workers are more than two GPUs
        assert job.start_ns == (row - first) * 600_000  # a minute times 1e-5
        trace = job.trace()
        fragments = sum(-(-layer.values // 64) for layer in trace.layers)
        alone_ns = trace.compute_ns + fragments * 326 * 8
        duration_ns = (100 + 400 * row) * 10_000
        assert job.iterations == max(1, round(duration_ns / alone_ns))
    again = load_text(experiment.resolved_yaml())
    assert again.jobs == jobs
    other = experiment.of_repetition(1).jobs
    assert other == again.of_repetition(1).jobs
    assert [job.name for job in other] != [job.name for job in jobs]


def test_a_load_stretches_a_cluster_trace(cluster_log):
    half, full = (
        load(TRACED % f"load: {load_} %, most_workers: 4,", folder=cluster_log).jobs
        for load_ in (50, 100)
    )
    assert [job.iterations for job in half] == [job.iterations for job in full]
    assert half[-1].start_ns == pytest.approx(2 * full[-1].start_ns, rel=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("jobs: 30", "jobs: 30, fewest_workers: 8", "of its 60 jobs have at least 8 workers"),
        ("log.csv", "none.csv", "there is no"),
        ("helios", "philly", "log.csv, line 1, column 1: not JSON"),
        ("helios", "slurm", "philly, helios, alibaba"),
        ("0.00001", "1", "so at most"),
        ("weight: 3", "workers: 2", "the trace says this one"),
    ],
)
def test_a_bad_cluster_trace(cluster_log, old, new, message):
    with pytest.raises(UserError) as error:
        load(TRACED.replace(old, new) % "", folder=cluster_log)
    assert message in str(error.value)


def test_a_traced_job_must_fit_the_network(cluster_log):
    log = cluster_log / "log.csv"
    log.write_text(log.read_text().replace("59,u,v,4", "59,u,v,64"))
    with pytest.raises(UserError) as error:
        load(TRACED % "", folder=cluster_log)
    assert "job 61 of the trace has 64 GPUs, so 64 workers; the topology has 10 hosts" in str(
        error.value
    )


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
