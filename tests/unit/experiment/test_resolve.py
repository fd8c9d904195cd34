"""Contents of a loaded experiment: links per direction, placements, memory, defaults."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.preprocessor.preprocess import preprocess

from testbed.cli.commands.check import check_command
from testbed.cli.commands.show import show_command
from testbed.experiment import load, load_text
from testbed.experiment.reference_page import reference
from testbed.experiment.sweep_file import is_sweep
from testbed.number_formats import FORMATS
from testbed.schemes import set_up
from testbed.systems import SYSTEMS
from testbed.traffic.trace import GPUS, load_trace
from tests.support.experiments import BASE, changed
from tests.support.paths import ROOT


def test_defaults_and_base_units() -> None:
    experiment = load_text(BASE)
    assert (experiment.seed, experiment.runtime, experiment.switch) == (1, "mininet", "embedded")
    assert (experiment.repetitions, experiment.timeout_ns) == (1, 20 * 10**9)
    assert (experiment.values_per_packet, experiment.memory.aggregators) == (64, 128)
    system = experiment.system
    assert (system.name, system.window, system.priority) == ("esa", 64, "esa")
    assert (system.reminder_delay_ns, system.timeout_ns, system.max_age_ns) == (None, None, 0)
    assert experiment.program == SYSTEMS["esa"].program
    first, second = experiment.jobs
    assert (first.name, second.name) == ("resnet50-0", "vgg16-1")
    assert (first.compute_scale, second.start_ns) == (0.01, 5_000_000)
    assert first.trace().values == round(0.01 * 25_557_032)
    assert set_up(experiment, 3).seed == 4


def test_links_per_direction() -> None:
    each = (
        "delay: 10 us\n  loss: 0.5 %\n  each:\n"
        "    - between: [s1, h2]\n      bandwidth: 5 Mbit/s\n"
        "      forward: {loss: 2 %}\n      backward: {delay: 0, bandwidth: unlimited}\n"
        "    - {between: [h3, s1], loss: 0}\n"
    )
    experiment = load_text(changed("delay: 10 us", each))
    there, back = experiment.directions[0]
    assert (there.source, there.target, there.bandwidth_bps, there.loss) == (
        *("h1", "s1", 10**8, 0.005),
    )
    there, back = experiment.directions[1]  # the topology has it as h2-s1
    assert (there.source, there.target, back.source, back.target) == ("h2", "s1", "s1", "h2")
    assert (back.loss, back.bandwidth_bps, back.delay_ns) == (0.02, 5_000_000, 10_000)
    assert (there.loss, there.bandwidth_bps, there.delay_ns) == (0.005, None, 0)
    assert [way.loss for way in experiment.directions[2]] == [0.0, 0.0]
    again = load_text(experiment.resolved_yaml())
    assert again == experiment
    assert [again.directions[n] for n in range(10)] == [experiment.directions[n] for n in range(10)]


def test_named_hosts_come_first_and_packed_jobs_take_the_rest() -> None:
    text = changed("start: 5 ms", "placement: {workers: [h2, h9, h4], ps: h1}")
    first, second = (job.fixed_placement for job in load_text(text).jobs)
    assert (first.workers, first.ps) == (("h3", "h5", "h6", "h7"), "h8")
    assert (second.workers, second.ps) == (("h2", "h9", "h4"), "h1")


def test_memory_by_size() -> None:
    experiment = load_text(changed("aggregators: 128", "size: 256 KiB"))
    assert experiment.memory.aggregators == 256 * 1024 // experiment.aggregator_bytes
    assert load_text(experiment.resolved_yaml()) == experiment


def test_a_wide_bitmap_costs_memory() -> None:
    text = changed("hosts: 10", "hosts: 60").replace("workers: 4", "workers: 40")
    wide = load_text(text)
    assert wide.bitmap_bits == 64
    assert wide.aggregator_bytes == load_text(BASE).aggregator_bytes + 4


def test_aggregator_bytes_are_those_of_the_p4_program() -> None:
    for system in (system for system in SYSTEMS.values() if system.memory):
        code = _preprocessed(system.program)
        sizes = r"(AGGREGATORS|\( AGGREGATORS / 2 \))"
        pattern = rf"register < (?:bit < (\d+) >|(\w+)) > \( {sizes} \) (\w+)"
        # A slot of SwitchML is two aggregators.
        registers = [
            (int(bits or 0), kind, 2 if size == "AGGREGATORS" else 1, name)
            for bits, kind, size, name in re.findall(pattern, code)
        ]
        assert sum(share for _, kind, share, _ in registers if kind == "bitmap_t") == 2
        assert sum(name.startswith("value") for *_, name in registers) == 64
        state = sum(
            bits * share for bits, _, share, name in registers if not name.startswith("value")
        )
        assert system.slot_bytes * 16 == state
        assert system.aggregator_bytes(64, 32) == system.slot_bytes + 4 + 256


@pytest.mark.parametrize("name", FORMATS)
def test_bits_of_sums_and_tables_are_those_of_the_p4_program(name) -> None:
    sums, packed = FORMATS[name], name == "int8"
    defines = {"VALUE_BITS": sums.bits, "ADDER": sums.adder, **({"PACKED": 1} if packed else {})}
    code = _preprocessed(SYSTEMS["switchml"].program, **defines)
    code = code.replace("exact_t", "bit < 288 >")
    found = r"register < bit < (\d+) > > \( AGGREGATORS \) (?:value|exponent|special)_\d"
    assert sum(map(int, re.findall(found, code))) == 64 * sums.sum_bits(packed)
    plain, own = (
        {*re.findall(r"table (\w+) \{.*?size = (\w+)", each)}
        for each in (_preprocessed(SYSTEMS["switchml"].program), code)
    )
    assert own == plain | ({("rounding", "256")} if sums.bits < 32 else set())


def test_memory_by_size_counts_the_bits_of_sums() -> None:
    base = changed("aggregators: 128", "size: 256 KiB")
    wide = load_text(base.replace("name: esa", "name: esa, sum: fpisa"))
    assert wide.aggregator_bytes == load_text(base).aggregator_bytes + 64
    assert wide.memory.aggregators == 256 * 1024 // wide.aggregator_bytes


def _preprocessed(program: Path, **more: object) -> str:
    """The program's text with the name AGGREGATORS left as it is."""
    defines = {"AGGREGATORS": "AGGREGATORS", **more}
    tokens, _ = preprocess(program, defines, (), Diagnostics())
    return " ".join(text for _, text, *_ in tokens)


def test_yaml_words_and_numbers_become_what_the_key_needs() -> None:
    text = changed("name: base", "name: on\nseed: 1e3")
    text = text.replace("window: 64", "downgrading: off, reminder: yes").replace("4, it", "+4, it")
    experiment = load_text(text)
    assert (experiment.name, experiment.seed) == ("on", 1000)
    assert (experiment.system.downgrading, experiment.system.reminder) == (False, True)
    assert load_text(experiment.resolved_yaml()) == experiment


@pytest.mark.parametrize("name", ("1e3", "007", "no", "true", "3.5", "1.0", "a.b-c_d", "null"))
def test_names_that_look_like_something_else_stay_text(name: str) -> None:
    experiment = load_text(changed("name: base", f'name: "{name}"'))
    assert experiment.name == name
    assert load_text(experiment.resolved_yaml()) == experiment


def test_aliases_work() -> None:
    text = changed("start: 5 ms", "start: &t 5 ms")
    assert load_text(text.replace("delay: 10 us", "delay: 10 us") + "timeout: 5 s\n")
    text = changed("delay: 10 us", "delay: &t 10 us\n  jitter: *t")
    assert load_text(text).links.jitter_ns == 10_000


def test_the_file_names_the_experiment(tmp_path: Path) -> None:
    file = tmp_path / "my first: try.yaml"
    file.write_text(changed("name: base", ""))
    assert load(file).name == "my-first-try"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "edited.p4").write_text("")
    shipped = SYSTEMS["esa"].program.parents[1] / "traffic" / "models" / "resnet50.csv"
    (tmp_path / "mine.csv").write_text(shipped.read_text())
    (tmp_path / "e.yaml").write_text(
        changed("window: 64", "program: edited.p4").replace("model: resnet50", "model: mine.csv")
    )
    experiment = load(tmp_path / "e.yaml")
    assert experiment.program == (tmp_path / "edited.p4").resolve()
    assert experiment.jobs[0].model == str(tmp_path / "mine.csv")
    assert load_text(experiment.resolved_yaml(), folder="/") == experiment


def test_times_of_different_hardware_are_warned_of() -> None:
    def of_hardware(text: str) -> list[str]:
        return [each for each in load_text(text).warnings if "hardware" in each]

    assert of_hardware(BASE) == []
    (warning,) = of_hardware(changed("model: vgg16", "model: smallcnn"))
    assert "smallcnn" in warning


def test_the_gpu_chooses_the_compute_times() -> None:
    assert load_text(BASE).gpu == "v100"
    times = {}
    for gpu in GPUS:
        experiment = load_text(f"gpu: {gpu}\n{BASE}")
        assert [job.gpu for job in experiment.jobs] == [gpu, gpu]
        models = ("resnet50", 0.01), ("vgg16", 0.001)
        expected = [load_trace(model, gpu=gpu).scaled(scale) for model, scale in models]
        assert [job.trace() for job in experiment.jobs] == expected
        assert load_text(experiment.resolved_yaml()) == experiment
        times[gpu] = experiment.jobs[0].trace().compute_ns
    assert len(set(times.values())) == len(GPUS)


def test_a_job_may_have_a_gpu_of_its_own() -> None:
    experiment = load_text(f"gpu: a100\n{changed('model: vgg16', 'model: vgg16, gpu: v100')}")
    assert [job.trace().gpu for job in experiment.jobs] == ["a100", "v100"]
    (warning,) = (each for each in experiment.warnings if "hardware" in each)
    assert "A100: resnet50; V100: vgg16" in warning
    again = load_text(experiment.resolved_yaml())
    assert again == experiment and again.jobs[1].trace() == experiment.jobs[1].trace()


def test_a_model_of_your_own_has_the_times_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text((ROOT / "tests" / "data" / "tiny.csv").read_text())
    text = changed("model: resnet50", f"model: {file}")
    for gpu in GPUS:
        experiment = load_text(f"gpu: {gpu}\n{text}")
        assert experiment.jobs[0].gpu is None and experiment.jobs[1].gpu == gpu
        assert load_text(experiment.resolved_yaml(), folder="/") == experiment


def test_limited_links_without_congestion_marks_are_warned_of() -> None:
    assert not any("ecn_threshold" in each for each in load_text(BASE).warnings)
    unmarked = load_text(changed("delay: 10 us", "ecn_threshold: none"))
    assert any("ecn_threshold" in each for each in unmarked.warnings)
    assert unmarked.directions[0][0].ecn_threshold_packets is None


def test_an_experiment_can_be_pickled_and_not_changed() -> None:
    experiment = load_text(BASE)
    copy = pickle.loads(pickle.dumps(experiment))
    assert copy == experiment and copy.directions[3] == experiment.directions[3]
    with pytest.raises(ValueError):
        experiment.seed = 2
    assert experiment != load_text(changed("name: base", "seed: 2"))


@pytest.mark.parametrize(
    "file", sorted((ROOT / "experiments").glob("*.yaml")), ids=lambda f: f.name
)
def test_shipped_experiments(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_command(file) == 0
    said = capsys.readouterr().out
    assert f"{file}: valid: " in said
    assert show_command(file) == 0
    shown = capsys.readouterr().out
    if is_sweep(file):
        (points,) = re.findall(r"valid: a sweep of (\d+) points", said)
        assert shown.count("\n") == 2 * int(points)
    else:
        assert load_text(shown, folder=file.parent) == load(file)


def test_the_quickstart_matches_its_description() -> None:
    quickstart = load(ROOT / "experiments" / "quickstart.yaml")
    servers = {job.fixed_placement.ps for job in quickstart.jobs}
    assert len(quickstart.jobs) >= 2 and len(servers) == len(quickstart.jobs)
    packets = sum(
        job.trace().fragments(quickstart.values_per_packet) * job.workers * job.iterations
        for job in quickstart.jobs
    )
    assert packets >= 200_000
    for index in range(len(quickstart.topology_object().links)):
        for way in quickstart.directions[index]:
            assert (way.delay_ns, way.jitter_ns, way.loss) == (0, 0, 0.0)


def test_the_reference_page_is_that_of_the_schema() -> None:
    page = (ROOT / "docs" / "experiment.md").read_text()
    remedy = "python -m testbed.experiment.reference_page > docs/experiment.md"
    assert page == reference(), f"out of date: {remedy}"


def test_the_example_of_the_reference_page_is_valid() -> None:
    example = re.search(r"```yaml\n(.*?)```", reference(), re.DOTALL)
    assert example and load_text(example[1]).jobs[0].workers == 4
