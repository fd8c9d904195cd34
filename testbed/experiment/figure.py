"""The key `figure` of a sweep's file: the drawing of the sweep, and its claim.

The declaration stands beside the sweep that it draws, so that a figure is one file: another one
needs no code, every report of the sweep draws it, and no list of names can be out of date.
This module also makes the larger and smaller versions of a file, which show how far a result
depends on the scale that was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from p4fabric.base.config.explain import explain
from p4fabric.base.config.fields import ANY_TEXT, HOUR, Choice, Flag, Number, Section
from p4fabric.base.config.problems import ExperimentError, Problem
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.units import TIME, FieldError, parse
from p4fabric.base.config.yaml_document import Document
from p4fabric.base.errors import UserError, did_you_mean, sentence
from pydantic import Field, TypeAdapter, ValidationError

from testbed.results.schema import FIGURE_MEASURES, DeclaredFigure

QUICK_REPETITIONS = 2
QUICK_ITERATIONS = 2
QUICK_JOBS = 40  # that are drawn


class Figure(Section):
    """The drawing of the sweep of a file with the key `sweep`. `ina figure NAME` runs and draws
    experiments/figures/NAME.yaml."""

    claim: Annotated[str, ANY_TEXT] = Field(
        description="The hypothesis of the figure, in one sentence.",
    )
    x: Annotated[str, ANY_TEXT] = Field(
        default="",
        description="The varied key on the x axis; for lists of jobs, the axis shows the number"
        " of jobs; other values that are not numbers are categories. Without `x` each point is a"
        " bar.",
        json_schema_extra={"default": "none"},
    )
    x_label: Annotated[str, ANY_TEXT] = Field(
        default="",
        description="The label of the x axis.",
        json_schema_extra={"default": "the key in words"},
    )
    rows: tuple[Annotated[str, ANY_TEXT], ...] = Field(
        default=(),
        description="Varied keys: the figure is a map with a row for each combination of their"
        " values and a column for each value of `x`. A cell has the fastest of all series, or how"
        " many are within 1 % of it, and how many times as long the best one without aggregation"
        " in switches takes as the best one with it. It replaces the panels.",
        max_length=4,
        json_schema_extra={"default": "none"},
    )
    each: Annotated[str, ANY_TEXT] = Field(
        default="",
        description="The varied key of which each value has a map of its own.",
        json_schema_extra={"default": "none"},
    )
    panels: tuple[Annotated[str, Choice(FIGURE_MEASURES)], ...] = Field(
        default=DeclaredFigure.panels,
        description="One to eight measures, from left to right, four in a row; `jct_ratio` is"
        " the average JCT over that of `against` with the same value of x and the same seed,"
        " `jct_communicating` the JCT of the jobs with more communication than computation,"
        " `jct_computing` that of the others. `jct_short`, `jct_medium` and `jct_long` are for"
        " length classes, which divide the range from the shortest to the longest job at equal"
        " ratios; `jct_p99`, `jct_p99_short` and so on are 99th percentiles. A job's length is"
        " its computation plus the bound of its communication.",
        min_length=1,
        max_length=8,
        json_schema_extra={"default": "[ps_packets_per_fragment, jct]"},
    )
    against: Annotated[str, ANY_TEXT] = Field(
        default=DeclaredFigure.against,
        description="The reference series of `jct_ratio`, by its name in the legend.",
    )
    occupancy: Annotated[bool, Flag()] = Field(
        default=False,
        description="Adds a second figure, NAME-over-time, with filling, held and free"
        " aggregators over time, one panel per point of the sweep.",
    )
    reported: tuple[Annotated[str, ANY_TEXT], ...] = Field(
        default=(),
        description="Measures that programs report, such as `loss`: adds a figure,"
        " NAME-reported, with each program's values over time and the last value.",
        max_length=4,
        json_schema_extra={"default": "none"},
    )
    quick: Annotated[float, Number(0, 1, with_low=False)] = Field(
        default=0.05,
        description="The scale of `ina figure NAME --quick`, which is also limited to"
        f" {QUICK_REPETITIONS} repetitions of {QUICK_ITERATIONS} iterations, draws no more than"
        f" {QUICK_JOBS} jobs, and has only the first and the last value of `x`, `rows` and `each`."
        " Programs keep their size.",
    )


@dataclass(frozen=True)
class Size:
    """A version of a file: `name` for its results, a factor on its jobs, upper bounds. `ends`: keys
    of which only the first and the last value of the sweep count."""

    name: str
    scale: float = 1.0
    repetitions: int | None = None
    iterations: int | None = None
    jobs: int | None = None
    ends: tuple[str, ...] = ()

    @classmethod
    def quick(cls, name: str, figure: Figure) -> Size:
        """The version that only shows that everything works."""
        return cls(
            f"{name}-quick",
            figure.quick,
            QUICK_REPETITIONS,
            QUICK_ITERATIONS,
            QUICK_JOBS,
            ends=(figure.x, *figure.rows, figure.each),
        )


def read_figure(document: Document, file: str, varied: tuple[str, ...]) -> Figure | None:
    """The declaration in a file whose sweep varies the keys `varied`; None if it has none.

    Raises ExperimentError."""
    if "figure" not in document.data:
        return None
    try:
        figure = TypeAdapter(Figure).validate_python(document.data["figure"])
    except ValidationError as error:
        problems = explain(error, ("figure",), Figure)
    else:
        problems = [Problem(("figure", *path), text) for path, text in _wrong(figure, varied)]
        if not problems:
            return figure
    raise ExperimentError(
        file, [Problem(each.path, each.message, document.line(each.path)) for each in problems]
    )


def _wrong(figure: Figure, varied: tuple[str, ...]) -> Iterator[tuple[KeyPath, str]]:
    """Problems of the keys of a figure: the place below `figure`, and a message."""
    named: list[tuple[KeyPath, str]] = [
        (("x",), figure.x),
        *((("rows", number), key) for number, key in enumerate(figure.rows)),
        (("each",), figure.each),
    ]
    for number, (place, key) in enumerate(named):
        if key and key not in varied:
            allowed = f"allowed: {', '.join(varied)}"
            yield place, sentence(f"{key} is not varied", did_you_mean(key, varied), allowed)
        elif key and key in [other for _, other in named[:number]]:
            yield place, f"{key} is used twice: x, rows and each are different keys"
    if figure.rows and not figure.x:
        yield ("rows",), "a map also needs x, the key of its columns"
    if figure.each and not figure.rows:
        yield ("each",), "only maps, which have `rows`, are drawn for each value of a key"
    if figure.rows:
        for key in sorted({"panels", "against", "occupancy", "reported"} & figure.model_fields_set):
            yield (key,), f"a map, which has `rows`, has no {key}; remove one of the two"


def resize(data: dict[str, Any], size: Size) -> None:
    """Change a file's data to another size. Jobs get `scale` times as many values and as much
    computing, so their ratio stays, and are submitted as much further apart. Values that are not
    numbers are left to validation. Raises UserError for jobs whose size the file does not have.
    A quick version leaves programs as they are."""
    data["name"] = size.name
    if size.repetitions is not None and _is_number(data.get("repetitions")):
        data["repetitions"] = min(data["repetitions"], size.repetitions)
    for job in _shapes(data):
        if "command" in job:
            if size.scale != 1 and size.iterations is None:
                raise UserError(
                    f"--scale: the program `{job['command']}` has a size of its own; give it other"
                    " arguments in a copy of the file"
                )
            continue
        job.setdefault("scale", 1.0)
        for key in ("scale", "compute_scale"):
            if _is_number(job.get(key)):
                job[key] *= size.scale
        for key in ("iterations", "longest"):
            if size.iterations is not None and _is_number(job.get(key)):
                job[key] = min(job[key], size.iterations)
    arrivals = data.get("arrivals")
    if not isinstance(arrivals, dict):
        return
    if "csv" in arrivals and size.scale != 1:
        raise UserError(
            "arrivals.csv: a file of jobs has sizes of its own, which --scale and --quick cannot"
            " change; list the jobs under arrivals.submissions"
        )
    process = arrivals.get("poisson")
    if isinstance(process, dict):
        _stretch(process, "interval", size.scale)
        if size.jobs is not None and _is_number(process.get("jobs")):
            process["jobs"] = min(process["jobs"], size.jobs)
    trace = arrivals.get("cluster_trace")
    if isinstance(trace, dict):
        if _is_number(trace.get("time_scale")):
            trace["time_scale"] *= size.scale
        if size.jobs is not None and _is_number(trace.get("jobs")):
            trace["jobs"] = min(trace["jobs"], size.jobs)
    for job in _mappings(arrivals.get("submissions")):
        _stretch(job, "submit", size.scale)


def _shapes(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The mappings with the keys of a job in a file's data."""
    found = _mappings(data.get("jobs"))
    arrivals = data.get("arrivals")
    if isinstance(arrivals, dict):
        process, trace = arrivals.get("poisson"), arrivals.get("cluster_trace")
        found += _mappings(arrivals.get("submissions"))
        found += _mappings(process.get("kinds") if isinstance(process, dict) else None)
        found += _mappings(trace.get("models") if isinstance(trace, dict) else None)
    return found


def _mappings(members: Any) -> list[dict[str, Any]]:
    return [each for each in members if isinstance(each, dict)] if isinstance(members, list) else []


def _stretch(section: dict[str, Any], key: str, scale: float) -> None:
    """Make a time of the file so many times as long, so that jobs of another size meet as before.
    Values that are not times are left to validation."""
    try:
        time_ns = parse(section.get(key), TIME, 0, 24 * HOUR)
    except FieldError:
        return
    section[key] = f"{round(time_ns * Fraction(repr(scale)))} ns"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
