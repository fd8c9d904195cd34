"""The size of a large run's HTML report, and the time until a browser shows it.

    .venv/bin/python -m bench report                    # 10 million fragments
    .venv/bin/python -m bench report --iterations 25

The run is made up: 8 jobs of 8 workers, tables as large as a real run of so many fragments has
them, with random times. Measured are the writing of the page, its size, and in Chromium, in a fresh
page and counted from the moment it was asked for: the first paint, when the text can be read; the
page open, when the charts near the window are drawn; the last chart of all drawn, those of folded
sections too; and the processor time that the page's main thread took for all of it. An empty page
in the same browser is the baseline, since machines differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from testbed.analysis import html
from testbed.results import Writer, read
from testbed.results.counters import EVENTS

JOBS, WORKERS, LAYERS, SAMPLES, BLOCKS = 8, 8, 54, 1000, 64
FRAGMENTS = (
    12_500  # of an iteration; with 8 workers and 100 iterations 10 million in each job's sum
)
MS = 1_000_000
STEPS_SHOWN = {
    "paint": "first paint",
    "open": "open",
    "drawn": "last chart",
    "cpu": "processor",
}


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


# Runs in the page until its last chart is drawn. Folded sections are opened once the page is open.
STEPS = """
() => new Promise((done) => {
  const [first] = performance.getEntriesByName("first-contentful-paint");
  const steps = { paint: first ? first.startTime : 0 };
  const look = () => {
    const { near, drawn } = document.documentElement.dataset;
    const charts = document.querySelectorAll(".chart").length;
    const now = performance.now();
    if (steps.open === undefined && (near || !charts)) {
      steps.open = now;
      document.querySelectorAll("details").forEach((each) => (each.open = true));
    }
    if (steps.open === undefined || Number(drawn || 0) < charts) return setTimeout(look, 5);
    steps.drawn = now;
    done(steps);
  };
  look();
})
"""


def open_times(paths: list[Path], rounds: int) -> list[list[dict[str, float]]]:
    """Per round and page, in ms after navigation began: `paint`, `open` and `drawn`; and `cpu`."""
    import shutil

    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(rounds):
            found.append([_open(browser, each) for each in paths])
        browser.close()
    return found


def _open(browser: Any, path: Path) -> dict[str, float]:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    steps = page.evaluate(STEPS)
    metrics = session.send("Performance.getMetrics")["metrics"]
    cpu = next(each["value"] for each in metrics if each["name"] == "ThreadTime")
    page.close()
    return steps | {"cpu": 1000 * cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    iterations = arguments.iterations
    load = "load averages {:.2f} {:.2f} {:.2f}"
    print(f"{os.cpu_count()} cores, {load.format(*os.getloadavg())} before")
    with tempfile.TemporaryDirectory() as name:
        folder = write_large(Path(name), iterations)
        empty = Path(name) / "empty.html"
        empty.write_text("<!doctype html><title>empty</title><p>nothing</p>")
        began = time.monotonic()
        path = html.write_run(read(folder))
        took = time.monotonic() - began
        print(f"{JOBS * iterations * FRAGMENTS / 1e6:g} million fragments")
        print(f"page written in {took:.1f} s, {path.stat().st_size / 1e6:.2f} MB")
        rounds = open_times([empty, path], arguments.rounds)
    print(f"median (largest) of {len(rounds)} rounds, in ms after the page was asked for")
    for number, title in enumerate(("empty page", "report")):
        parts = []
        for key, words in STEPS_SHOWN.items():
            values = [pages[number][key] for pages in rounds]
            parts.append(f"{words} {statistics.median(values):.0f} ({max(values):.0f})")
        print(f"{title}: {', '.join(parts)}")
    print(f"{load.format(*os.getloadavg())} after")
