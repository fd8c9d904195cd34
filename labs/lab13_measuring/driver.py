"""Runs experiments for lab 13's checks, in a process of its own: JSON in, JSON out.

    {"experiment": TEXT, "setting": {...}}  ->  points, figure, rows
    {"answers": TEXT}  ->  answers, mistake

A file's keys and words are looked at (allowed.py) before the testbed sees it, and its size before
it is run. The limit on processor time begins when the hosts' protocols have been loaded, since a
new version of them is compiled first.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from types import FrameType
from typing import Any

import yaml
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.kernel import die_with_parent

from labs.lab13_measuring import allowed

LIMIT_S, CLOCK = 60, 20  # of processor time, and so many times as long on the clock
DEEPEST = 20
LARGER = 3  # times as much work as the setting's
WARM = 3000  # seed of the run that loads everything


class TooLong(Exception):
    """The processor time is used up."""


class Busy(Exception):
    """The time on the clock is over, and the processor time is not."""


def _mapping(text: str, file: str) -> Any:
    """The data of a YAML file. Raises UserError."""
    from p4fabric.base.config.problems import ExperimentError
    from p4fabric.base.config.yaml_document import read_yaml

    if len(text.encode()) > allowed.LARGEST_BYTES:
        raise UserError(f"{file} is larger than {allowed.LARGEST_BYTES >> 10} KB")
    _plain(text, file)
    document = read_yaml(text, file)
    if document.problems:
        raise ExperimentError(file, document.problems)
    return document


def _plain(text: str, file: str) -> None:
    """Raises UserError for a file that is deep, or that becomes large by aliases (*name)."""
    depth = 0
    try:
        for count, event in enumerate(yaml.parse(text, yaml.SafeLoader)):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise UserError(f"{file}: aliases (*{event.anchor}) are not for this lab")
            if depth > DEEPEST:
                raise UserError(f"{file} is nested too deeply")
            if count > 4 * allowed.MOST_VALUES:
                raise UserError(f"{file} has more than {allowed.MOST_VALUES} values")
    except yaml.YAMLError:
        pass  # the next parser names the line


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request; with `problem` where the file is at fault."""
    if "answers" in request:
        data, mistake = _answers(request["answers"])
        return {"answers": data, "mistake": mistake}
    try:
        return _experiment(request)
    except (UserError, allowed.NotAllowed) as error:
        return {"problem": str(error)}
    except RunError as error:
        return {"problem": f"the experiment failed: {error}"}
    except TooLong:
        return {"problem": f"the experiment takes longer than {LIMIT_S} s of computing"}
    except Busy:
        return {"busy": f"not judged, run again: this machine was too busy ({CLOCK * LIMIT_S} s)"}


def _answers(text: str) -> tuple[Any, str]:
    """The data of answers.yaml, and what is wrong with the file."""
    if not text:
        return None, "answers.yaml is empty"
    try:
        return _finite(_mapping(text, "answers.yaml").data), ""
    except UserError as error:
        return None, str(error)


def _finite(data: Any) -> Any:
    """The data without numbers that JSON does not have."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _experiment(request: dict[str, Any]) -> dict[str, Any]:
    from testbed.experiment.sweep_file import has_sweep, sweep_of

    setting = request["setting"]
    document = _mapping(request["experiment"], "experiment.yaml")
    allowed.check(document.data)
    if not has_sweep(document):
        raise UserError("experiment.yaml compares nothing: it has no key sweep")
    if document.data.get("runtime") != "virtual":
        raise UserError("experiment.yaml: runtime is virtual in this lab")
    made = sweep_of(document, "experiment.yaml", "/", "experiment")
    own = sweep_of(_mapping(setting["text"], "setting"), "setting", "/", "setting")
    right = {_place(point): _compared(point.experiment) for point in own.points}
    most = max(_work(point.experiment) for point in own.points)
    points = []
    for point in made.points:
        found = _compared(point.experiment)
        want = right.get(_place(point))
        differs = [] if want is None else sorted(k for k in found if found[k] != want.get(k))
        points.append(
            {
                "system": point.experiment.system.name,
                "aggregators": _place(point)[1],
                "known": want is not None,
                "differs": differs,
                "repetitions": point.experiment.repetitions,
            }
        )
        if point.experiment.repetitions > setting["most_repetitions"]:
            raise UserError(f"there are at most {setting['most_repetitions']} repetitions")
        if _work(point.experiment) > LARGER * most:
            raise UserError("the jobs send much more than those of your setting")
    if len(points) > len(right):
        raise UserError(f"the sweep has {len(points)} points; your setting has {len(right)}")
    figure = made.figure
    result: dict[str, Any] = {"points": points, "figure": None, "rows": []}
    if figure is not None:
        result["figure"] = {
            "claim": figure.claim,
            "x": figure.x,
            "panels": list(figure.panels),
            "against": figure.against,
        }
    base = [p for p in points if p["system"] == setting["systems"][0] and p["known"]]
    if base and not any(p["differs"] for p in base):  # else it is no experiment of this student's
        result["rows"] = _rows([point.experiment for point in made.points])
    return result


def _place(point: Any) -> tuple[str, int]:
    experiment = point.experiment
    return experiment.system.name, experiment.aggregators


def _compared(experiment: Any) -> dict[str, Any]:
    """An experiment by its keys, but for what a student chooses."""
    from p4fabric.base.config.yaml_document import read_yaml

    data = read_yaml(experiment.resolved_yaml(), "resolved").data
    return {k: v for k, v in data.items() if k not in ("name", "seed", "repetitions", "timeout")}


def _work(experiment: Any) -> int:
    """Gradients that all workers send in a repetition."""
    return sum(
        job.workers * job.iterations * job.trace().fragments(experiment.values_per_packet)
        for job in experiment.jobs
    )


def _rows(experiments: list[Any]) -> list[dict[str, Any]]:
    """A row for each repetition of each experiment."""
    from testbed.run_parts.program import prepare
    from testbed.schemes import set_up
    from testbed.simulate.virtual_run import run_repetition

    programs = [prepare(set_up(experiment)).compiled for experiment in experiments]
    for experiment in {each.system.name: each for each in experiments}.values():
        warm = experiment.model_copy(update={"seed": WARM})
        run_repetition(set_up(warm), programs[experiments.index(experiment)])
    _limit()
    rows = []
    for experiment, program in zip(experiments, programs, strict=True):
        for number in range(experiment.repetitions):
            jobs = run_repetition(set_up(experiment, number), program)["jobs"]
            fragments = sum(job["fragments"] * job["iterations"] for job in jobs)
            rows.append(
                {
                    "system": experiment.system.name,
                    "aggregators": experiment.aggregators,
                    "repetition": number,
                    "jct_ns": sum(job["jct_ns"] for job in jobs) / len(jobs),
                    "ps_packets": sum(job["ps_packets"] or 0 for job in jobs) / fragments,
                    "retransmissions": sum(job["retransmissions"] for job in jobs) / fragments,
                    "computing": {job["name"]: job["compute_ns"] for job in jobs},
                    "sending": {job["name"]: job["communication_bound_ns"] for job in jobs},
                }
            )
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.alarm(0)
    return rows


def _limit() -> None:
    """Stop this process's work after its processor time."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TooLong if number == signal.SIGPROF else Busy

    signal.signal(signal.SIGPROF, over)
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    signal.alarm(CLOCK * LIMIT_S)


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    request = json.loads(sys.stdin.read())
    output = os.dup(1)
    os.dup2(2, 1)  # other output is no part of the answer
    text = json.dumps(answer(request))
    with open(output, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
