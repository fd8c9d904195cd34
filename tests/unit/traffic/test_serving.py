"""Continuous batching, for random requests: what each of them gets, and what it waits for."""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.traffic.serving import (
    DECODE,
    PREFILL,
    SERVE,
    SERVING,
    Lengths,
    Request,
    batched,
    drawn,
    drawn_arrivals,
    read_requests,
)

REQUESTS = st.lists(
    st.builds(Request, st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=12
)
FEW = settings(max_examples=150, derandomize=True)


@given(st.sampled_from(SERVING), st.integers(1, 5), REQUESTS)
@FEW
def test_each_request_gets_its_tokens_and_attends_to_all_before_them(kind, batch, requests):
    steps, answered = batched(kind, batch, requests)
    read, made = Counter(), Counter()
    for step in steps:
        assert 1 <= len(step.new) == len(step.context) <= batch
        (read if step.prefill else made).update(zip(step.new, step.context, strict=True))
    prompts = [each.prompt for each in requests]
    assert read == (Counter() if kind == DECODE else Counter(zip(prompts, prompts, strict=True)))
    first = 1 if kind == DECODE else 0  # of the answer, or made by other machines
    further = {PREFILL: 0, DECODE: 0, SERVE: 1}[kind]
    assert made == Counter(
        (1, prompt + first + number)
        for prompt, output in requests
        for number in range(further, 0 if kind == PREFILL else output)
    )
    for (_, output), times in zip(requests, answered, strict=True):
        assert times.sent < times.first <= times.last < len(steps)
        between = steps[times.first + 1 : times.last + 1]
        tokens = 1 if kind == PREFILL else output
        assert sum(not step.prefill for step in between) == tokens - 1
        assert not between or not between[-1].prefill


@given(st.sampled_from(SERVING), st.integers(1, 5), REQUESTS)
@FEW
def test_clients_send_when_they_have_their_answer_and_new_requests_go_first(kind, batch, requests):
    steps, answered = batched(kind, batch, requests)
    ends = sorted(each.last for each in answered)
    free = [-1] * batch + ends  # moments at which a client can send
    assert [each.sent for each in answered] == free[: len(requests)]
    for number, step in enumerate(steps):
        there = [each for each in answered if each.sent < number <= each.last]
        new = [each for each in there if each.sent == number - 1]
        assert step.prefill == (bool(new) and kind != DECODE)
        assert len(step.new) == len(new if step.prefill else there)
    assert all(each.first == each.sent + 1 for each in answered)


@given(st.integers(1, 40), st.integers(0, 30), st.none() | st.floats(0, 3), st.integers(0, 99))
@settings(FEW, max_examples=40)
def test_lengths_stay_in_their_range_and_depend_on_the_seed(low, more, tail, seed):
    lengths = Lengths(low, low + more, tail)
    found = drawn(seed, 30, lengths, Lengths(1, 1 << 20))
    assert all(low <= each.prompt <= low + more for each in found)
    assert found == drawn(seed, 30, lengths, Lengths(1, 1 << 20))
    assert found != drawn(seed + 1, 30, lengths, Lengths(1, 1 << 20))


def test_a_heavier_tail_has_longer_requests():
    means = [
        sum(each.prompt for each in drawn(1, 500, Lengths(1, 1000, tail), Lengths(1, 1)))
        for tail in (2, 1, 0, None)
    ]
    assert means == sorted(means) and means[0] < means[-1] / 20


@given(REQUESTS)
@settings(FEW, max_examples=30)
def test_a_file_of_requests_is_read_in_any_order_of_columns(requests):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "asked.csv"
        for columns in (("prompt", "output"), ("output", "prompt")):
            lines = [",".join(str(getattr(each, c)) for c in columns) for each in requests]
            path.write_text("\n".join(["# asked", ",".join(columns), *lines]))
            assert read_requests(path) == (tuple(requests), ())


@given(st.sampled_from(SERVING), st.integers(1, 4), REQUESTS, st.data())
@FEW
def test_a_step_takes_who_has_come_by_its_begin_as_far_as_there_are_places(
    kind, batch, requests, data
):
    gaps = data.draw(st.lists(st.integers(0, 30), min_size=len(requests), max_size=len(requests)))
    arrivals = [*accumulate(gaps)]
    spans = []  # begin and end of each step

    def end_ns(number, begin_ns, step):
        spans.append((begin_ns, begin_ns + 1 + (7 * number + step.tokens) % 11))
        return spans[-1][1]

    steps, answered = batched(kind, batch, requests, arrivals, end_ns)
    assert len(spans) == len(steps)
    entered = [each.sent + 1 for each in answered]
    assert entered == sorted(entered)
    for number, (begin, _) in enumerate(spans):
        inside = [i for i, each in enumerate(answered) if entered[i] <= number <= each.last]
        assert 1 <= len(inside) <= batch
        waiting = [i for i in range(len(requests)) if entered[i] > number and arrivals[i] <= begin]
        assert not waiting or len(inside) == batch
        assert all(arrivals[i] <= begin for i in inside)
    for (_, end), (begin, _) in pairwise(spans):  # the batch is idle only while nobody is there
        assert begin == end or (begin > end and begin in arrivals)
    if not any(arrivals):
        assert (steps, answered) == batched(kind, batch, requests)


def test_a_poisson_process_has_its_rate():
    arrivals = drawn_arrivals(3, 10_000, 250.0)
    assert arrivals[-1] / 10_000 == pytest.approx(4e6, rel=0.05)
    gaps = [b - a for a, b in pairwise((0, *arrivals))]
    assert sum(gap > 4e6 for gap in gaps) / 10_000 == pytest.approx(math.exp(-1), abs=0.02)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prompt, output\n1, 2\n3, x\n", "line 3: output: found 'x'; write a number of tokens"),
        ("prompt, output\n0, 2\n", "line 2: prompt: found '0'; write a number of tokens, 1 to"),
        ("prompt, output\n5,\n", "line 2: output: found ''"),
        ("prompt\n5\n", "line 2: output: found ''"),
        ("prompt, output, arrival\n5, 2, 1\n", "unknown column 'arrival'; known: prompt, output"),
        ("prompt, output, arrival_us\n5, 2, 7\n1, 1, 6\n", "line 3: arrival_us: found '6'; write"),
        ("prompt, output, arrival_us\n5, 2, 7\n1, 1,\n", "1 of 2 requests have arrival_us"),
        ("prompt, output\n", "there are no requests below the line"),
        ("prompt, output\n" + "1, 1\n" * 10_001, "10001 requests; allowed: up to 10000"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(text, words, tmp_path):
    path = tmp_path / "asked.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        read_requests(path)
    assert str(path) in str(caught.value)
