"""User errors in an experiment file, and the one message for each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from p4fabric.base.config.fields import Kind, kind_of
from p4fabric.base.config.units import FieldError
from p4fabric.base.config.yaml_document import read_yaml, write_yaml
from p4fabric.base.errors import UserError
from pydantic import BaseModel

from testbed.experiment import load
from testbed.experiment.schema import ExperimentFile
from testbed.systems import SYSTEMS
from tests.support.experiments import BASE, changed, message

NAMES = ", ".join(SYSTEMS)

# (text to replace, replacement, what the message must say)
TABLE = [
    # keys
    ("name: base", "nam: base", "line 1, nam: unknown key; did you mean name? allowed: name, seed"),
    ("window: 64", "windw: 64", "line 6, system.windw: unknown key; did you mean window?"),
    ("delay: 10 us", "dely: 10 us", "line 5, links.dely: unknown key; did you mean delay?"),
    ("workers: 4", "wrokers: 4", "jobs[0].wrokers: unknown key; did you mean workers?"),
    ("workers: 4, ", "", "line 9, jobs[0].workers: missing"),
    ("window: 64", "servers: 2", "system.servers: unknown key; an option of ps, colocated_ps"),
    ("name: base", "window: 3", "window: unknown key; it belongs under system:"),
    ("name: base", "name: a\nname: b", "line 2, name: already given in line 1; keep one"),
    ("delay: 10 us", "bandwidth: 1 Mbit/s", "line 5, links.bandwidth: already given in line 4"),
    ("name: base", "1: 2", "line 1, 1: unknown key"),
    ("name: base", "[a]: 2", "line 1: a key must be a word"),
    ("name: base", "name:", "line 1, name: nothing is written here"),
    ("name: base", "name: ~", "line 1, name: nothing is written here"),
    ("system: {name: esa, window: 64}", "", "system: missing"),
    ("memory: {aggregators: 128}", "", "memory: missing"),
    ("hosts: 10", "host: 10", "line 2, topology.host: unknown key; did you mean hosts?"),
    (", hosts: 10", "", "line 2, topology.hosts: missing; Star needs it"),
    # values
    ("100 Mbit/s", "unlimitd", "did you mean unlimited?"),
    ("hosts: 10", "hosts: 4", "jobs: found 7 workers and 2 parameter servers, together 9 roles;"
     " the topology has 4 hosts"),
    ("hosts: 10", "hosts: 0", "topology.hosts: found 0; allowed: a whole number from 2 to 510"),
    ("hosts: 10", "hosts: ten", "topology.hosts: found 'ten'; allowed: a whole number"),
    ("hosts: 10", "hosts: true", "topology.hosts: found true; allowed: a whole number"),
    ("kind: star", "kind: str", "topology.kind: found 'str'; allowed: star, two_level, leaf_spine"),
    ("kind: star, ", "", "topology: found neither kind nor class; allowed: one of them"),
    ("kind: star, ", "kind: star, class: a.py:B, ", "topology: found both kind and class"),
    ("{kind: star, hosts: 10}", "star", "topology: found 'star'; allowed: a mapping such as"),
    ("{kind: star, hosts: 10}", "[]", "topology: found an empty list"),
    ("name: esa", "name: eas", f"system: found 'eas'; allowed: {NAMES}; did you mean esa?"),
    ("{name: esa, window: 64}", "asa", f"system: found 'asa'; allowed: {NAMES}; did you mean esa?"),
    ("{name: esa, window: 64}", "{window: 64}", "system: found no name"),
    ("name: base", "switch: bmv2\nruntime: virtual", "switch: found 'bmv2' with runtime virtual,"
     " which only has the embedded switch"),
    ("{name: esa, window: 64}", "7", "system: found 7; allowed: a system's name"),
    ("window: 64", 'window: "64"', "write it without quotes"),
    ("window: 64", "program: .", "found '.'; allowed: a file; this is a folder:"),
    ("window: 64", "program: no.p4", "system.program: found 'no.p4'; allowed: a file; there is no"),
    ("aggregators: 128", f"aggregators: {'9' * 5000}", "memory.aggregators: found '9999"),
    ("aggregators: 128", "size: 100 B", "memory.size: found 100 B, which is room for 0"),
    ("aggregators: 128", "size: 1 KiB, aggregators: 1", "memory: found both; allowed: one of"),
    ("{aggregators: 128}", "{}", "memory: found neither; allowed: one of aggregators, size"),
    ("{aggregators: 128}", "128", "memory: found 128; allowed: a mapping with the keys aggr"),
    ("model: resnet50", "model: resnet5", "jobs[0].model: unknown model 'resnet5'; did you mean"),
    ("model: resnet50", "model: no/such.csv", "jobs[0].model: "),
    ("model: resnet50", "model: no/such.npz", "no such recording; check the path"),
    ("model: resnet50", f"model: {'9' * 300}.npz", ".npz: File name too long"),
    ("model: resnet50", f"model: {'9' * 300}.csv", "jobs[0].model: "),
    ("model: resnet50", "model: 7", "jobs[0].model: found 7; allowed: text, or a mapping"),
    ("iterations: 2, scale: 0.01", "iterations: 99999, scale: 1", "fragments; allowed: up to"),
    ("start: 5 ms", "name: resnet50-0", "jobs[1].name: found 'resnet50-0', which is already"),
    ("name: base", "values_per_packet: 63", "allowed: a power of two: 1, 2, 4, 8"),
    ("name: base", "jobs: []", "jobs: already given"),
    # settings that must agree
    ("delay: 10 us", "jitter: 1 us", "links.jitter: found jitter 1 us; allowed: at most the delay"),
    ("delay: 10 us", "queue: 5 packets\n  ecn_threshold: 6 packets",
     "links.ecn_threshold: found ecn_threshold 6 packets; allowed: at most the queue"),
    ("delay: 10 us", "each: [{between: [h1, h2]}]", "links.each[0].between: there is no link"
     " between h1 and h2; h1 is linked to s1"),
    ("delay: 10 us", "each: [{between: [h1, s2]}]", "there is no node s2 in the topology"),
    ("delay: 10 us", "each: [{between: [h1, s1], failed: true}]", "line 5, links.each[0].failed:"
     " h1-s1 is the only link of h1; allowed: links between switches"),
    ("name: base", "switches: {each: [{switch: h1}]}", "switches.each[0].switch: h1 is a host"),
    ("name: base", "switches: {each: [{switch: s2}]}", "s2 is not in the topology"),
    ("name: base", "switches: {each: [{switch: s1}, {switch: s1}]}", "s1 is already in switches"),
    ("delay: 10 us", "each: [{between: [h1]}]", "found a list of 1; allowed: a list of at least 2"),
    ("delay: 10 us", "each: [{between: h1}]", "links.each[0].between: found 'h1'; allowed: a list"),
    ("delay: 10 us", "each: [{between: [h1, s1]}, {between: [s1, h1]}]",
     "links.each[1].between: these links are already in links.each[0]"),
    ("delay: 10 us", "each: [{between: [h1, s1], forward: {jitter: 1 us}}]",
     "links.each[0]: h1 to s1: found jitter 1 us; allowed: at most the delay, which is 0 ns"),
    ("delay: 10 us", "each: {between: [h1, s1]}", "links.each: found a mapping; allowed: a list"),
    ("delay: 10 us", "reorder: 1 %\n  reorder_delay: 0",
     "links.reorder_delay: found reorder 1 % with reorder_delay 0 ns, so that no packet would"
     " overtake another; allowed: more than 26.08 us, a packet's time on the link"),
    ("delay: 10 us", "each: [{between: [s1, h1], bandwidth: 1 Mbit/s, forward: {reorder: 1 %}}]",
     "links.each[0]: s1 to h1: found reorder 1 % with reorder_delay 1 ms"),
    ("start: 5 ms", "placement: {workers: [h1, h2], ps: h3}",
     "jobs[1].placement.workers: found 2 hosts; the job has 3 workers"),
    ("start: 5 ms", "placement: {workers: [h1, h2, h1], ps: h3}",
     "jobs[1].placement.workers[2]: h1 already has a role in jobs[1]; a host has one role"),
    ("start: 5 ms", "placement: {workers: [h1, h2, h3], ps: s1}",
     "jobs[1].placement.ps: s1 is a switch"),
    ("start: 5 ms", "placement: {workers: [h1, h2, h77], ps: h3}",
     "jobs[1].placement.workers[2]: h77 is not in the topology; did you mean h"),
    ("start: 5 ms", "placement: {worker: [h1, h2, h3], ps: h4}", "did you mean workers?"),
    ("start: 5 ms", "placement: spred",
     "jobs[1].placement: found 'spred'; allowed: packed, spread, random, or"),
    ("name: base", "gpu: a100_v100", "did you mean a100_v100_batch?"),
    ("model: vgg16", "model: smallcnn, gpu: a100",
     "jobs[1].gpu: found a100; smallcnn has the times of its own hardware (CPU core (nominal))."
     " Take this key out"),
    # YAML
    ("name: base", "name: !!python/name:os.system x", "is not supported; remove it"),
    ("name: base", "<<: {seed: 1}", "merge keys are not supported"),
    ("name: base", "seed: &a [*a]", "an alias (*) inside its own anchor (&)"),
    ("name: base", "name: *nothing", "line 1: not valid YAML: found undefined alias"),
    ("  delay: 10 us", "\tdelay: 10 us", "line 5: a tab; indent with spaces"),
    ("hosts: 10}", "hosts: 10", "not valid YAML"),
    ("name: base", "name: base\n---", "a second document begins"),
    ("name: base", "%bad", "not valid YAML"),
]  # fmt: skip


@pytest.mark.parametrize("old, new, expected", TABLE)
def test_bad_input(old: str, new: str, expected: str) -> None:
    text = message(changed(old, new))
    # What one mistake says must not be buried in what follows from it.
    assert text.startswith("file.yaml: 1 error in the experiment\n") and expected in text
    assert "Traceback" not in text and "pydantic" not in text and "None" not in text


# With a member in each list.
WHOLE = (
    changed("  delay: 10 us", "  each: [{between: [h1, s1], forward: {loss: 0}}]")
    + """
switches: {each: [{switch: s1}]}
faults: [{at: 1 s, fault: pause, job: vgg16-1, worker: 0, for: 1 s}]
background: [{kind: udp, from: h1, to: h2, rate: 1 Mbit/s}]
"""
)
WRONG = (True, "xyz", "010", "1:30", ".nan", "9e99 s", -7, 1.5, 1e30, [1, 2], {"a": 1})


def keys(model: type[BaseModel], data: Any, path: tuple = ()) -> Iterator[tuple[tuple, Kind]]:
    """Every key whose values are of one kind: in sections that `data` has or may have, and in the
    first members of its lists."""
    for name, info in model.model_fields.items():
        here = (*path, info.alias or name)
        given = data.get(here[-1]) if isinstance(data, dict) else None
        if (kind := kind_of(info)) is not None:
            yield here, kind
        many = get_origin(info.annotation) in (tuple, list, dict)
        for part in get_args(info.annotation) or [info.annotation]:
            if isinstance(part, type) and issubclass(part, BaseModel):
                if many and isinstance(given, list):
                    yield from keys(part, given[0], (*here, 0))
                elif not many and (given is None or isinstance(given, dict)):
                    yield from keys(part, given, here)


def test_every_key_names_the_value_that_it_does_not_take() -> None:
    """Three wrong values of each key."""
    read = read_yaml(WHOLE, "file").data
    options = keys(SYSTEMS["esa"].option_model, read["system"], ("system",))
    found = {path: kind for path, kind in (*keys(ExperimentFile, read), *options)}
    del found["system", "name"]  # a name alone is a system, too
    assert len(found) > 300
    for path, kind in found.items():
        place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)[1:]
        for value in random.Random(place).sample(WRONG, 3):
            try:
                kind.parse(value)
                continue
            except FieldError as error:
                expected = f" {place}: found {error.found}; allowed: {error.allowed}"
            data = at = deepcopy(read)
            for each in path[:-1]:
                at = at[each] if isinstance(each, int) else at.setdefault(each, {})
            at[path[-1]] = value
            said = message(write_yaml(data))
            assert expected in said and ("1 error in" in said or ": missing; " in said)


def test_all_errors_come_at_once_in_the_order_of_the_file() -> None:
    text = BASE.replace("hosts: 10", "hosts: 9").replace("100 Mbit/s", "100").replace("128", "0")
    text = text.replace("name: base", "nme: base").replace("workers: 4", "workers: 40")
    lines = message(text).split("\n")
    assert lines[0] == "file.yaml: 4 errors in the experiment"
    assert [line.split(",")[0] for line in lines[1:]] == [
        *("  line 1", "  line 4", "  line 7", "  line 8")
    ]
    assert "found 43 workers and 2 parameter servers" in lines[4]


def test_a_misspelt_key_does_not_hide_errors_of_the_right_one() -> None:
    text = message(changed("workers: 4", "workers: 0, worker: 4"))
    assert "2 errors" in text and "jobs[0].workers: found 0" in text


def test_an_error_in_one_section_leaves_the_others_checked() -> None:
    text = changed("window: 64", "windw: 64").replace("aggregators: 128", "size: 1 B")
    text = text.replace("workers: 4", "workers: 40").replace("delay: 10 us", "jitter: 1 us")
    found = message(text)
    for part in ("3 errors", "links.jitter", "system.windw", "together 45 roles"):
        assert part in found
    # The size of an aggregator depends on the system, so that is not judged here.
    assert "memory" not in found


def test_hundreds_of_errors_are_cut() -> None:
    text = message(BASE + "".join(f"key{number}: 1\n" for number in range(200)))
    assert "200 errors" in text and text.endswith("... and 180 more") and text.count("\n") == 21


@pytest.mark.parametrize("text", ("", "\n\n", "# nothing\n", "---\n"))
def test_empty(text: str) -> None:
    assert "empty" in message(text) or "nothing is written" in message(text)


@pytest.mark.parametrize("text", ("just words", "[1, 2]", "5", "true"))
def test_not_a_mapping(text: str) -> None:
    assert "allowed: keys and values, such as `seed: 1`" in message(text)


def test_deep_nesting_and_alias_bombs_end_quickly() -> None:
    assert "nested too deeply" in message("a: " + "[" * 5000)
    bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    assert "more than 500000 values" in message(bomb)
    chain = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 600))
    assert "nested deeper than 100 levels (aliases counted in full)" in message(chain)


def test_an_experiment_of_the_testbed_is_found_from_elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        load("experiments/quickstart.yaml")
    place = str(caught.value).rpartition("the testbed's own is ")[2]
    assert load(Path(place)).name == "quickstart"


def test_unreadable_files(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        with pytest.raises(UserError) as caught:
            load(path)
        return str(caught.value)

    (tmp_path / "quickstart.yaml").write_text(BASE)
    assert refused(tmp_path / "quikstart.yaml").endswith(
        "no such experiment file; did you mean quickstart.yaml?"
    )
    assert "this is a folder" in refused(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert "not UTF-8 text (byte 128)" in refused(tmp_path / "binary")
    (tmp_path / "zeros").write_bytes(b"name: a\0b")
    assert "not a text file: character 0x00 at position 7" in refused(tmp_path / "zeros")
    (tmp_path / "large").write_bytes(b"#" * (5 * 2**20))
    assert "larger than 4 MiB" in refused(tmp_path / "large")
    assert "it is a device, FIFO or socket" in refused(Path("/dev/null"))
    assert "no such experiment file" in refused(tmp_path / ("x" * 300))
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert load(tmp_path / "bom.yaml").name == "base"


def test_an_invalid_system_with_too_few_hosts_is_an_error_message(tmp_path):
    text = BASE.replace("{name: esa, window: 64}", "{name: ps, servers: many}")
    placed = "{workers: [h1, h2, h3, h4], ps: [h5, h6, h7]}"
    text = text.replace("scale: 0.01}", f"scale: 0.01, placement: {placed}}}")
    said = message(text, tmp_path)
    assert "system.servers: found 'many'; allowed: a whole number" in said
