"""Measures of the requests to served models, and the outcome of an experiment's checks of them.

Words are those of serving benchmarks: TTFT (time to first token) runs from when a request is sent;
TPOT (time per output token) is the mean time of each further token of a request, so a request of
one token has none. Percentiles are over requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from p4fabric.base import units
from p4fabric.base.config.units import PERCENT, TIME, Dimension

if TYPE_CHECKING:
    from testbed.results import Results

# Of each check (testbed/experiment/schema_serving.py): its column, the unit of its limit, and how a
# value is shown.
CHECKED: dict[str, tuple[str, Dimension | None, Callable[[float], str]]] = {
    **{
        f"{which} {time}": (f"{time}_{which}_ns", TIME, units.time)
        for time in ("ttft", "tpot")
        for which in ("mean", "p50", "p99")
    },
    "tokens/s": ("tokens_per_s", None, units.number),
    "network share": ("network_share", PERCENT, units.share),
}
MEASURES = [column for column, *_ in CHECKED.values()]


@dataclass(frozen=True)
class Outcome:
    """Of a check of a job: what must hold, what was found, and whether it holds."""

    job: str
    check: str
    found: str
    holds: bool


def measured(requests: pd.DataFrame) -> dict[str, float]:
    """MEASURES of rows of table requests; NaN where there is nothing to measure. tokens_per_s: of
    each job, repetition and iteration from its first request to its last token, the mean of
    repetitions and iterations of all jobs together; network_share: of the time of the requests
    that have ended, the part in which no stage computed for their batch."""
    sent, first, end, computed, output = (
        requests[name].to_numpy("float64", na_value=np.nan)
        for name in ("sent_ns", "first_ns", "end_ns", "compute_ns", "output")
    )
    several = output > 1
    times = {"ttft": first - sent, "tpot": ((end - first)[several] / (output - 1)[several])}
    found = {}
    for name, values in times.items():
        known = pd.Series(values)  # leaves NaN out
        found[f"{name}_mean_ns"] = float(known.mean())
        found[f"{name}_p50_ns"] = float(known.quantile(0.5))
        found[f"{name}_p99_ns"] = float(known.quantile(0.99))
    ended = requests[requests["end_ns"].notna()]
    runs = ended.groupby(["repetition", "job", "iteration"])
    span_s = (runs["end_ns"].max() - runs["sent_ns"].min()).astype("float64") / 1e9
    rates = (runs["output"].sum() / span_s).groupby(["repetition", "job"]).mean()
    found["tokens_per_s"] = (
        float(rates.groupby("repetition").sum().mean()) if len(rates) else float("nan")
    )
    whole = float(np.nansum(end - sent))
    found["network_share"] = 1 - float(np.nansum(computed)) / whole if whole else float("nan")
    return found


def of_repetition(results: Results, repetition: int) -> dict[str, float]:
    """MEASURES of all jobs of a repetition."""
    requests = results.requests
    return measured(requests[requests["repetition"] == repetition])


def outcomes(results: Results) -> list[Outcome]:
    """Of the checks of all jobs, over all repetitions."""
    found = []
    for number, job in enumerate(results.experiment.get("jobs") or []):
        model = job.get("model")
        checks = model.get("checks") if isinstance(model, dict) else None
        if not checks:
            continue
        # Reading conditions takes pydantic, which other reports need not wait for.
        from p4fabric.base.config.conditions import Bound

        values = measured(results.requests[results.requests["job"] == number])
        for name, text in checks.items():
            column, unit, show = CHECKED[name]
            condition, value = Bound(unit).parse(text), values[column]
            shown = condition.text if condition.text[0] in "<>=" else f"== {condition.text}"
            outcome = f"{name} {shown}", show(value), condition.holds(value)
            found.append(Outcome(str(job["name"]), *outcome))
    return found


def failures(results: Results) -> list[str]:
    """A sentence for each check that does not hold."""
    return [
        f"check failed: job {each.job}: {each.check}; found {each.found}"
        for each in outcomes(results)
        if not each.holds
    ]
