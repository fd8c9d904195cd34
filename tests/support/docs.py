"""The commands that the docs show, and what runs each of them.

A command is run by `tests/switch/docs/test_commands.py` itself where that is quick, with small
files in the place of those that a reader has; a text names the test that runs it elsewhere, with
smaller numbers where it is long. A command in the docs that nothing here knows fails the test.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.support.paths import ROOT

# An experiment that takes the place of a reader's.
SMALL = """
name: small
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 1 Gbit/s}
system: esa
memory: {aggregators: 16}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.00005, compute_scale: 0}
"""
_ANY = r"\./|python|\.venv/bin/|tshark|p4c-bm2-ss|pip |mkdocs|ina |cd |podman "
_FENCED = re.compile(rf"(?P<text>(?:sudo )?(?:{_ANY}).*)")
_COMMAND = re.compile(rf" {{4}}\s*(?:\$ )?{_FENCED.pattern}")


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, without `sudo` and remarks."""

    place: str
    line: int
    text: str


@dataclass(frozen=True)
class Run:
    """Run it here: `words` are the arguments of `ina`, with {small}, {run}, ... for files; `code`
    is its exit code."""

    words: str
    slow: bool = False
    code: int = 0


@dataclass(frozen=True)
class Module:
    """Run it here: the words behind `python -m`."""

    words: str
    slow: bool = False


How = Run | Module | str  # a text: file and function of the test that runs it elsewhere

_SET_UP = "tests/unit/repository/test_set_up.py::test_what_is_missing_is_set_up_and_nothing_else"
_PYTEST = "tests/unit/repository/test_set_up.py::test_arguments_go_to_pytest_as_they_are"
_IMAGE = (
    "tests/unit/repository/test_set_up.py::test_the_image_is_set_up_by_the_same_script_as_a_machine"
)
_TOUR = (
    "tests/switch/docs/test_made_pages.py"
    "::test_a_reader_gets_through_and_reads_what_the_tour_prints"
)
_FIGURE = "tests/switch/sweeps/test_figures.py::test_a_figure_is_made_at_small_scale"
_REPRODUCED = (
    "tests/switch/artifacts/test_reproduce.py::test_the_quick_check_runs_figures_and_compares_them"
)
_EMULATED = "tests/network/emulate/test_mininet_run.py::test_a_run_leaves_complete_results"
_PROGRAMS = "tests/network/emulate/test_programs.py::test_sums_are_right_beside_a_job_that_replays"
_TWICE = (
    "tests/network/emulate/test_training_examples.py"
    "::test_the_same_training_twice_has_the_same_bits_where_no_order_counts"
)
_EXAMPLES = "tests/network/emulate/test_training_examples.py::test_an_example_reaches_its_mark"
_PARALLEL = (
    "tests/network/emulate/test_training_examples.py"
    "::test_parallel_training_learns_and_each_group_is_aggregated"
)
_TRAINING = (
    "tests/network/emulate/test_training.py::test_weights_are_those_of_the_same_sums_over_gloo"
)
_RECORD = "tests/network/emulate/test_record.py::test_a_program_is_recorded_and_replayed_on_mininet"
_CAPTURE = "tests/network/emulate/test_trains.py::test_captures_and_counters_see_packets"
_PROMPT = (
    "tests/network/emulate/test_prompt.py"
    "::test_a_run_waits_at_its_prompt_and_is_looked_into_from_another_shell"
)
_FIRST = "tests/unit/cli/test_first_steps.py::test_a_first_file_is_sound_for_every_system"
_NETFILE = (
    "p4fabric/tests/network/test_network_run.py"
    "::test_a_network_comes_up_and_its_checks_are_reported"
)
_GRADE = "labs/tests/switch/test_grading.py::test_the_solution_gets_full_points"
_SERVED = "tests/network/network/test_p4runtime.py::test_a_finsy_controller_learns_its_hosts"
_CALLED = "p4engine/tests/switch/test_control.py::test_calls_reach_the_switch"
_TRACED = "p4engine/tests/switch/test_p4_trace.py::test_control_calls_of_a_running_switch"
_WHEEL = "p4engine/tests/unit/test_packaging.py::test_the_wheel_works_by_itself"
_NETWORKS_BY_THEMSELVES = (
    "tests/switch/packages/test_wheels.py::test_the_tests_of_networks_stand_by_themselves"
)
_BY_ITSELF = "p4engine/tests/unit/test_packaging.py::test_the_tests_stand_by_themselves"
_PLUGIN = "tests/switch/packages/test_plugins.py::test_its_experiment_runs_and_every_value_is_right"
_TORCH = "tests/unit/tools/test_generate.py::test_generated_equals_shipped"
_SLURM = "tests/switch/sweeps/test_slurm_jobs.py::test_a_sweep_runs_as_jobs_and_goes_on"
_DASK = "tests/switch/sweeps/test_dask_cluster.py::test_a_worker_that_is_killed_costs_no_point"
_CLASS = (
    "labs/tests/unit/classes/test_classroom.py::test_everybody_in_the_roster_has_a_row_in_every_lab"
)
_CLASS_AGAIN = (
    "labs/tests/unit/classes/test_classroom.py::test_a_grading_again_shows_old_against_new"
)
_CLASS_TABLES = (
    "labs/tests/unit/classes/test_sheets.py::test_a_class_begins_with_a_table_of_a_platform"
)
_LAB_MUTANTS = "labs/tests/unit/test_lab_mutants.py::test_a_campaign_goes_on"
_CHAOS = "tests/network/emulate/test_chaos.py::test_an_event_breaks_no_invariant"
_BENCH = "tests/network/bench/test_bench.py::test_runs"
_BMV2 = "tests/bmv2/test_differential.py::test_both_switches_agree"

# The first pattern that fits the whole command counts.
COMMANDS: tuple[tuple[str, How], ...] = (
    (r"\./demo", _SET_UP),
    (r"\./test", _SET_UP),
    (r"\./test .+", _PYTEST),
    (r"podman (build -t ina-testbed \.|run --rm (--privileged|ina-testbed) .+)", _IMAGE),
    (r"RUN experiments/quickstart\.yaml( --details)?", _EMULATED),
    (
        r"RUN experiments/quickstart\.yaml \S+=.*",
        Run("{small} --no-report system=atp memory.aggregators=8 --results {results}"),
    ),
    (r"RUN check experiments/quickstart\.yaml .+=.*", Run("check {small} jobs[*].scale=0.0001")),
    (r"RUN ls( \S+| --tag \w+)*", Run("ls {folder}")),
    (r"RUN tag \w+ \S+", Run("tag baseline {run}")),
    (r"RUN diff \S+\.yaml \S+", Run("diff {small} {run}")),
    (r"RUN diff \S+ \S+", Run("diff {run} {other}")),
    (r"RUN experiments/(sum-arrays|train_digits)\.yaml", _PROGRAMS),
    (r"RUN experiments/train_(text|clicks|jax)\.yaml", _EXAMPLES),
    (r"RUN experiments/train_twice\.yaml", _TWICE),
    (r"RUN experiments/train_(mesh|servers|sharded|experts|pipeline)\.yaml", _PARALLEL),
    (r"RUN record (FILE|experiments/train_\w+\.yaml) -o \w+\.npz( --steps \d+)?", _RECORD),
    (
        r"RUN (record (FILE|experiments/train_\w+\.yaml) -o \w+\.et|recording RUN\.et)",
        (
            "tests/network/emulate/test_record.py"
            "::test_all_groups_of_a_program_are_recorded_and_replayed"
        ),
    ),
    (
        r"RUN recording (FILE|traffic/\S+\.npz( --figure errors\.pdf)?)",
        Run("recording traffic/recordings/train_clicks.npz"),
    ),
    (
        r"RUN experiments/replay-clicks\.yaml",
        "tests/switch/simulate/test_recordings.py::test_the_shipped_one_is_replayed",
    ),
    (
        r"RUN sweep experiments/replay-formats\.yaml",
        (
            "tests/switch/simulate/test_recordings.py"
            "::test_formats_need_as_many_bytes_as_the_recording_says"
        ),
    ),
    (
        r"PYTHON ina_recorder\.py join run\.npz",
        "tests/unit/collective/test_ina_recorder.py::test_parts_become_one_recording",
    ),
    (
        r"PYTHON ina_recorder\.py join run\.et",
        "tests/unit/traffic/test_chakra.py::test_the_recorder_joins_the_groups_of_the_ranks",
    ),
    (r"pip install \./examples/plugin", _PLUGIN),
    (r"RUN run examples/plugin/experiment\.yaml", _PLUGIN),
    (
        r"RUN --version",
        "tests/switch/packages/test_plugins.py::test_the_version_lists_what_was_found",
    ),
    (r"RUN (FILE|\S+\.yaml)( --pcap \S+)+", _CAPTURE),
    (r"RUN trace results/second-2\* --slowest 1|RUN report results/second-2\* --details", _TOUR),
    (
        r"RUN report results/<run> --perfetto",
        (
            "tests/switch/simulate/test_perfetto.py"
            "::test_workers_switches_faults_and_flows_are_processes"
        ),
    ),
    (
        r"RUN trace results/<run> .+",
        "tests/switch/tracing/test_trace.py::test_as_text_with_a_picture",
    ),
    (r"RUN init .+", _FIRST),
    (r"RUN check mine\.yaml", Run("check {small}")),
    (r"RUN mine\.yaml", Run("{small} --results {results}", slow=True)),
    (r"RUN schema (experiment )?-o \S+", Run("schema experiment -o {results}")),
    (
        r"RUN completion bash > \S+",
        "tests/unit/cli/test_first_steps.py::test_bash_completes_commands_and_options",
    ),
    (
        r"RUN ((check |sweep |report )?(first|memory|learning)\.yaml|report results/\S+ results/\S+"
        r"|report results/memory --json > \S+|show results/memory|verify memory\.ina\.zip)",
        _TOUR,
    ),
    (r"pip install shtab", _TOUR),
    (r"RUN (FILE|live\.yaml) --cli( before| after)?( --web)?", _PROMPT),
    (
        r"RUN (pack \S+|verify NAME\.ina\.zip)",
        "tests/switch/artifacts/test_verify.py::test_a_run_in_virtual_time_is_the_same_elsewhere",
    ),
    (
        r"RUN verify --laws results/\S+",
        (
            "tests/switch/analysis/test_laws.py"
            "::test_the_command_names_what_holds_and_what_is_broken"
        ),
    ),
    (
        r"RUN FILE --web( stay)?",
        "tests/network/emulate/test_live_page.py::test_a_reader_sees_what_the_results_say",
    ),
    (r"RUN ps", _PROMPT),
    (r"RUN (exec|logs|switch) .+", _PROMPT),
    (r"RUN FILE --no-report", Run("{small} --results {results} --no-report")),
    (r"RUN FILE", Run("{small} --results {results}", slow=True)),
    (r"RUN check FILE", Run("check {small}")),
    (r"RUN show FILE", Run("show {small}")),
    (r"RUN show experiments/\w+\.yaml", Run("show experiments/quickstart.yaml")),
    (r"RUN report RESULTS\.\.\.", Run("report {run}", slow=True)),
    # 1: made-up results are not those of virtual time
    (
        r"RUN twin (RESULTS|results/live-2\*)",
        Run("twin {real} --results {results}", slow=True, code=1),
    ),
    (
        r"RUN report results/<name> --column 1",
        "tests/unit/analysis/test_sweep_figures.py::test_figures_fit_the_columns_of_a_paper",
    ),
    (r"RUN report results/<run>", Run("report {run}", slow=True)),
    (r"RUN report results/<run> results/<another> \.\.\.", Run("report {run} {other}", slow=True)),
    (
        r"RUN doctor",
        "tests/network/machine/test_doctor.py::test_it_finds_what_these_tests_need",
    ),
    (
        r"RUN clean",
        "tests/network/network/test_clean.py::test_clean_leaves_a_live_run_alone",
    ),
    (
        r"RUN (sweep )?experiments/[\w-]+\.yaml",
        "tests/switch/sweeps/test_sweep_runner.py::test_a_sweep_resumes",
    ),
    (r"RUN sweep experiments/figures/formats\.yaml( jobs\[0\]\.\w+=\S+)+", _FIGURE),
    (r"RUN figure", Run("figure")),
    (r"RUN reproduce", Run("reproduce")),
    (r"RUN reproduce (\w+|--kick-the-tires)", _REPRODUCED),
    (r"RUN figure (?P<figure>\w+)( --quick| --scale [\d.]+| --seeds \d+)*", _FIGURE),
    (
        r"RUN figure grid-\w+( --quick)?",
        "tests/unit/sweeps/test_planner_figures.py::test_a_figure_is_made_by_its_command",
    ),
    (
        r"RUN plan topos/graphs/grid-example\.txt.* --figure \S+",
        "tests/unit/cli/test_plan_command.py::test_the_command_writes_a_picture",
    ),
    (
        r"RUN plan experiments/trees\.yaml",
        Run("plan experiments/trees.yaml"),
    ),
    (
        r"RUN plan (topos/graphs/grid-example\.txt|FILE).*",
        Run("plan topos/graphs/grid-example.txt --planner nearest --json"),
    ),
    (
        r"RUN perf all_reduce --ranks 8 --sizes 1K:64M:2 --system \S+ --figure \S+\.pdf",
        "tests/switch/sweeps/test_collective_perf.py::test_columns_and_json_say_the_same",
    ),
    (
        r"RUN perf all_reduce --costs .+",
        "tests/switch/simulate/test_costs.py::test_closed_forms_of_nccl_come_out_of_runs",
    ),
    (
        r"RUN workload \S+\.yaml --figure \S+\.pdf",
        "tests/unit/cli/test_program_commands.py::test_a_rank_is_drawn_and_the_program_written",
    ),
    (
        r"RUN workload \S+\.txt( --\w+ ('[^']+'|\S+))*",
        (
            "tests/unit/cli/test_program_commands.py"
            "::test_a_workload_file_is_shown_on_links_of_a_rate"
        ),
    ),
    (
        r"RUN import \S+\.(txt|et)( --(stage|replicas|scale) \S+)*( -o \S+\.et)?",
        "tests/unit/cli/test_program_commands.py::test_a_workload_is_imported_as_traces",
    ),
    (
        r"RUN import \S+\.json( --program \S+)?",
        "tests/switch/netfile/test_ina_on_networks.py::test_a_topology_is_imported_and_runs",
    ),
    (
        r"RUN check basic\.yaml",
        "tests/switch/netfile/test_ina_on_networks.py::test_commands_know_network_files",
    ),
    (
        r"PYTHON examples/published/make_network\.py .+|RUN switchml\.yaml",
        "p4fabric/tests/switch/test_published.py::test_the_printed_file_is_a_sound_network_file",
    ),
    (
        r"RUN examples/incast/incast\.yaml( --json --no-report| --pcap s1:3)?",
        (
            "tests/switch/netfile/test_ina_on_networks.py"
            "::test_the_example_of_the_docs_is_that_of_the_folder_and_runs"
        ),
    ),
    (
        r"RUN import topology\.json( --virtual)?",
        "p4fabric/tests/switch/test_virtual_networks.py::test_a_topology_of_the_tutorials_runs",
    ),
    (r"RUN basic\.yaml( --cli)?", _NETFILE),
    (
        r"\.venv/bin/mkdocs (build|serve)",
        "tests/switch/docs/test_site.py::test_the_site_is_built_and_no_link_is_broken",
    ),
    (
        r"tshark -X lua_script:tools/wireshark/ina\.lua -r \S+",
        "tests/unit/network/test_dissector.py::test_the_list_of_packets_says_what_each_is",
    ),
    (r"p4c-bm2-ss .+", _BMV2),
    (r"MODULE tests\.bmv2.*", _BMV2),
    (r"MODULE labs mutants \d+ --results \S+", _LAB_MUTANTS),
    (r"MODULE tests\.support\.chaos( --\w+ \S+)+", _CHAOS),
    (
        r"MODULE tests\.support\.broken_files \d+ --seed \d+( --guided)?",
        "tests/switch/test_broken_files.py::test_files_that_coverage_leads_are_read_or_refused",
    ),
    (r"MODULE bench soak(_virtual)?( --\w+ \S+)*", _BENCH),
    (r"pip install '\.\[traces\]'", _TORCH),
    (r"pip install '\.\[torch\]'", _TRAINING),
    (r"pip install '\.\[jax\]'", _EXAMPLES),
    (r"MODULE tools\.models\.generate .+", _TORCH),
    (r"MODULE tools\.models\.page", Module("tools.models.page")),
    (
        r"MODULE tools\.expected_paths",
        "tests/switch/simulate/test_paths.py::test_the_expected_row_is_as_measured",
    ),
    (
        r"MODULE tools\.expected_costs --write",
        "tests/switch/simulate/test_costs.py::test_closed_forms_of_nccl_come_out_of_runs",
    ),
    (r"MODULE labs list", Module("labs list")),
    (r"MODULE labs\.lab19_floats\.orders( \d+)+", Module("labs.lab19_floats.orders 256 1 1")),
    (
        r"MODULE labs mark \S+( --course \S+| --csv \S+| --json \S+| --jobs \d+)*",
        "labs/tests/unit/test_course.py::test_a_course_has_points_deadlines_and_a_secret",
    ),
    (
        r"MODULE labs grade \d+ \S+ --secret \S+ --student \S+ --json \S+",
        "labs/tests/switch/test_commands.py::test_gradescope_gets_a_score_per_test",
    ),
    (r"MODULE labs class new \S+ --from \S+", _CLASS_TABLES),
    (r"MODULE labs class mark \S+ --jobs \d+", _CLASS),
    (r"MODULE labs class again \S+ --student \S+ --lab \d+ --test \S+ --compare", _CLASS_AGAIN),
    (
        r"MODULE labs league \S+ --secret \S+",
        "labs/tests/switch/test_commands.py::test_a_league_orders_by_score",
    ),
    (
        r"MODULE labs pairs \S+ --secret \S+",
        "labs/tests/switch/test_later_labs.py::test_parts_of_a_class_meet",
    ),
    (
        r"MODULE labs export --with-teacher (FOLDER|kit)",
        "labs/tests/switch/test_commands.py::test_a_kit_for_an_autograder_is_whole",
    ),
    (
        r"MODULE labs\.(_teacher\.rehearse|tests\.support\.rehearsal) .+",
        "labs/tests/switch/test_judgement.py::test_a_class_has_the_same_marks_on_a_busy_machine",
    ),
    (
        r"MODULE labs jplag \S+ \S+",
        ("labs/tests/unit/test_course.py::test_jplag_gets_submissions_and_what_all_have_in_common"),
    ),
    (
        r"MODULE labs solutions \S+",
        "labs/tests/unit/test_course.py::test_solutions_in_a_published_repository_are_warned_of",
    ),
    (r"MODULE labs start \d+ \w+( --student \w+)?", Module("labs start 2 {new}")),
    (
        r"MODULE labs grade \d \w+ --network",
        "labs/tests/network/test_grading.py::test_the_solution_gets_full_points_over_real_links",
    ),
    (
        r"MODULE labs grade \d \w+ --already-isolated",
        (
            "labs/tests/network/test_already_isolated.py"
            "::test_gradescope_gets_a_mark_where_namespaces_are_refused"
        ),
    ),
    (r"MODULE labs grade \d+ \w+( --trace| --seed \d+)?", _GRADE),
    (r"pip install '?\./p4engine.*", _WHEEL),
    (r"pip install distributed", _DASK),
    (r"RUN sweep \S+ --dask \S+ --results \S+", _DASK),
    (
        r"MODULE tools\.models\.measure \w+ > \S+\.csv",
        "tests/unit/tools/test_measure.py::test_without_a_gpu_nothing_is_measured",
    ),
    (r"pip install submitit", _SLURM),
    (
        r"RUN mine\.yaml -v",
        "tests/switch/cli/test_main.py::test_a_log_has_the_steps_and_in_detail_more",
    ),
    (r"RUN sweep \S+ runtime=virtual --slurm \S+ --results \S+", _SLURM),
    (
        r"RUN sweep \S+ --points \S+ --results \S+",
        (
            "tests/switch/sweeps/test_sweep_runner.py"
            "::test_parts_of_a_sweep_run_apart_into_one_folder"
        ),
    ),
    (
        r"RUN sweep experiments/best\.yaml --robust \d+",
        (
            "tests/switch/sweeps/test_robustness.py"
            "::test_further_runs_are_found_again_and_shown_everywhere"
        ),
    ),
    (r"cd p4engine && python -m pytest", _BY_ITSELF),
    (r"cd p4fabric && python -m pytest", _NETWORKS_BY_THEMSELVES),
    (r"apt-get install mininet gcc libc6-dev", _SET_UP),
    (r"MODULE p4engine compile PROGRAM\.p4", _WHEEL),
    (
        r"MODULE p4engine p4info .+",
        "p4engine/tests/unit/test_p4info.py::test_text_and_binary",
    ),
    (
        r"MODULE p4engine shims .+",
        "p4engine/tests/switch/test_shims.py::test_the_files_are_known_as_stand_ins",
    ),
    (
        r"MODULE p4engine trace .+",
        "p4engine/tests/switch/test_p4_trace.py::test_command_line",
    ),
    (
        r"MODULE p4engine fit .+",
        "p4engine/tests/unit/test_fit.py::test_sizes_are_those_of_the_declarations",
    ),
    (
        r"MODULE p4engine stf .+",
        "p4engine/tests/switch/test_p4_stf.py::test_command_line",
    ),
    (
        r"MODULE p4engine switch .*--trace .*",
        (
            "p4engine/tests/network/test_switch_veth.py"
            "::test_forwards_between_two_veths_and_stops_cleanly"
        ),
    ),
    (
        r"MODULE p4engine switch [^\\]+",
        (
            "p4engine/tests/network/test_switch_veth.py"
            "::test_forwards_between_two_veths_and_stops_cleanly"
        ),
    ),
    (r"MODULE p4engine switch .*\\", _SERVED),
    (r"MODULE p4engine call switch\.sock trace.*", _TRACED),
    (r"MODULE p4engine call switch\.sock .+", _CALLED),
    (r"PYTHON examples/learning\.py", _SERVED),
    (
        r"PYTHON examples/course/levels\.py",
        (
            "p4fabric/tests/network/test_course.py"
            "::test_all_levels_pass_and_each_rank_leaves_its_sums"
        ),
    ),
    (
        r"pip install ptf",
        (
            "p4fabric/tests/switch/test_ptf_platform.py"
            "::test_the_example_passes_the_public_and_the_hidden_tests"
        ),
    ),
    (
        r"PYTHON examples/two_switches\.py",
        "tests/network/network/test_p4runtime.py::test_two_switches_in_an_ordinary_script",
    ),
    (
        r"MODULE p4runtime_sh .+",
        (
            "p4engine/tests/switch/test_p4runtime.py"
            "::test_an_entry_is_inserted_used_modified_read_and_deleted"
        ),
    ),
)


def site_hooks() -> ModuleType:
    """tools/site/hooks.py, which is no package."""
    place = ROOT / "tools" / "site"
    spec = importlib.util.spec_from_file_location("site_hooks", place / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(place))  # as MkDocs does
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(place))
    return module


def shown() -> list[Shown]:
    """Every command in a block of code of a page of the site."""
    found = []
    for place in site_hooks().places():
        fence = ""
        for number, line in enumerate((ROOT / place).read_text().splitlines(), 1):
            mark = line.lstrip()[:3]
            if mark in ("```", "~~~"):
                fence = "" if fence else line.strip().strip("`~") or "text"
                continue
            if fence and fence not in ("text", "sh", "bash", "console", "shell"):
                continue
            match = (_FENCED if fence else _COMMAND).match(line)
            if match:
                found.append(Shown(place, number, plain(match["text"])))
    return found


def plain(text: str) -> str:
    """A command without `sudo`, remarks, and how its Python is called."""
    text = re.sub(r"\s+#.*$", "", text).removeprefix("sudo ").strip()
    text = re.sub(r"^((\.venv/bin/)?python3? run\.py|ina)(?= |$)", "RUN", text)
    text = re.sub(r"^(\.venv/bin/)?python3? -m", "MODULE", text)
    return re.sub(r"^(\.venv/bin/)?python3?(?= )", "PYTHON", text)


def how(command: str) -> tuple[str, How] | None:
    """The entry of COMMANDS that fits."""
    return next((entry for entry in COMMANDS if re.fullmatch(entry[0], command)), None)


def words(text: str, files: dict[str, Path]) -> list[str]:
    """Arguments with files in their places."""
    return [word.format(**files) for word in shlex.split(text)]
