"""Runs and sweeps as tidy data: a row per value, for pandas, seaborn, R and the like.

Times are seconds and sizes bytes here, so that no reader has to know a column's scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from testbed.analysis.data import sweep_data
from testbed.analysis.data.run_summary import summary
from testbed.results import Results


@dataclass(frozen=True)
class TidyMeasure:
    """`column` of frame "jobs" (or, for a measure without a job, of frame "run") of `summary`;
    `unit` of the value: what `scale` times the column has."""

    column: str
    unit: str
    meaning: str
    scale: float = 1.0


def _time(column: str, meaning: str) -> TidyMeasure:
    return TidyMeasure(column, "s", meaning, 1e-9)


OF_JOBS = {
    "jct": _time("jct_ns", "job completion time"),
    "waiting": _time("waiting_ns", "of the JCT: waiting for hosts, with `arrivals`"),
    "iteration": _time("iteration_mean_ns", "an iteration, mean over workers and iterations"),
    "computation": _time("computation_ns", "computation in one iteration"),
    "communication": _time(
        "communication_ns", "communication, from the first packet to the last sum, all iterations"
    ),
    "communication_bound": _time(
        "communication_bound_ns", "the least communication time that the links allow"
    ),
    "ps_packets_per_fragment": TidyMeasure(
        "ps_packets_per_fragment", "", "gradient packets that reached the PS / fragments"
    ),
    "in_switch_share": TidyMeasure(
        "in_switch_share", "share", "fragments that a switch completed / fragments"
    ),
    "samples_per_s": TidyMeasure("samples_per_s", "1/s", "samples of all workers / time"),
    "scaling_efficiency": TidyMeasure(
        "scaling_efficiency", "share", "samples/s relative to workers that never wait"
    ),
    "fragments": TidyMeasure("fragments", "count", "fragments of all iterations"),
    "gradient_packets": TidyMeasure("gradient_packets", "count", "gradient packets sent"),
    "retransmissions": TidyMeasure("retransmissions", "count", "gradient packets retransmitted"),
    "ps_packets": TidyMeasure("ps_packets", "count", "gradient packets that reached the PS"),
    "ps_link_bytes_in": TidyMeasure("ps_link_bytes_in", "bytes", "over the PS link, to the PS"),
    "ps_link_bytes_out": TidyMeasure("ps_link_bytes_out", "bytes", "over the PS link, from the PS"),
}
OF_RUNS = {
    "filling_share": TidyMeasure(
        "filling_share", "share", "aggregator-time in which a sum was filling"
    ),
    "held_share": TidyMeasure(
        "held_share", "share", "aggregator-time in which a complete sum was held"
    ),
    "free_share": TidyMeasure("free_share", "share", "aggregator-time that was free"),
    "absorbed_per_aggregator_s": TidyMeasure(
        "absorbed_per_aggregator_s", "1/s", "contributions absorbed / s / aggregator"
    ),
}
COLUMNS = ("seed", "repetition", "job", "measure", "value", "unit")


def of_run(results: Results) -> pd.DataFrame:
    """A row per repetition, job and measure that has a value.

    Columns: `seed` (int64, of the repetition), `repetition` (int64), `job` (text; missing for a
    measure of the switches, which all jobs share), `measure` (text: of OF_JOBS or OF_RUNS), `value`
    (float64), `unit` (text, "" for a ratio)."""
    frames = summary(results)
    parts = [
        *(_rows(frames["jobs"], name, each) for name, each in OF_JOBS.items()),
        *(_rows(frames["run"], name, each) for name, each in OF_RUNS.items()),
    ]
    parts = [part for part in parts if len(part)]
    if not parts:
        return _empty()
    found = pd.concat(parts, ignore_index=True)
    found.insert(0, "seed", int(results.experiment.get("seed", 0)) + found["repetition"])
    return found[list(COLUMNS)]


def of_sweep(sweep: sweep_data.Sweep) -> pd.DataFrame:
    """The same of all finished points; before these columns `point` (its key in the folder), and
    one per varied key: int64 or float64 in base units where every value of it is a number, else
    text; missing where a point does not have the key."""
    parts = []
    numeric = {
        key: all(each.values[key].number is not None for each in sweep.points if key in each.values)
        for key in sweep.keys
    }
    for point in sweep.points:
        if point.results is None or not point.finished:
            continue
        rows = of_run(point.results)
        for place, key in enumerate(sweep.keys):
            value = point.values.get(key)
            shown = None if value is None else value.number if numeric[key] else value.text
            kind = "float64" if numeric[key] else "object"
            rows.insert(place, key, pd.Series([shown] * len(rows), dtype=kind))
        rows.insert(0, "point", point.key)
        parts.append(rows)
    if not parts:
        return pd.DataFrame(columns=["point", *sweep.keys, *COLUMNS])
    found = pd.concat(parts, ignore_index=True)
    for key, is_number in numeric.items():
        if is_number and (found[key] % 1 == 0).all():
            found[key] = found[key].astype("int64")
    return found


def _rows(frame: pd.DataFrame, name: str, measure: TidyMeasure) -> pd.DataFrame:
    if measure.column not in frame:
        return _empty()
    values = frame[measure.column].astype("float64")
    rows = pd.DataFrame(
        {
            "repetition": frame["repetition"].astype("int64"),
            "job": frame["name"].astype("object") if "name" in frame else None,
            "measure": name,
            "value": values * measure.scale,
            "unit": measure.unit,
        }
    )
    return rows[values.notna()]


def _empty() -> pd.DataFrame:
    return pd.DataFrame(columns=list(COLUMNS))
