"""Any valid experiment loads from what it prints; any mutation is valid or refused clearly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.config.yaml_document import plain_value, read_yaml, write_yaml
from p4fabric.base.errors import UserError

from testbed.experiment import load_text
from testbed.traffic.trace import GPUS
from tests.support.experiments import BASE


def few_or_many(few: int, many: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])


TIMES = st.sampled_from(("0", "1 ns", "2.5 us", "10 ms", "0.125 s"))
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "bandwidth": st.sampled_from(("unlimited", "10 Mbit/s", "2.5 Gbps", "1000 bit/s")),
        "delay": st.just("1 s"),
        "jitter": TIMES,
        "loss": st.decimals(0, 99, places=4).map(lambda share: f"{share} %"),
        "duplicate": st.decimals(0, 99, places=4).map(lambda share: f"{share} %"),
        "reorder": st.sampled_from(("0 %", "0.5 %", "99 %")),
        "reorder_delay": st.just("10 s"),
        "queue": st.integers(10, 10**6).map(lambda count: f"{count} packets"),
        "ecn_threshold": st.sampled_from(("none", "1 packet", "10 packets")),
    },
)
# A jitter needs a delay around it, and what is to be overtaken must take longer than a packet.
LINKS = SETTINGS.map(lambda given: {**given, "delay": "1 s", "reorder_delay": "10 s"})


def exceptions(hosts: int) -> st.SearchStrategy:
    def one(number: int) -> st.SearchStrategy:
        return st.builds(
            lambda base, flip, forward, backward: {
                "between": ["s1", f"h{number}"] if flip else [f"h{number}", "s1"],
                **base,
                "forward": forward,
                "backward": backward,
            },
            *(SETTINGS, st.booleans(), SETTINGS, SETTINGS),
        )

    numbers = st.lists(st.integers(1, hosts), unique=True, max_size=3)
    return numbers.flatmap(lambda chosen: st.tuples(*map(one, chosen)).map(list))


JOB = st.fixed_dictionaries(
    {
        "model": st.sampled_from(("resnet50", "ResNet-50", "smallcnn", "neumf")),
        "workers": st.integers(1, 5),
        "iterations": st.integers(1, 60),
    },
    optional={
        "scale": st.floats(1e-6, 1.0),
        "compute_scale": st.floats(0, 10_000),
        "gpu": st.sampled_from(tuple(GPUS)),
        "buckets": st.sampled_from(("layers", "ddp")),
        "start": TIMES,
        "placement": st.just("packed"),
    },
).filter(lambda job: job["model"] != "smallcnn" or "gpu" not in job)
SYSTEM = st.fixed_dictionaries(
    {"name": st.just("esa")},
    optional={
        "window": st.integers(1, 65_536),
        "priority": st.sampled_from(("esa", "random", "constant")),
        "downgrading": st.booleans(),
        "reminder_delay": st.sampled_from(("adaptive", "1 us", "1.5 ms")),
        "timeout": st.sampled_from(("adaptive", "10 us", "3 s")),
        "max_age": st.sampled_from(("none", "0", "1 ms")),
        "release": st.sampled_from(("on_completion", "on_result")),
    },
)
EXPERIMENT = st.fixed_dictionaries(
    {
        "topology": st.just({"kind": "star", "hosts": 20}),
        "links": st.builds(lambda base, each: {**base, "each": each}, LINKS, exceptions(20)),
        "system": st.one_of(st.just("esa"), SYSTEM),
        "memory": st.one_of(
            st.integers(1, 2**22).map(lambda count: {"aggregators": count}),
            st.sampled_from(("8 KiB", "0.5 MB", "100 MiB")).map(lambda size: {"size": size}),
        ),
        "jobs": st.lists(JOB, min_size=1, max_size=3),
    },
    optional={
        "name": st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,10}", fullmatch=True),
        "seed": st.integers(0, 2 * 10**9),
        "repetitions": st.integers(1, 100),
        "gpu": st.sampled_from(tuple(GPUS)),
        "values_per_packet": st.sampled_from((1, 64, 256)),
    },
)


@few_or_many(25, 300)
def test_a_resolved_experiment_loads_to_itself(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(EXPERIMENT)
    def holds(data: dict) -> None:
        experiment = load_text(write_yaml(data))
        text = experiment.resolved_yaml()
        again = load_text(text, folder="/")
        assert again == experiment and again.resolved_yaml() == text
        for index in range(len(experiment.topology_object().links)):
            assert again.directions[index] == experiment.directions[index]
        assert [job.trace() for job in again.jobs] == [job.trace() for job in experiment.jobs]

    holds()


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(10**17), 10**17),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: abs(number) < 1e15),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12),
    st.sampled_from(
        ("on", "1e3", "null", "~", "", "010", "1:30", ".nan", "0x1f", "<<", "- a", "#")
    ),
)


@given(st.dictionaries(st.sampled_from("abcdef"), st.recursive(SCALARS, st.lists, max_leaves=6)))
def test_yaml_reads_back_what_it_wrote(data: dict) -> None:
    document = read_yaml(write_yaml(data) if data else "{}", "file")
    assert not document.problems and document.data == data
    assert repr(document.data) == repr(data)  # tells 1 from 1.0 and True


@given(st.text("0123456789.eE+-_xtrue", max_size=12))
def test_a_plain_word_is_never_read_wrongly(word: str) -> None:
    value = plain_value(word)
    if isinstance(value, int | float) and not isinstance(value, bool):
        assert value == float(word)


PIECES = st.sampled_from(
    (
        *(
            "\t",
            "\n",
            ": ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            '"',
            "'",
            "&a ",
            "*a",
            "!!int ",
            "|",
            ">",
            "#",
        ),
        *(
            "0",
            "-1",
            "1e99",
            ".nan",
            ".inf",
            "true",
            "on",
            "~",
            "null",
            "\0",
            "\x85",
            "\ud7ff",
            "é",
        ),
        *("jobs", "links", "each: ", "between: [h1, s1]", "class: x.py:Y", "99999999999999999999"),
        *(
            "name: ",
            "placement: {workers: [h1], ps: h2}",
            "%",
            "---\n",
            "...\n",
            "? ",
            "10 us",
            "/",
        ),
        *(
            "forward: {jitter: 1 s}",
            "model: ~x/y.csv",
            "program: /",
            "size: 1 KiB",
            "<<: *a",
            "\\u",
        ),
    )
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = BASE
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.one_of(st.integers(0, 3), st.integers(0, 80)))
        piece = draw(
            st.one_of(PIECES, st.just(""), st.text(max_size=6), st.sampled_from(BASE.split()))
        )
        text = text[:start] + piece + text[start + length :]
    return text


@settings(max_examples=200, deadline=None)
@given(mutated())
def test_a_mutated_experiment_is_valid_or_refused_clearly(text: str) -> None:
    try:
        experiment = load_text(text, file="file.yaml")
    except UserError as error:
        assert str(error).startswith("file.yaml: ")
        str(error).encode()  # can be printed
    else:
        assert load_text(experiment.resolved_yaml()) == experiment


WORDS = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.text("ab"), SCALARS))
PATHS = st.sampled_from(
    (
        *(("seed",), ("topology",), ("topology", "hosts"), ("topology", "kind"), ("links",)),
        *(("links", "delay"), ("links", "each"), ("system",), ("system", "name"), ("memory",)),
        *(("system", "program"), ("memory", "aggregators"), ("jobs",), ("jobs", 0)),
        *(("jobs", 0, "model"), ("jobs", 1, "placement"), ("jobs", 0, "scale")),
        *(("topology", "class"), ("system", "timeout"), ("links", "loss"), ("name",)),
    )
)


@few_or_many(80, 600)
def test_any_value_anywhere_is_valid_or_refused_clearly(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(PATHS, WORDS)
    def holds(path: tuple, value: object) -> None:
        data = read_yaml(BASE, "base").data
        place = data
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        try:
            load_text(write_yaml(data), file="file.yaml")
        except UserError as error:
            assert str(error).startswith("file.yaml: ")

    holds()
