"""How large the HTML report of a large run is, and how soon a browser shows it.

    .venv/bin/python -m bench.report                    # 10 million fragments
    .venv/bin/python -m bench.report --iterations 25

The run is made up: 8 jobs of 8 workers, tables as large as a real run of so many fragments has
them, with random times. Measured are the writing of the page, its size, and in Chromium, in a fresh
page: the first paint, when the text can be read, when the last chart is drawn, and the processor
time that the page's main thread took for it. An empty page in the same browser is the baseline,
since machines differ.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from analysis import html
from testbed.results import Writer, read
from testbed.results.counters import EVENTS

JOBS, WORKERS, LAYERS, SAMPLES, BLOCKS = 8, 8, 54, 1000, 64
FRAGMENTS = (
    12_500  # of an iteration; with 8 workers and 100 iterations 10 million in each job's sum
)
MS = 1_000_000


def write_large(parent: Path, iterations: int) -> Path:
    """A finished run in virtual time with random times; returns its folder."""
    draw = np.random.default_rng(1)
    environment = {"runtime": "virtual", "switch": "embedded", "timestamp_unit_ns": 1}
    with Writer.create(parent, "large", "name: large\nsystem: esa\n", environment) as writer:
        for table, rows in _tables(draw, iterations).items():
            writer.write(table, rows, repetition=0)
        writer.finish()
    return writer.folder


def _tables(draw: np.random.Generator, iterations: int) -> dict:
    span = 10 * MS * iterations
    job, worker, iteration = (
        each.ravel() for each in np.indices((JOBS, WORKERS, iterations), np.int64)
    )
    start = 10 * MS * iteration + draw.integers(0, MS, len(job))
    step = 4 * MS // LAYERS
    layer = np.arange(LAYERS)
    forward = start[:, None] + layer * step + draw.integers(0, step // 2, (len(job), LAYERS))
    ready = start[:, None] + 4 * MS + (LAYERS - layer) * step
    sent = ready + draw.integers(0, step, ready.shape)
    done = sent + draw.integers(MS // 2, 2 * MS, ready.shape)
    every = {name: np.repeat(each, LAYERS) for name, each in _keys(job, worker, iteration).items()}
    return {
        "jobs": [_job(number, iterations, span) for number in range(JOBS)],
        "iterations": _keys(job, worker, iteration)
        | {"start_ns": start, "compute_end_ns": start + 8 * MS, "end_ns": start + 12 * MS},
        "tensors": every
        | {
            "tensor": np.tile(layer, len(job)),
            "forward_start_ns": forward.ravel(),
            "forward_end_ns": (forward + step // 2).ravel(),
            "ready_ns": ready.ravel(),
            "first_sent_ns": sent.ravel(),
            "done_ns": done.ravel(),
        },
        **_samples(draw, span),
        "links": [
            {
                "node": "s1",
                "port": port,
                "neighbour": f"h{port}",
                "direction": direction,
                "rate_bps": 10**10,
                "packets": FRAGMENTS * iterations,
                "bytes": 326 * FRAGMENTS * iterations,
            }
            for port in range(1, JOBS * (WORKERS + 1) + 1)
            for direction in ("ingress", "egress")
        ],
    }


def _keys(job: np.ndarray, worker: np.ndarray, iteration: np.ndarray) -> dict:
    return {"job": job, "worker": worker, "iteration": iteration}


def _job(number: int, iterations: int, span: int) -> dict:
    values = 64 * FRAGMENTS
    packets = FRAGMENTS * iterations * WORKERS
    return {
        "job": number,
        "name": f"job{number}",
        "model": "resnet50",
        "system": "esa",
        "workers": WORKERS,
        "iterations": iterations,
        "values": values,
        "fragments": FRAGMENTS,
        "start_ns": 0,
        "end_ns": span,
        "jct_ns": span,
        "outcome": "finished",
        "exact": True,
        "values_checked": values * iterations * WORKERS,
        "gradient_packets": packets,
        "retransmissions": 0,
        "ps_packets": packets // WORKERS,
        "ps_link_bytes_in": 326 * packets // WORKERS,
        "ps_link_bytes_out": 326 * packets // WORKERS,
    }


def _samples(draw: np.random.Generator, span: int) -> dict:
    times = np.linspace(0, span, SAMPLES, dtype=np.int64)
    memory = []
    for time_ns in times.tolist():
        used = draw.integers(0, 120, JOBS).tolist()
        for job, occupied in [(None, sum(used)), *enumerate(used)]:
            memory.append({"switch": "s1", "time_ns": time_ns, "job": job, "occupied": occupied})
    for row in memory:
        row |= {"held": 0, "capacity": 1024}
    events = [
        {"switch": "s1", "time_ns": time_ns, "event": event, "value": int(number + 1) * 1000}
        for number, time_ns in enumerate(times.tolist())
        for event in EVENTS
    ]
    looked = times[::3]
    pool = {
        "switch": ["s1"] * (len(looked) * BLOCKS),
        "time_ns": np.repeat(looked, BLOCKS),
        "first": np.tile(np.arange(BLOCKS) * 16, len(looked)),
        "seen": np.full(len(looked) * BLOCKS, 16),
        "filling": draw.integers(0, 17, len(looked) * BLOCKS),
        "held": np.zeros(len(looked) * BLOCKS, np.int64),
    }
    return {"memory": memory, "events": events, "pool": pool}


def open_times(paths: list[Path]) -> list[dict[str, float]]:
    """Per page, in ms: `paint` and `drawn`, after navigation began, and `cpu`."""
    import shutil

    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for each in paths:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto(each.as_uri())
            if page.locator(".chart").count():
                page.wait_for_function("document.documentElement.dataset.drawn")
            drawn = page.evaluate("performance.now()")
            paint = page.evaluate(
                "(performance.getEntriesByName('first-contentful-paint')[0] || {}).startTime"
            )
            metrics = session.send("Performance.getMetrics")["metrics"]
            cpu = next(each["value"] for each in metrics if each["name"] == "ThreadTime")
            found.append({"paint": paint or 0.0, "drawn": drawn, "cpu": 1000 * cpu})
            page.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=100)
    iterations = parser.parse_args().iterations
    with tempfile.TemporaryDirectory() as name:
        folder = write_large(Path(name), iterations)
        empty = Path(name) / "empty.html"
        empty.write_text("<!doctype html><title>empty</title><p>nothing</p>")
        began = time.monotonic()
        path = html.write_run(read(folder))
        took = time.monotonic() - began
        print(f"{JOBS * iterations * FRAGMENTS / 1e6:g} million fragments")
        print(f"page written in {took:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        for title, times in zip(("empty page", "report"), open_times([empty, path]), strict=True):
            print(
                f"{title}: first paint {times['paint']:.0f} ms, drawn {times['drawn']:.0f} ms, "
                f"processor {times['cpu']:.0f} ms"
            )


if __name__ == "__main__":
    main()
