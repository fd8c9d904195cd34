"""Reports of results for a reader: printed tables, report.txt, and refusals."""

import io
import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from p4fabric.base import units
from p4fabric.base.errors import UserError
from p4fabric.base.text_table import Estimate, text_of
from rich.console import Console

from testbed.analysis.data.run_summary import summary
from testbed.analysis.figures import run_figures as figures
from testbed.analysis.report import after_run, render, report_command
from testbed.analysis.style.plot_style import plot_styles
from testbed.analysis.tables import report_tables
from testbed.results import Writer, read
from tests.support.synthetic_results import ENVIRONMENT, tables, write_run, write_tables


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def printed(console: Console) -> str:
    return console.file.getvalue()


def row(text: str, *starts: str) -> list[str]:
    """The cells after the first line that starts with these words."""
    for line in text.splitlines():
        words = line.split()
        if words[: len(starts)] == list(starts):
            return words[len(starts) :]
    raise AssertionError(f"no line starts with {starts} in\n{text}")


def failed(parent: Path) -> Path:
    with Writer.create(parent, "bad", "system: esa", ENVIRONMENT) as writer:
        for name in ("jobs", "iterations"):
            writer.write(name, tables()[name], repetition=0)
        writer.fail("job 0, iteration 1, tensor 3, position 77: 5 instead of 4")
    return writer.folder


def test_kept_sums_have_a_row_for_each_kind_of_group(tmp_path, console):
    rows = [(0, 1, "tp.0", 2e-8), (0, 2, "tp.1", 4e-8), (0, 3, "dp.0", None), (1, 1, "", 0.0)]
    names = ("job", "communicator", "group", "largest_error")
    made = [dict(zip(names, each, strict=True)) for each in rows]
    more = {"worker": 0, "iteration": 0, "words": b"", "order_bits": 0.5}
    made = [each | more | {"mean_error": each["largest_error"]} for each in made]
    console.print(render(write_tables(tmp_path, tables() | {"sums": made})))
    text = printed(console)
    assert row(text, "big", "tp") == ["4e-08", "3e-08", "0.5"]
    assert row(text, "big", "dp") == ["0.5"] and row(text, "small", "all")[0] == "0"


def test_the_printed_table(tmp_path, console):
    console.print(render(read(write_run(tmp_path))))
    text = printed(console)
    assert "fidelity: ok" in text
    assert "6 400 aggregated values checked, all right" in text
    assert row(text, "big", "vgg16") == (
        ["2", "1.400", "60.0", "%", "100", "ms", "50.0", "(48.0", "..", "52.0)", "ms"]
    )
    assert row(text, "all") == ["1.220", "78.0", "%", "mean", "80.0", "ms"]
    assert row(text, "big", "40") == ["0", "3", "0", "9.13", "kB", "6.73", "kB"]
    assert row(text, "s1", "8") == (
        ["28.0", "%", "20.0", "%", "5.0", "%", "3.0", "%", "10.0", "%", "62.0", "%", "105"]
    )
    assert row(text, "s1", "allocations") == ["18", "24", "42"]
    assert row(text, "s1", "preemptions") == ["-", "3", "3"]
    assert text.index("PS packets") < text.index("JCT")
    assert max(map(len, text.splitlines())) <= 100


def test_sums_of_programs_do_not_count_as_checked(tmp_path, console):
    """Nobody but the program knows what they should be."""
    results = read(write_run(tmp_path))
    small = {"name": "small", "command": "train.py"}
    for jobs, said in (
        (
            [{"name": "big"}, small],
            "2 560 aggregated values checked, all right; 3 840 sums",
        ),
        ([{"command": "train.py"}, small], "exactness: 6 400 sums returned to programs"),
    ):
        mixed = replace(results, experiment={"jobs": jobs})
        console.print(render(mixed))
        assert said in " ".join(printed(console).split())


def test_what_went_past_the_switches_is_said_first(tmp_path, console):
    """Columns about switches count only what got there."""
    collectives = [
        {"worker": worker, "communicator": who, "collective": kind, "dtype": "float32"}
        | {"job": 0, "route": route, "calls": calls, "bytes": size, "time_ns": None}
        for worker in (0, 1)
        for who, kind, route, calls, size in (
            ("all", "all_reduce", "system", 10, 600),
            ("0 1", "all_to_all", "gloo", 4, 150),
            ("0 1", "send", "gloo", 1, 250),
            ("0 1", "barrier", "ring", 5, 0),
        )
    ]
    made = write_tables(tmp_path, tables() | {"collectives": collectives}, name="run")
    console.print(render(made))
    said = " ".join(printed(console).split())
    assert (
        "past the switches: 10 of 40 calls of job big (40.0 % of the bytes) went over gloo"
        " (all_to_all, send); columns about switches count the others"
    ) in said
    assert "10 of 40 calls of job big (0.0 % of the bytes) went over ring (barrier);" in said
    console.file.truncate(0)
    console.print(render(read(write_run(tmp_path))))
    assert "past the switches" not in printed(console)


def test_repetitions_show_their_interval(tmp_path, console):
    console.print(render(read(write_run(tmp_path, stretches=(1.2, 1.25, 1.3)))))
    # 120, 125, 130 ms: s = 5, 4.3027 x 5 / sqrt(3) = 12.42
    assert row(printed(console), "big", "vgg16")[4:8] == ["125", "±", "12", "ms"]


@pytest.mark.parametrize("show", [units.share, units.ratio, units.number, units.time, units.rate])
def test_no_interval_is_said_to_be_nothing(show):
    for mean, half in itertools.product((1.0, 0.5, 96e6, 1234.5), (0.0, 1e-7, 4e-4, 0.04, 3e5)):
        text = text_of(Estimate(mean, half, 3), show)
        plain, _, after = text.partition(" ± ")
        assert plain.split()[0] in show(mean)
        assert not after or float(after.split()[0].replace(" ", "")) > 0, text
    assert text_of(Estimate(1.0, 4e-4, 3), units.share) == "100.0 %"  # 96 of 96, and 95.9
    assert text_of(Estimate(1.0, 4e-3, 3), units.share) == "100.0 ± 0.4 %"


def test_after_a_run_table_text_and_figures_are_there(tmp_path, console):
    folder = write_run(tmp_path)
    after_run(folder, console)
    report = (folder / "report.txt").read_text()
    assert "\x1b" not in report and row(report, "all")[0] == "1.220"
    assert "<!doctype html>" in (folder / "report.html").read_text()[:100]
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{name}.{kind}" for name in ("jct", "occupancy", "iterations") for kind in ("png", "pdf")
    }
    for path in (folder / "figures").iterdir():
        head = path.read_bytes()[:4]
        assert head == (b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        assert path.stat().st_size > 4000


def test_a_run_without_a_report_has_its_tables(tmp_path, console):
    folder = write_run(tmp_path)
    after_run(folder, console, draw=False)
    assert row((folder / "report.txt").read_text(), "all")[0] == "1.220"
    assert not (folder / "report.html").exists() and not list((folder / "figures").iterdir())


def test_figures_of_the_same_tables_are_the_same_files(tmp_path):
    results = read(write_run(tmp_path))
    first = figures.draw([results], tmp_path / "first")
    second = figures.draw([results], tmp_path / "second")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_ratios_of_several_runs_have_intervals_that_the_caption_explains(tmp_path):
    """With two others each interval is wider than with one, and each run's own are as before."""
    slow = {name: (mean, 1.02 * mean, 0.98 * mean) for name, mean in (("a", 1), ("b", 1.3))}
    runs = [read(write_run(tmp_path, name, stretches=each)) for name, each in slow.items()]
    runs.append(read(write_run(tmp_path, "c", stretches=(1.2, 1.25, 1.16))))
    found = []
    for several in (runs[:2], runs):
        frames, styles = map(summary, several), plot_styles(several)
        table = report_tables.comparison(several, [*frames], styles)
        (line,) = (row for row in table.rows if row.values[0] == "relative")
        found.append((table.title, table.cells(line)[1:]))
    (one, pair), (two, three) = found
    assert one == "Comparison (relative: 95 % interval)" and pair[0] == three[0] == "1.000x"
    assert two.endswith("(relative: 95 % intervals, corrected for 2 comparisons by Holm's method)")
    for text in (pair[1], three[1], three[2]):
        assert re.fullmatch(r"1\.\d{3}x \(1\.\d{3} to 1\.\d{3}\)", text)
    assert pair[1].startswith("1.300x") and float(three[1].split("(")[1][:5]) <= float(
        pair[1].split("(")[1][:5]
    )


def test_two_runs_are_compared(tmp_path, console, monkeypatch):
    slow = write_run(tmp_path, "slow", stretches=(1.25,), cpu=0.9)
    fast = write_run(tmp_path, "fast")
    monkeypatch.chdir(tmp_path)
    report_command([fast.name, slow.name, f"{slow.name}/../{fast.name}"], console)
    text = printed(console)
    assert str(tmp_path) not in text, "paths are printed as they were given"
    comparison = text[text.index("Comparison") :]
    assert "slow: DEGRADED: cpu peak share 0.9" in text
    assert row(comparison, "Comparison") == []
    assert comparison.splitlines()[2].split() == ["fast", "slow"]
    assert row(comparison, "PS", "packets") == ["/", "fragment", "1.220", "1.220"]
    assert row(comparison, "average", "JCT") == ["80.0", "ms", "100", "ms"]
    assert row(comparison, "relative") == ["1.000x", "1.250x"]
    assert row(comparison, "JCT", "of", "small") == ["60.0", "ms", "75.0", "ms"]
    assert row(comparison, "evicted") == ["5.0", "%", "5.0", "%"]
    assert row(comparison, "fidelity") == ["ok", "degraded"]
    (folder,) = tmp_path.glob("comparison-*")
    assert {path.name for path in folder.iterdir()} == {
        "report.txt",
        "report.html",
        "jct.png",
        "jct.pdf",
        "memory.png",
        "memory.pdf",
    }
    assert (slow / "figures" / "jct.png").exists()
    monkeypatch.chdir(slow)
    report_command(["."], console)  # whose name is that of the folder
    assert f"({slow})" in printed(console)


def test_a_failed_run_is_printed_but_not_drawn(tmp_path, console):
    folder = failed(tmp_path)
    report_command([folder], console)
    text = printed(console)
    assert "FAILED: job 0, iteration 1, tensor 3, position 77" in " ".join(text.split())
    assert "all right" not in text and "no figures" in text
    assert not list((folder / "figures").iterdir())
    with pytest.raises(UserError, match="no figure from .* position 77"):
        figures.draw([read(write_run(tmp_path)), read(folder)], tmp_path / "both")
    assert not (tmp_path / "both").exists()


@pytest.mark.slow
def test_a_comparison_with_a_failed_run_says_so_and_draws_nothing(tmp_path, console):
    report_command([write_run(tmp_path), failed(tmp_path)], console)
    text = printed(console)
    assert row(text[text.index("Comparison") :], "fidelity") == ["ok", "FAILED"]
    assert "fewer than two of these runs have finished" in text
    (folder,) = tmp_path.glob("comparison-*")
    assert {path.name for path in folder.iterdir()} == {"report.txt", "report.html"}


def test_an_unfinished_folder_without_tables_is_reported(tmp_path, console):
    folder = Writer.create(tmp_path, "started", "", ENVIRONMENT).folder
    report_command([folder], console)
    assert "UNFINISHED" in printed(console)


@pytest.mark.slow
def test_the_same_folder_twice_is_one_run(tmp_path, console):
    folder = write_run(tmp_path)
    report_command([folder, f"{folder}/"], console)
    assert "Comparison" not in printed(console)
    with pytest.raises(UserError, match="at least one"):
        report_command([], console)
    with pytest.raises(UserError, match="no such results folder"):
        report_command([tmp_path / "typo"], console)


def test_a_report_that_cannot_be_written_is_a_user_error_after_the_table(tmp_path, console):
    folder = write_run(tmp_path)
    (folder / "report.txt").mkdir()
    with pytest.raises(UserError, match="can't write the report into .*report.txt"):
        report_command([folder], console)
    assert "PS packets" in printed(console)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files are handed over only by root")
def test_reports_and_figures_belong_to_the_user_behind_sudo(tmp_path, console, monkeypatch):
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "12345")
    report_command([write_run(tmp_path, "first"), write_run(tmp_path, "second")], console)
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {12345}
