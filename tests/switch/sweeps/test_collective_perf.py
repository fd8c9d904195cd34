"""`ina perf`: a collective over its size, for systems and algorithms."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from p4fabric.base.errors import UserError
from rich.console import Console

from testbed.cli.commands import perf as command
from testbed.cli.main import main
from testbed.collective_kinds import COLLECTIVES
from testbed.sweeps import collective_perf as perf

QUIET = Console(quiet=True)


def points(systems, sizes, **keys) -> dict[tuple[str, int], perf.Point]:
    setting = perf.Setting(**{"collective": "all_reduce", "ranks": 8, "iterations": 1, **keys})
    return {(each.system, each.size): each for each in perf.measure(setting, systems, sizes, QUIET)}


@pytest.mark.parametrize(
    "text, sizes",
    [
        ("1K:8K:2", [1024, 2048, 4096, 8192]),
        ("4K,48k,1MiB", [4096, 48 << 10, 1 << 20]),
        ("4:100:5", [4, 20, 100]),
        ("0.5K", [512]),
        ("1:4:1.1", [1, 2, 3, 4]),
    ],
)
def test_sizes(text, sizes):
    assert perf.sizes_of(text) == sizes


@pytest.mark.parametrize("text", ["", "1K:2K", "2K:1K:2", "1K:2K:1", "0", "x", "1K,,2K", "-4"])
def test_what_is_no_size_is_named(text):
    with pytest.raises(UserError, match="--sizes: found .*allowed: MIN:MAX:FACTOR"):
        perf.sizes_of(text)


def test_an_unknown_system_is_named_before_anything_runs(capsys):
    assert main(["perf", "all_reduce", "--system", "esa,rings"]) == 2
    assert "--system: found 'rings'; allowed: esa, atp" in capsys.readouterr().err


def test_a_system_may_have_options(capsys):
    """Without the way over the server a small sum takes half as long, and its bound is smaller."""
    words = ["perf", "all_reduce", "--ranks", "4", "--sizes", "1K", "--iterations", "1", "--json"]
    systems = ["esa", "{name: esa, results_from: switch, order: fifo}", "switchml"]
    assert main([*words, "--system", ",".join(systems)]) == 0
    found = json.loads(capsys.readouterr().out)["points"]
    assert [each["system"] for each in found] == systems
    over_server, direct, switchml = found
    assert direct["time_ns"] < 0.7 * over_server["time_ns"]
    assert direct["time_ns"] == pytest.approx(switchml["time_ns"], rel=0.1)
    assert direct["bound_ns"] == switchml["bound_ns"] < over_server["bound_ns"]
    assert min(each["over_bound"] for each in found) > 1


def test_a_system_with_options_that_cannot_be_is_named(capsys):
    words = ["perf", "all_reduce", "--sizes", "1K", "--system"]
    assert main([*words, "ring,{esa}"]) == 2
    assert "--system: found '{esa}'; allowed: NAME, or {name: SYSTEM" in capsys.readouterr().err
    assert main([*words, "{name: esa, results_from: here}"]) == 2
    assert "results_from: found 'here'; allowed: server, switch" in capsys.readouterr().err


def test_auto_takes_what_is_fastest_in_the_model_and_says_what(capsys):
    words = ["perf", "all_reduce", "--ranks", "8", "--sizes", "1K,1M", "--iterations", "1"]
    assert main([*words, "--system", "auto,ring,halving_doubling", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    found = {(each["system"], each["size"]): each for each in points}
    assert found["auto", 1024]["chosen"] == "halving_doubling"
    for size in (1024, 1 << 20):
        auto = found["auto", size]
        carried = found[auto["chosen"], size]
        assert auto["time_ns"] == carried["time_ns"] and carried["chosen"] == ""
        others = [found[name, size]["model_ns"] for name in ("ring", "halving_doubling")]
        assert auto["model_ns"] == min(others)


def test_auto_has_a_column_for_what_carried(capsys):
    assert main(["perf", "broadcast", "--ranks", "3", "--sizes", "1K", "--system", "auto"]) == 0
    text = capsys.readouterr().out
    assert "carried by" in text and "switchml" in text and "fastest from" not in text


def test_what_is_wrong_with_the_network_is_named(capsys):
    assert main(["perf", "all_reduce", "--system", "ring", "--rate", "fast"]) == 2
    assert "--rate: found 'fast'" in capsys.readouterr().err


def test_columns_and_json_say_the_same(capsys, tmp_path):
    words = ["perf", "reduce_scatter", "--ranks", "4", "--sizes", "1K,16K", "--iterations", "1"]
    words += ["--system", "ring,esa", "--figure", str(tmp_path / "perf.pdf")]
    assert main(words) == 0
    text = capsys.readouterr().out
    for word in ("size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong", "bound"):
        assert word in text
    assert "Ring: reduce_scatter, 4 ranks" in text and "fastest from" in text
    assert (tmp_path / "perf.pdf").exists() and (tmp_path / "perf.png").exists()
    assert main([*words[:-2], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["setting"]["collective"] == "reduce_scatter"
    first = found["points"][0]
    assert (first["system"], first["size"], first["count"]) == ("ring", 1024, 64)
    assert (first["type"], first["redop"], first["wrong"]) == ("int32", "sum", 0)
    assert first["algbw"] == pytest.approx(1024 / first["time_ns"])
    assert first["busbw"] == pytest.approx(first["algbw"] * 3 / 4)
    assert first["over_bound"] == pytest.approx(first["time_ns"] / first["bound_ns"])


@pytest.mark.parametrize("collective", command.MEASURED)
def test_every_collective_is_measured(collective):
    found = points(["ring"], [40_000], collective=collective, ranks=4)
    ((_, size),) = found
    (point,) = found.values()
    assert size == 40_000 and point.wrong == 0
    assert point.count == (2500 if COLLECTIVES[collective].parts else 10_000)
    assert point.over_bound >= 1 and point.time_ns < 3 * point.bound.model_ns


def test_a_wrong_value_is_counted(monkeypatch, capsys):
    from p4fabric.base.errors import RunError

    def fails(*_):
        raise RunError("wrong value: job perf, iteration 0")

    monkeypatch.setattr(perf, "carry_out", fails)
    assert main(["perf", "all_reduce", "--system", "ring", "--sizes", "1K", "--json"]) == 1
    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["wrong"] == 1 and point["time_ns"] is None and point["busbw"] is None


def test_switches_gain_over_a_ring_what_the_bytes_say():
    """2 (n - 1) / n, with equal frames."""
    size = 4 << 20
    found = points(["switchml", "ring"], [size], iterations=1)
    gain = found["ring", size].time_ns / found["switchml", size].time_ns
    assert gain == pytest.approx(1.75, rel=0.05)
    assert found["switchml", size].busbw > 100 / 8 > found["switchml", size].algbw


def test_a_call_begins_when_the_one_before_is_over():
    """Also where a call takes long: 4 MiB at 10 Gbit/s take 3.6 ms."""
    size = 4 << 20
    found = points(["switchml"], [size], iterations=1, rate="10 Gbit/s")["switchml", size]
    assert 1 <= found.over_bound < 1.05


def test_time_over_ranks_is_flat_logarithmic_or_linear():
    """Of a single packet."""
    took = {}
    for ranks in (4, 16):
        for key, point in points(
            ["switchml", "halving_doubling", "ring"], [1024], ranks=ranks
        ).items():
            took[key[0], ranks] = point.time_ns
    ratio = {name: took[name, 16] / took[name, 4] for name, _ in took}
    assert ratio["switchml"] == pytest.approx(1, abs=0.25)
    assert ratio["halving_doubling"] == pytest.approx(2, abs=0.4)
    assert ratio["ring"] == pytest.approx(5, abs=0.8)


def test_the_fastest_system_of_each_size_is_named():
    def point(system: str, size: int, time_ns: float) -> perf.Point:
        nothing = perf.CallTime(0, 0)
        return perf.Point(system, system, "all_reduce", 8, size, 1, time_ns, 0, nothing)

    found = [point("a", 1, 1), point("a", 2, 5), point("a", 4, 9)]
    assert perf.crossovers(found) == []
    found += [point("b", 1, 2), point("b", 2, 3), point("b", 4, 4), point("b", 8, math.nan)]
    assert perf.crossovers(found) == ["fastest from 1 B on: a", "fastest from 2 B on: b"]


@pytest.mark.slow
def test_64_mb_over_8_ranks():
    """INA over ring within 3 % of 2 (n - 1) / n; both have frames of the same size."""
    size = 64 << 20
    found = points(["switchml", "esa", "ring"], [size], warmup=1)
    for system in ("switchml", "esa"):
        gain = found["ring", size].time_ns / found[system, size].time_ns
        assert gain == pytest.approx(1.75, rel=0.03)


@pytest.mark.slow
def test_from_2_to_64_ranks_small_calls_follow_their_steps():
    took: dict[str, list[float]] = {}
    for ranks in (2, 4, 8, 16, 32, 64):
        for (system, _), point in points(
            ["switchml", "halving_doubling", "ring"], [1024], ranks=ranks
        ).items():
            took.setdefault(system, []).append(point.time_ns)
    assert max(took["switchml"]) < 1.4 * min(took["switchml"])
    steps = [b - a for a, b in pairwise(took["halving_doubling"])]
    assert max(steps) < 2 * min(steps)  # delays of hosts vary
    per_rank = [time / (2**i - 1) for i, time in enumerate(took["ring"], start=1)]
    assert max(per_rank) < 1.3 * min(per_rank)


@pytest.mark.slow
def test_48_kb_of_a_decode_step_are_fastest_in_switches():
    found = points(["switchml", "ring", "halving_doubling", "double_tree"], [48 << 10])
    assert min(found.values(), key=lambda each: each.time_ns).system == "switchml"
