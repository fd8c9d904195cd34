"""The table of shipped models in docs/models.md: `python -m testbed.traffic.models_page` prints it.

Kept here so that the page cannot drift from the files: a test compares the two.
"""

from __future__ import annotations

from testbed.traffic.trace import Trace, load_trace, shipped

COLUMNS = ("model", "name in `model:`", "values", "layers", "forward ms", "backward ms", "times")


def model_table() -> str:
    """The table in Markdown, one row per shipped trace, largest first."""
    traces = sorted((load_trace(name) for name in shipped()), key=lambda trace: -trace.values)
    rows: list[tuple[str, ...]] = [COLUMNS, ("---", "---", "---:", "---:", "---:", "---:", "---")]
    rows += [_row(trace) for trace in traces]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(trace: Trace) -> tuple[str, ...]:
    batch = f", batch {trace.batch}" if trace.batch else ""
    return (
        trace.title,
        f"`{trace.name}`",
        f"{trace.values:,}",
        str(len(trace.layers)),
        f"{trace.forward_ns / 1e6:.1f}",
        f"{trace.backward_ns / 1e6:.1f}",
        f"{trace.times}, {trace.hardware}{batch}",
    )


if __name__ == "__main__":
    print(model_table())
