"""The sentences that say which number explains which, from numbers made up for each."""

from __future__ import annotations

import math
import random
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base import units

from testbed.analysis.data.critical_path import COMPUTE, PATH
from testbed.analysis.data.explanations import of_comparison, of_run
from testbed.analysis.data.loss_data import OF_LINKS
from testbed.analysis.html.run_page import run_page
from testbed.results import read
from testbed.results.counters import RESENT
from tests.support.synthetic_results import write_run

S = 1e9


def frames(**changed) -> dict[str, pd.DataFrame]:
    """A run of one job of 10 s, of which it computes 2 s and its links need 4 s at least."""
    job = {
        "job": 0,
        "name": "a",
        "system": "esa",
        "outcome": "finished",
        "jct_ns": 10 * S,
        "computation_ns": 0.5 * S,
        "iterations": 4,
        "communication_ns": 5 * S,
        "communication_bound_ns": 4 * S,
        "communication_bound_at_packets_ns": 4 * S,
        "gradient_packets": 1000,
        "retransmissions": 0,
        "fallback": None,
        "refused": None,
        "layers": None,
        "layers_simulated": None,
        "messages_simulated": None,
    }
    run = {
        "ps_packets_per_fragment": 1.0,
        "filling_share": 0.3,
        "held_share": 0.0,
        "filling_evicted_share": 0.0,
    }
    job |= {key: value for key, value in changed.items() if key in job and key != "jct_ns"}
    run |= {key: value for key, value in changed.items() if key in run}
    times = changed.get("jct_ns", 10 * S)
    times = times if isinstance(times, list) else [times]
    jobs = [job | {"repetition": number, "jct_ns": time} for number, time in enumerate(times)]
    links = pd.DataFrame(columns=[*OF_LINKS.values(), "marks"], dtype="float64")
    lost = pd.DataFrame(
        columns=["resent", *(f"after_{cause}" for cause in RESENT)], dtype="float64"
    )
    found = {"jobs": pd.DataFrame(jobs), "run": pd.DataFrame([run])}
    path = changed.get("path", pd.DataFrame(columns=PATH))
    return found | {"lost_by_link": links, "lost_by_job": lost, "path": path}


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"communication_bound_at_packets_ns": 9 * S}, "from 4.00 s to 9.00 s"),
        ({"ps_packets_per_fragment": 1.25}, "PS packets per fragment: 1.250"),
        ({"retransmissions": 50}, "5.0 % of the gradient packets were retransmitted"),
        (
            {"fallback": "ring", "refused": "s1 is held by b"},
            "a: ring, because s1 is held by b.",
        ),
        ({"filling_share": 0.5, "held_share": 0.4}, "switch memory was full most of the time"),
        ({"filling_evicted_share": 0.1}, "10.0 % for sums that were evicted incomplete"),
    ],
)
def test_what_limited_a_run(changed, said):
    assert said in " ".join(of_run(frames(**changed)))


@given(*[st.floats(0.01, 3)] * 2, st.floats(1, 1.1) | st.floats(1, 2))
def test_the_parts_of_a_jct_add_up_to_it(computing, bound, more):
    """In each first sentence, whatever the run: a part and its share, and the others with theirs,
    are the whole; or parts exceed it, and the sentence says that they overlap."""
    compute, bound, least = computing * S, bound * S, more * bound * S  # what is compared, in ns
    changed = {"computation_ns": compute, "communication_bound_ns": bound}
    text, *others = of_run(frames(**changed, communication_bound_at_packets_ns=least))
    assert ("raise the least communication time" in others[0]) == (least > 1.05 * bound)
    named = "Together they are", 4 * compute + least
    if 4 * compute > 8.5 * S:
        named = "Computation was the bottleneck: it takes", 4 * compute
    elif least > 8.5 * S:
        named = "The links were the bottleneck: these packets take at least", least
    assert f"{named[0]} {units.time(named[1])}, " in text
    shares = [float(each) for each in re.findall(r"([\d.]+) %", text)]
    assert "Neither" not in text and "Compare" not in text
    if "so they overlap" in text:
        assert shares[0] == pytest.approx(10 * (4 * compute + least) / S, abs=0.06)
        assert shares[0] >= 100
    elif not text.endswith(", all of the JCT."):
        assert sum(shares) == pytest.approx(100, abs=0.11) and len(shares) == 2
        assert re.search("; the other .* are (communication|computation|waiting)", text)


@pytest.mark.parametrize(
    "changed, left_out",
    [
        ({"retransmissions": 10}, "retransmitted"),
        ({"filling_share": 0.85}, "full most of the time"),
        ({"filling_evicted_share": 0.01}, "evicted"),
    ],
)
def test_what_is_just_at_its_limit_is_not_worth_a_sentence(changed, left_out):
    assert left_out not in " ".join(of_run(frames(**changed)))


@pytest.mark.parametrize(
    "kind, marked, cuts, said",
    [("rc", 0, 0, True), ("rc", 3, 0, False), ("rc", 0, 3, False), ("tcp", None, None, False)],
)
def test_a_congestion_control_that_did_nothing(kind, marked, cuts, said):
    flows = pd.DataFrame({"kind": [kind], "marked": [marked], "cuts": [cuts]})
    text = " ".join(of_run({**frames(), "flows": flows}))
    assert ("so the choice of their congestion control did not matter" in text) == said


def path_of(*parts: tuple) -> pd.DataFrame:
    """Frame "path" of job 0 in one repetition; a part is (kind, ranks, example, calls, its seconds,
    seconds of its bytes)."""
    rows = [(0, 0, *part[:4], part[4] * S, part[5] * S) for part in parts]
    return pd.DataFrame(rows, columns=PATH)


COMPUTED = (COMPUTE, 0, "", 3, 2, math.nan)


@pytest.mark.parametrize("seed", range(12))
def test_a_path_tells_its_longest_parts_and_what_is_left(seed):
    draw, rows = random.Random(seed), []
    found = frames(fallback="ring", refused="full")
    count = draw.randint(1, 6)
    found["jobs"] = pd.concat([found["jobs"].assign(job=n, name=f"j{n}") for n in range(count)])
    wanted = []
    for job in range(count):
        times = [S * time for time in draw.sample(range(1, 99), draw.randint(1, 8))]
        parts, needed = [], [draw.random() * time for time in times[1:]]
        for ranks, (time, bytes_ns) in enumerate(zip(times[1:], needed, strict=True), 2):
            calls = draw.choice([1, 4])
            rows.append((0, job, "reduce", ranks, "0 1", calls, time, bytes_ns))
            each = f"{units.time(time / 4)} each, " if calls > 1 else ""
            said = f"{'4 calls' if calls > 1 else 'a call'} of reduce of {ranks} ranks, as 0 1,"
            said += f" {units.time(time)} ({each}bytes {units.time(bytes_ns / calls)})"
            parts.append((-time, said))
        rows.append((0, job, COMPUTE, 0, "", 3, times[0], math.nan))
        parts.append((-times[0], f"computation {units.time(times[0])}"))
        told = [said for _, said in sorted(parts)[:5]]
        if left := -sum(time for time, _ in sorted(parts)[5:]):
            told.append(f"what is left {units.time(left)}")
        line = (
            f"On the critical path of j{job} (ring), {units.time(sum(times))}: {'; '.join(told)}."
        )
        if needed:
            share = sum(needed) / sum(times[1:])
            who = "links decide" if share > 0.5 else "round trips, queues and hosts decide"
            line += f" Bytes need {units.share(share)} of the calls' time: {who}."
        wanted.append(line)
    more = [f"{count - 4} more jobs have critical paths: table steps."] * (count > 4)
    said = of_run({**found, "path": pd.DataFrame(rows, columns=PATH)})
    carried = [f"j{job}: ring, because full." for job in range(min(count, 4))]
    carried += [f"{count - 4} more jobs were carried by hosts in this way."] * (count > 4)
    assert said[-len(carried) :] == carried
    assert [line for line in said if "critical path" in line] == wanted[:4] + more


def test_programs_of_ranks_are_told_apart_by_their_paths():
    runs = [
        frames(
            jct_ns=time * S, path=path_of(("all_reduce", 4, "0 1 2 3", 4, time - 2, 1), COMPUTED)
        )
        for time in (10, 14)
    ]
    (text,) = of_comparison(runs, ["ESA", "ATP"])
    assert text.endswith(
        "The critical paths differ most in all_reduce of 4 ranks, as 0 1 2 3, of a: 8.00 s, with"
        " ATP 12.0 s."
    )


def test_nothing_is_said_of_what_is_not_known():
    unknown = math.nan
    text = of_run(
        frames(
            computation_ns=unknown,
            communication_bound_ns=unknown,
            communication_bound_at_packets_ns=unknown,
            ps_packets_per_fragment=unknown,
            filling_share=unknown,
        )
    )
    assert text == ["Mean JCT: 10.0 s."]
    assert of_run(frames(outcome="unfinished")) == []


def test_why_the_first_is_faster():
    other = frames(
        jct_ns=14 * S, ps_packets_per_fragment=2.0, communication_bound_at_packets_ns=8 * S
    )
    assert of_comparison([other, frames()], ["ATP", "ESA"]) == [
        "ESA is 1.40x faster than ATP (one repetition: mean JCT 10.0 s, ATP 14.0 s) because it"
        " sends 1.000 PS packets per fragment, ATP 2.000. They take at least 4.00 s on the links,"
        " those of ATP 8.00 s."
    ]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ([10], [10.1], "are about equally fast (mean JCT 10.0 s, ATP 10.1 s; one repetition)"),
        ([10, 10], [14, 14], "1.40x faster than ATP (2 repetitions: "),
        # Welch: logarithms differ by log 1.4, each mean has a standard error of 0.02, t(4) = 2.776
        (
            [10 * math.exp(0.02 * 3**0.5 * each) for each in (-1, 0, 1)],
            [14 * math.exp(0.02 * 3**0.5 * each) for each in (-1, 0, 1)],
            "1.40x faster than ATP (1.29x to 1.51x with 95 % confidence, 3 repetitions: ",
        ),
        ([10, 11, 12], [10.5, 11.5, 12.5], "cannot be told apart: ATP takes 0.8"),
        ([10, 10, 10], [10.1, 10.1, 10.1], "1.01x faster than ATP (1.01x to 1.01x"),
        ([10] * 3, [14] * 2, "1.40x faster than ATP (2 and 3 repetitions: "),
    ],
)
def test_a_comparison_says_how_certain_it_is(first, second, said):
    runs = [frames(jct_ns=[S * each for each in times]) for times in (first, second)]
    (text,) = of_comparison(runs, ["ESA", "ATP"])
    assert said in text


def test_several_comparisons_are_right_together():
    """Holm: t(4) is 3.96, 3.50 and 2.78 at thirds, halves and the whole of 5 %, for the comparison
    that is the surest, the next one, and the last. Logarithms as above."""
    spread = [math.exp(0.02 * 3**0.5 * each) for each in (-1, 0, 1)]
    runs = [frames(jct_ns=[S * mean * each for each in spread]) for mean in (10, 12, 14, 13)]
    texts = of_comparison(runs, ["ESA", "ATP", "PS", "Ring"])
    wanted = {"ATP": "1.11x to 1.30x", "Ring": "1.18x to 1.44x", "PS": "1.25x to 1.57x"}
    for text, (name, interval) in zip(texts, wanted.items(), strict=True):
        assert f"faster than {name} ({interval} with 95 % confidence in all 3 comparisons" in text


def test_who_has_no_server_needs_less_of_the_links():
    unknown = {"ps_packets_per_fragment": math.nan, "communication_bound_at_packets_ns": math.nan}
    other = frames(
        jct_ns=14 * S, ps_packets_per_fragment=2.0, communication_bound_at_packets_ns=8 * S
    )
    (text,) = of_comparison([other, frames(**unknown)], ["ATP", "SwitchML"])
    assert "because it has no parameter server" in text
    assert "at least 4.00 s" in text
    assert "2.000 PS packets per fragment, which take at least 8.00 s" in text


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"jct_ns": 10.1 * S}, "equally fast"),
        # The number that would explain it goes the other way.
        (
            {"jct_ns": 14 * S, "ps_packets_per_fragment": 0.5, "communication_ns": 9 * S},
            "do not explain it (1.000 and 0.500). Communication lasts 5.00 s and 9.00 s.",
        ),
        (
            {"jct_ns": 14 * S, "communication_bound_at_packets_ns": 8 * S},
            "do not explain it",
        ),
        ({"jct_ns": 14 * S, "retransmissions": 100}, "retransmitted 0.0 % of its gradient packets"),
        ({"jct_ns": 14 * S, "ps_packets_per_fragment": math.nan}, "ATP has no parameter server"),
    ],
)
def test_no_cause_is_named_that_the_numbers_do_not_bear(changed, said):
    (text,) = of_comparison([frames(), frames(**changed)], ["ESA", "ATP"])
    assert said in text and "because" not in text


def test_without_a_server_equal_links_explain_nothing():
    runs = [frames(retransmissions=50), frames(jct_ns=14 * S, retransmissions=100)]
    assert "retransmitted" not in of_comparison(runs, ["ESA", "ATP"])[0]
    (text,) = of_comparison(
        [frames(ps_packets_per_fragment=math.nan), frames(jct_ns=14 * S)], ["SwitchML", "ESA"]
    )
    assert "SwitchML has no parameter server, so" in text and "because" not in text


def test_other_jobs_are_not_compared():
    assert of_comparison([frames(), frames(name="b")], ["ESA", "ATP"]) == []
    assert of_comparison([frames(), frames()], ["ESA", "ESA"]) == []


def test_the_page_of_a_run_begins_with_them(tmp_path):
    page = run_page(read(write_run(tmp_path)))
    texts = [getattr(block, "text", "") for block in page.sections[0].blocks]
    assert any(text.startswith("Mean JCT") for text in texts)
