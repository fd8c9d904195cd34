"""`ina plan`: plans as text, as JSON and as pictures."""

from __future__ import annotations

import json

import pandas as pd

from testbed.analysis.data.run_summary import job_names
from testbed.analysis.style.plot_style import job_color
from testbed.cli import plan_picture
from testbed.cli.main import main
from testbed.experiment import load
from testbed.routing.network import Switch
from testbed.routing.plan import from_json
from testbed.routing.plan_check import violations
from testbed.routing.planners import make_plan
from testbed.run_parts.live_view import rows_of, titles_of
from testbed.schemes import set_up
from testbed.setup.plan_input import of_file, read
from testbed.sweeps.planner_scenarios import SCENARIOS, draw
from tests.support.paths import GRID_EXAMPLE
from tests.support.plan_networks import example


def test_the_command_prints_a_plan(capsys) -> None:
    assert main(["plan", str(GRID_EXAMPLE), "--planner", "nearest", "--json"]) == 0
    plan = from_json(json.loads(capsys.readouterr().out))
    assert float(plan.rate_bps) == 2.4375e9
    assert violations(*of_file(GRID_EXAMPLE), plan) == []
    assert main(["plan", str(GRID_EXAMPLE), "--planner", "nearest"]) == 0
    text = capsys.readouterr().out
    assert "2.4375 Gbit/s" in text and "W1 S1 S3" in text and "link S1 -> S3" in text


EXPERIMENT = """\
topology: {kind: triangle, bandwidth: 3 Mbit/s}
switches: {capacity: 9 Mbit/s, each: [{switch: s2, aggregates: false}]}
system: {name: grid, planner: nearest}
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 8, iterations: 1, scale: 0.01}]
"""


def test_an_experiment_is_planned_for_as_it_says(tmp_path, capsys) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT)
    network, (job,) = of_file(path)
    assert network.switches == (
        Switch("s1", True, 9 * 10**6, 64),
        Switch("s2", False, 9 * 10**6, 64),
        Switch("s3", True, 9 * 10**6, 64),
    )
    assert job.workers == tuple(f"h{i}" for i in range(1, 9)) and job.ps == "h9"
    assert network.link["h9", "s3"].capacity_bps == 9 * 10**6
    assert main(["plan", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["planner"] == "nearest"
    path.write_text(EXPERIMENT + "tune: {window: [16, 32]}\n")
    assert main(["plan", str(path)]) == 0
    assert "tunes window 16, 32: all of 2 combinations" in capsys.readouterr().err


def test_a_sweep_of_planners_is_planned_for_by_each(tmp_path, capsys) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT + "sweep: {system.planner: [none, grid-links]}\n")
    assert main(["plan", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("none") and "\ngrid-links" in out
    path.write_text(EXPERIMENT + "sweep: {switches.capacity: [1 Mbit/s, 2 Mbit/s]}\n")
    assert main(["plan", str(path)]) == 2
    assert "varies the network" in capsys.readouterr().err


def test_an_unknown_planner_gets_a_suggestion(capsys) -> None:
    assert main(["plan", str(GRID_EXAMPLE), "--planner", "grid-link"]) == 2
    assert "did you mean grid-links?" in capsys.readouterr().err


def test_planners_are_told_what_the_command_or_the_file_says(tmp_path, capsys) -> None:
    words = ["plan", str(GRID_EXAMPLE), "--planner", "grid", "--json"]
    assert main([*words, "--exact", "--max-rate", "500 Mbit/s", "--results", "ignored"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["before_repair"]["method"] == "exact" and plan["results"] == "ignored"
    assert plan["lp_bound_bps"] == 2 * 10**9
    assert from_json(plan).to_json() == plan
    assert main([*words[:-1], "--roundings", "3"]) == 0
    assert "of 3 roundings exceed a switch or a PS" in capsys.readouterr().out
    path = tmp_path / "e.yaml"
    told = "{name: grid, planner: grid, results: ignored, roundings: 4, max_rate: 1 Mbit/s}"
    path.write_text(EXPERIMENT.replace("{name: grid, planner: nearest}", told))
    assert main(["plan", str(path), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["results"] == "ignored" and plan["before_repair"]["roundings"] == 4
    assert plan["rate_bps"] <= 10**6
    assert main(["plan", str(path), "--json", "--results", "counted"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == "counted"


def test_plans_that_count_results_differently_are_not_compared(tmp_path, capsys) -> None:
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT + "sweep: {system.results: [counted, ignored]}\n")
    assert main(["plan", str(path)]) == 2
    assert "such plans are not compared" in capsys.readouterr().err
    assert main(["plan", str(GRID_EXAMPLE), "--results", "count"]) == 2
    assert "found results 'count'; allowed: counted, ignored; did you" in capsys.readouterr().err


def test_jobs_that_share_a_host_are_noted(tmp_path, capsys) -> None:
    path = tmp_path / "net.txt"
    path.write_text("".join(f"{host} s 1Gbit/s\n" for host in "abcp"))
    with path.open("a") as file:
        file.write("job one workers=a,b ps=p\njob two workers=c ps=p\n")
    assert main(["plan", str(path)]) == 0
    note = "note:          host p is parameter server of job one and parameter server of job two"
    assert note in capsys.readouterr().out


TWO_JOBS = """
name: two
runtime: virtual
topology: {kind: two_level, tors: 3, hosts: 4}
links: {bandwidth: 10 Gbit/s}
system: grid
memory: {aggregators: 64}
jobs:
  - {name: alpha, model: resnet50, workers: 4, iterations: 1, scale: 0.001}
  - {name: a-job-of-a-long-name, model: vgg16, workers: 4, iterations: 1, scale: 0.001}
"""


def texts(figure, panel):
    return [text.get_text() for text in figure.axes[panel].texts]


def test_a_picture_shows_loads_and_rates() -> None:
    network, jobs = example()
    plans = [make_plan(network, jobs, name) for name in ("none", "nearest", "grid-links")]
    figure = plan_picture.draw(network, plans)
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles[1] == "nearest: 2.4375 Gbit/s, LP bound 3"
    none, nearest, links = (texts(figure, panel) for panel in range(3))
    assert {"S1\n0 / 9", "W4\n1", "PS\n9 / 9", "1 / 3", "3 / 3", "W7\n1.5"} <= set(none)
    assert sum("2.4375" in text for text in nearest) == 4 and "S3\n6.75 / 9" in nearest
    assert links.count("3 / 3") == 3


def boxes(figure, texts):
    return [(text.get_text(), text.get_window_extent()) for text in texts]


def test_no_text_of_a_picture_is_cut_or_covered(tmp_path) -> None:
    """Two jobs, whose hosts have names longer than their marks; one panel is the narrowest."""
    file = tmp_path / "two.yaml"
    file.write_text(TWO_JOBS)
    (network, jobs), _, _ = read(file)
    figure = plan_picture.draw(network, [make_plan(network, jobs, "nearest")])
    figure.draw_without_rendering()
    panel = figure.axes[0]
    shown = boxes(figure, [panel.title, figure._supxlabel, *panel.texts])
    for text, box in shown:
        inside = box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
        assert inside and box.y1 <= figure.bbox.y1, text
    names = [each for each in shown if "\n" in each[0]]
    marks = [
        panel.transData.transform((line.get_xdata()[0], line.get_ydata()[0]))
        for line in panel.lines
    ]
    for text, box in names:
        assert not any(box.contains(x, y) for x, y in marks), text


def test_jobs_of_a_picture_have_their_colours(tmp_path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO_JOBS)
    (network, jobs), _, _ = read(file)
    figure = plan_picture.draw(network, [make_plan(network, jobs, "nearest")])
    servers = [line for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert [line.get_color() for line in servers] == [job_color(0), job_color(1)]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["alpha", "a-job-of-a-long-name", "its PS"]


def test_a_picture_of_a_large_network_has_no_hosts() -> None:
    network, jobs = draw(SCENARIOS["fat-tree"], workers=10, seed=1)
    figure = plan_picture.draw(network, [make_plan(network, jobs, "nearest", paths=2)])
    assert texts(figure, 0) == []
    places = plan_picture.positions(network)
    assert len({round(places[switch.name][1], 3) for switch in network.switches}) == 3  # layers


def test_the_command_writes_a_picture(tmp_path, capsys) -> None:
    path = tmp_path / "example.png"
    words = ["plan", str(GRID_EXAMPLE), "--planner", "none,grid-links", "--figure", str(path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "grid-links" in out and path.stat().st_size > 5000
    assert main([*words, "--json"]) == 2
    assert "name one planner" in capsys.readouterr().err
    assert main(["plan", str(GRID_EXAMPLE), "--figure", "x.doc"]) == 2
    assert ".pdf" in capsys.readouterr().err


TREES = """\
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 2}
system: {name: tree%s}
memory: {aggregators: 64}
jobs:
  - {name: a, model: alexnet, workers: 2, iterations: 1, placement: {workers: [h1, h3]}}
  - {name: b, model: alexnet, workers: 2, iterations: 1, placement: {workers: [h2, h4]}}
"""


def test_the_command_prints_who_has_which_tree(tmp_path, capsys) -> None:
    path = tmp_path / "trees.yaml"
    path.write_text(TREES % "")
    assert main(["plan", str(path), "--json"]) == 0
    a, b = json.loads(capsys.readouterr().out)["jobs"]
    (tree,) = a["trees"]
    assert (tree["root"], tree["slots"], a["refused"]) == ("s3", 32, None)
    assert tree["switches"][0] == {
        "switch": "s1",
        "first_slot": 0,
        "workers": [0],
        "next": "s3",
    }
    assert (b["trees"], b["refused"], b["fallback"]) == ([], "s1 is held by a", "ring")
    assert main(["plan", str(path)]) == 0
    text = capsys.readouterr().out
    assert "its workers" in text and "s1 is held by a" in text
    path.write_text((TREES % "").replace("[h2, h4]}", "[h2, h4]}, start: 1 s"))
    for command in ("plan", "check"):
        assert main([command, str(path)]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "s1 is held by a, unless that has changed when it starts" in said
    path.write_text(TREES % "" + "sweep: {system.mode: [exclusive, quotas]}\n")
    assert main(["plan", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.count("Trees") == 2 and "mode=quotas" in text
    assert main(["plan", str(path), "--planner", "nearest"]) == 2
    assert "--planner is for planners" in capsys.readouterr().err


def test_check_says_who_has_which_tree(tmp_path, capsys) -> None:
    path = tmp_path / "trees.yaml"
    path.write_text(TREES % "")
    assert main(["check", str(path)]) == 0
    text = capsys.readouterr().out
    assert "job a: 1 tree of 32 slots, root s3" in text
    assert "b: ring, because s1 is held by a" in text
    titles = titles_of(set_up(load(path)))  # of the live view
    assert [str(each) for each in titles.values()] == ["a", "b (ring)"]
    rows = rows_of(titles, "tree")  # of a page's table jobs
    assert [(row["name"], row["fallback"]) for row in rows] == [("a", None), ("b", "ring")]
    assert [*job_names(pd.DataFrame(rows))] == ["a", "b (ring)"]
    path.write_text(TREES % "" + "sweep: {system.mode: [exclusive, quotas]}\n")
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("b: ring, because s1 is held by a")
    assert lines[place + 1] == "  at the sweep's point system.mode=exclusive"
    assert main(["check", str(path), "--json"]) == 0
    (fact,) = json.loads(capsys.readouterr().out)["facts"]
    assert fact == {"fact": lines[place], "points": ["system.mode=exclusive"]}


def test_options_that_a_mode_has_not_are_errors(tmp_path, capsys) -> None:
    path = tmp_path / "trees.yaml"
    for options, said in (
        (", quota: 4", "quota with mode: exclusive"),
        (", mode: quotas, jobs_per_switch: 2", "jobs_per_switch with mode: quotas"),
        (", fallback: esa", "fallback"),
    ):
        path.write_text(TREES % options)
        assert main(["check", str(path)]) == 2
        assert said in capsys.readouterr().err
    fault = "faults: [{fault: link_down, between: [s1, s3], at: 1 ms}]\n"
    path.write_text(TREES % ", zeros: header_only" + fault)
    assert main(["check", str(path)]) == 2
    assert "workers ask each other for results" in capsys.readouterr().err
