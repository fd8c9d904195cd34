"""Files that describe several experiments."""

from __future__ import annotations

from pathlib import Path

import pytest
from p4fabric.base.config.value_lists import number_of
from p4fabric.base.errors import UserError

from testbed.cli.commands.check import check_command
from testbed.cli.commands.show import show_command
from testbed.experiment import load
from testbed.experiment.sweep_file import is_sweep, load_sweep, shown, system_titles
from testbed.systems import SYSTEMS
from tests.support.experiments import BASE
from tests.support.paths import ROOT


@pytest.fixture
def sweep_of(tmp_path: Path):
    """sweep_of(text): the sweep of BASE with `text` below the key sweep."""

    def read(text: str):
        path = tmp_path / "swept.yaml"
        lines = "".join(f"  {line}\n" for line in text.splitlines())
        path.write_text(f"{BASE}sweep:\n{lines}")
        return load_sweep(path)

    return read


def chosen(sweep) -> list[tuple]:
    return [tuple(shown(value) for value in point.values.values()) for point in sweep.points]


def test_keys_are_crossed_and_the_first_varies_slowest(sweep_of):
    sweep = sweep_of("system: [esa, switchml]\nmemory.aggregators: [16, 32]")
    assert sweep.keys == ("system", "memory.aggregators")
    assert chosen(sweep) == [("esa", "16"), ("esa", "32"), ("switchml", "16"), ("switchml", "32")]
    assert [point.experiment.aggregators for point in sweep.points] == [16, 32, 16, 32]
    assert [point.experiment.system.name for point in sweep.points][2] == "switchml"
    assert len({point.key for point in sweep.points}) == 4


def test_ranges(sweep_of):
    grows = sweep_of("memory.aggregators: {from: 16, to: 130, times: 2}")
    assert chosen(grows) == [("16",), ("32",), ("64",), ("128",)]
    steps = sweep_of("jobs[0].scale: {from: 0.1, to: 0.5, step: 0.2}")
    assert [point.experiment.jobs[0].scale for point in steps.points] == pytest.approx(
        [0.1, 0.3, 0.5]
    )


def test_values_that_go_together(sweep_of):
    sweep = sweep_of(
        "together:\n  - links.delay: [1 us, 2 us]\n    jobs[*].iterations: [3, 4]\nseed: [5, 6]"
    )
    assert chosen(sweep) == [
        ("5", "1 us", "3"),
        ("5", "2 us", "4"),
        ("6", "1 us", "3"),
        ("6", "2 us", "4"),
    ]
    last = sweep.points[-1].experiment
    assert [job.iterations for job in last.jobs] == [4, 4] and last.directions[0][
        0
    ].delay_ns == 2000


def test_an_option_of_a_system_that_is_only_named(tmp_path):
    path = tmp_path / "named.yaml"
    text = BASE.replace("system: {name: esa, window: 64}", "system: esa")
    path.write_text(text + "sweep: {system.window: [8, 9]}\n")
    assert [point.experiment.system.window for point in load_sweep(path).points] == [8, 9]


def test_skipped_points(sweep_of):
    sweep = sweep_of(
        "system: [esa, atp]\nmemory.aggregators: [16, 32, 64]\n"
        "skip:\n  - {system: atp, memory.aggregators: [16, 64]}"
    )
    assert chosen(sweep) == [("esa", "16"), ("esa", "32"), ("esa", "64"), ("atp", "32")]


def test_all_systems_have_the_same_workers(tmp_path):
    """Systems without servers leave the servers' hosts idle."""
    path = tmp_path / "fair.yaml"
    shape = "{model: resnet18, workers: 3, iterations: 1, scale: 0.001"
    path.write_text(
        "topology: {kind: two_level, tors: 2, hosts: 5, servers: 3}\nmemory: {aggregators: 64}\n"
        f"jobs: [{shape}}}, {shape}, placement: spread}}, {shape}, placement: random}}]\n"
        "sweep: {system: [switchml, esa, ring, {name: ps, servers: 1}]}\n"
    )
    workers = {
        point.experiment.system.name: [job.fixed_placement.workers for job in point.experiment.jobs]
        for point in load_sweep(path).points
    }
    assert len(workers) == 4 and all(each == workers["esa"] for each in workers.values())


def test_nothing_is_reserved_where_the_hosts_do_not_suffice(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(
        "topology: {kind: star, hosts: 4}\nmemory: {aggregators: 64}\n"
        "jobs: [{model: resnet18, workers: 4, iterations: 1, scale: 0.001}]\n"
        "sweep: {together: [{system: [ring, esa], topology.hosts: [4, 5]}]}\n"
    )
    ring, esa = (point.experiment.jobs[0].fixed_placement for point in load_sweep(path).points)
    assert ring.workers == esa.workers and not ring.servers and esa.servers == ("h5",)


def test_other_workers_are_told(tmp_path, capsys):
    path = tmp_path / "other.yaml"
    path.write_text(
        "topology: {kind: star, hosts: 5}\nsystem: esa\nmemory: {aggregators: 64}\n"
        "jobs: [{name: a, model: resnet18, workers: 2, iterations: 1, scale: 0.001}]\n"
        "sweep: {'jobs[0].placement': [packed, random, {workers: [h1, h2], ps: h4}]}\n"
    )
    assert check_command(path) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "other workers" in line]
    assert len(told) == 1 and "placement=random" in told[0] and "placement=packed" in told[0]


def test_systems_without_memory_are_one_point(sweep_of):
    sweep = sweep_of("system: [esa, ring]\nmemory.aggregators: [16, 32]")
    assert chosen(sweep) == [("esa", "16"), ("esa", "32"), ("ring",)]


def test_a_points_key_is_its_experiments(sweep_of):
    (first,) = sweep_of("memory.aggregators: [16]").points
    (same,) = sweep_of("memory: [{aggregators: 16}]").points
    (other,) = sweep_of("memory.aggregators: [17]").points
    assert first.key == same.key != other.key


WRONG = [
    ("memory.agregators: [16]", "line 12, memory.agregators: unknown key; did you mean"),
    ("memory.aggregators: [16, 0]", "line 12, memory.aggregators: found 0"),
    ("memory.aggregators: 16", "found 16; allowed: a list of values"),
    ("memory.aggregators: {from: 16, to: 8, times: 2}", "allowed: a list of values, or a growing"),
    ("memory.aggregators: {from: 1, to: 8}", "allowed: a list of values, or a growing"),
    ("jobs[7].scale: [1]", "jobs: member 7 cannot be set: the list has 2"),
    ("name.x: [1]", "line 12, name: name.x cannot be set: there are no keys here"),
    ("a b: [1]", "allowed: a key's path, such as memory.aggregators"),
    ("together:\n  - {seed: [1, 2], name: [a]}", "must be equally many: seed has 2, name has 1"),
    ("seed: [1]\ntogether:\n  - {seed: [1]}", "seed is varied twice"),
    ("seed: [1]\nskip: [{name: a}]", "name is not varied in this sweep"),
    ("seed: [1]\nskip: [{seed: 1}]", "every point is skipped"),
    ("system: [esa, [atp]]", "line 12, system: found a list"),
    ("seed: {from: 1, to: 10001, step: 1}", "10001 points; allowed: at most 10000"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text[:30] for text, _ in WRONG])
def test_mistakes_are_named(sweep_of, text: str, message: str):
    with pytest.raises(UserError) as caught:
        sweep_of(text)
    assert message in str(caught.value)


def test_an_impossible_point_is_named(sweep_of):
    with pytest.raises(UserError, match=r"at the sweep's point jobs\[0\].workers=40, seed=1$"):
        sweep_of("jobs[0].workers: [2, 40]\nseed: [1]")


def test_a_sweep_is_refused_as_an_experiment(tmp_path, capsys):
    path = tmp_path / "swept.yaml"
    path.write_text(BASE + "sweep: {seed: [1, 2]}\n")
    with pytest.raises(UserError, match="line 11, sweep: this file describes several experiments"):
        load(path)
    assert is_sweep(path)
    assert check_command(path) == 0 and show_command(path) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{path}: valid: a sweep of 2 points over seed"
    assert [line.split()[1] for line in printed[1::2]] == ["seed=1", "seed=2"]


def test_an_experiment_is_refused_as_a_sweep(tmp_path):
    path = tmp_path / "plain.yaml"
    path.write_text(BASE)
    assert not is_sweep(path)
    with pytest.raises(UserError, match="has no key sweep"):
        load_sweep(path)


def test_values_as_numbers():
    assert [number_of(value) for value in (7, 0.5, "1 %", "2 us", "3 kbit/s", "256 KiB")] == [
        7, 0.5, 0.01, 2000, 3000, 262144
    ]  # fmt: skip
    assert [number_of(value) for value in ("esa", True, {"name": "esa"}, "1 furlong")] == [None] * 4


def test_lists_of_jobs_are_counted_in_words_and_as_a_number():
    job = {"model": "vgg16", "workers": 4}
    assert shown([job, job, {"model": "gpt2"}]) == "[2 x vgg16 (workers 4), gpt2]"
    assert shown([job, {"model": "gpt2"}] * 3) == "3 x [vgg16 (workers 4), gpt2]"
    assert shown([1, 1, 2, 1, 1, 2]) == "2 x [2 x 1, 2]"
    assert shown([1, 1, 1, 1]) == "[4 x 1]" and shown([1, 2, 1]) == "[1, 2, 1]"
    assert number_of([job, job, {"model": "gpt2"}]) == 3
    assert number_of([1, 2]) is None and number_of([]) is None


def test_legends_leave_out_what_the_first_variant_shares_with_others(sweep_of):
    """Where all name the option: `against: ESA` is then the first one."""
    sweep = sweep_of(
        "system:\n  - {name: esa, order: front}\n  - {name: esa, order: front, window: 64}\n"
        "  - {name: esa, order: fifo}\n  - {name: atp, window: 64}\n  - {name: atp, window: 128}"
    )
    assert list(system_titles(sweep.points).values()) == [
        "esa",
        "esa (window 64)",
        "esa (order fifo)",
        "atp (window 64)",
        "atp (window 128)",
    ]


def test_the_figures_of_the_docs_compare_with_a_series_that_they_have():
    for path in sorted((ROOT / "experiments" / "figures").glob("*.yaml")):
        if "jct_ratio" in path.read_text():
            sweep = load_sweep(path)
            assert "jct_ratio" in sweep.figure.panels
            names = {
                SYSTEMS[text.split()[0]].title + text.removeprefix(text.split()[0])
                for text in system_titles(sweep.points).values()
            }
            against = sweep.figure.against  # a system, and other varied keys behind it
            assert any(f"{against}, ".startswith(f"{name}, ") for name in names), path.name


def test_legends_leave_out_what_all_variants_of_a_system_share(sweep_of):
    sweep = sweep_of(
        "system:\n  - {name: esa, window: 64}\n  - {name: atp, window: 64}\n"
        "  - {name: atp, window: 64, release: on_completion}\n  - ring"
    )
    assert system_titles(sweep.points) == {
        "esa (window 64)": "esa",
        "atp (window 64)": "atp",
        "atp (window 64, release on_completion)": "atp (release on_completion)",
        "ring": "ring",
    }
