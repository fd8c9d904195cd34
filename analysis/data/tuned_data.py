"""Options of a run's system that were tuned before it, in words, and how its trials came out."""

from __future__ import annotations

import pandas as pd

from testbed.results import Results

EDGE = "*"  # after a value at the edge of the range


def tuned_words(results: Results | None) -> str:
    """`window 512, servers 4*`; "" where nothing was tuned."""
    values, edges = _noted(results)
    return ", ".join(f"{key} {text}{EDGE * (key in edges)}" for key, text in values.items())


def sentences(results: Results) -> list[str]:
    """The values that were found, and a warning where one is at the edge of its range."""
    values, edges = _noted(results)
    if not values:
        return []
    trials = results.table("tuning")
    count, seeds = trials["trial"].nunique(), trials["seed"].nunique()
    listed = ", ".join(f"{key} {text}" for key, text in values.items())
    found = [
        f"tuned: {listed}, the best of {count} tried, with {seeds} seeds that are not reported"
    ]
    if edges:
        found.append(
            f"the best {' and '.join(edges)} {'is' if len(edges) == 1 else 'are'} at the edge of"
            " the range that was tried; a better value may lie beyond"
        )
    return found


def curve(results: Results) -> pd.DataFrame:
    """A row per trial: `values` (text), `seeds` (number), `jct_ns` (mean over them, NaN where it
    failed), `chosen`, `error`; in the order of the first option's values."""
    trials = results.table("tuning")
    rows = []
    for _, each in trials.groupby("trial", sort=False):
        first = each[each["seed"] == each["seed"].iloc[0]]
        pairs = zip(first["option"], first["value"], strict=True)
        runs = each[each["option"] == first["option"].iloc[0]]
        rows.append(
            {
                "order": tuple(first["value"]),
                "values": ", ".join(f"{option} {value:g}" for option, value in pairs),
                "seeds": len(runs),
                "jct_ns": runs["jct_ns"].astype("float64").mean(),
                "chosen": bool(first["chosen"].iloc[0]),
                "error": str(runs["error"].iloc[0]),
            }
        )
    return pd.DataFrame(sorted(rows, key=lambda row: row["order"]))


def _noted(results: Results | None) -> tuple[dict[str, str], list[str]]:
    """(values as text by option, options at an edge) of environment.json."""
    noted = results.environment.get("tuned") if results is not None else None
    if not isinstance(noted, dict) or not isinstance(noted.get("values"), dict):
        return {}, []
    edges = noted.get("edges")
    values = {str(key): str(value) for key, value in noted["values"].items()}
    return values, [key for key in values if isinstance(edges, list) and key in edges]
