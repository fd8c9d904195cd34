"""Continuous batching, for random requests: what each of them gets, and what it waits for."""

from __future__ import annotations

from collections import Counter
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
            assert read_requests(path) == tuple(requests)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prompt, output\n1, 2\n3, x\n", "line 3: output: found 'x'; write a number of tokens"),
        ("prompt, output\n0, 2\n", "line 2: prompt: found '0'; write a number of tokens, 1 to"),
        ("prompt, output\n5,\n", "line 2: output: found ''"),
        ("prompt\n5\n", "line 2: output: found ''"),
        ("prompt, output, arrival\n5, 2, 1\n", "unknown column 'arrival'; known: prompt, output"),
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
