"""The page of one run: its state, its jobs, its network and memory, and every event."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from p4fabric.base import units
from p4fabric.base.config.data_files import read_text

from testbed.analysis.data import explanations, tuned_data
from testbed.analysis.data.hardware_data import costs_words
from testbed.analysis.data.job_chart_data import iteration_lines
from testbed.analysis.data.run_summary import (
    Frames,
    job_names,
    jobs_left_out,
    longest_jobs,
    summary,
)
from testbed.analysis.data.timeline_data import end_ns
from testbed.analysis.html import (
    departure_charts,
    job_charts,
    measure_charts,
    memory_charts,
    topology_chart,
)
from testbed.analysis.html import html_page as page
from testbed.analysis.html import plotly_parts as parts
from testbed.analysis.html.timeline_chart import timeline
from testbed.analysis.style import plot_style
from testbed.analysis.tables import pause_tables, serving_tables, verdict_tables
from testbed.analysis.tables import report_tables as tables
from testbed.results import SWEEP_FILE
from testbed.systems import SYSTEMS

if TYPE_CHECKING:
    from testbed.results import Results

FILE = "report.html"


def write_run(results: Results) -> Path:
    """Writes the run's report.html into its folder; returns the path."""
    return page.write(run_page(results), results.folder / FILE)


def run_page(results: Results) -> page.Page:
    """The page of a run, as far as the run got."""
    frames = summary(results)
    sections = [_summary(results, frames)]
    if len(frames["jobs"]):
        sections.append(_jobs(results, frames))
    if len(results.measures):
        sections.append(page.Section("measures", "Measures", [*measure_charts.measures(results)]))
    if len(results.links):
        sections.append(_network(results))
    if len(results.iterations):
        sections.append(page.Section("time", "Timeline", [timeline(results)]))
    if len(results.memory):
        sections.append(_memory(results, frames))
    if len(frames["jobs"]):
        sections.append(_traffic(results, frames))
    if len(frames["events"]):
        sections.append(_events(results, frames))
    if len(results.table("fidelity")):
        sections.append(_fidelity(results))
    sections += _origin(results)
    parts.align([chart for each in sections for chart in page.charts(each.blocks)], end_ns(results))
    names = job_names(results.jobs)
    return page.Page(
        title=results.name,
        subtitle=_subtitle(results),
        sections=sections,
        jobs=[
            page.Job(int(job), name, plot_style.job_color(int(job))) for job, name in names.items()
        ],
    )


def _subtitle(results: Results) -> str:
    name = plot_style.system_of(results)
    system = SYSTEMS[name].title if name in SYSTEMS else name
    runtime = results.environment.get("runtime", "")
    switch = results.environment.get("switch", "")
    parts = [system, f"{runtime} runtime" if runtime else "", f"{switch} switch" if switch else ""]
    parts.append(results.started_utc.replace("T", " ")[:16] + " UTC")
    return ", ".join(part for part in parts if part)


def _summary(results: Results, frames: Frames) -> page.Section:
    blocks: list[page.Block] = [state(results)]
    if chosen := jobs_left_out(frames["jobs"]):
        blocks.append(page.Paragraph(f"Tables and charts of jobs show {chosen}."))
    sweep = results.folder.absolute().parents[1]
    if (sweep / SWEEP_FILE).is_file():
        text = f"A point of the sweep {sweep.name}."
        blocks.append(page.Paragraph(text, link=f"../../{FILE}"))
    run = frames["run"]
    if len(run):
        if bool(run["exact"].all()):
            said = tables.exactness(run, results.finished)
            blocks.append(page.Paragraph(f"{said}.", "good"))
        else:
            checked = units.number(run["values_checked"].sum())
            blocks.append(page.Paragraph(f"WRONG VALUES among {checked} checked.", "bad"))
        for text, tone in zip(tuned_data.sentences(results), ("", "bad"), strict=False):
            blocks.append(page.Paragraph(f"{text}.", tone))
        said_first = (costs_words(results), *tables.past_switches(results))
        blocks += [page.Paragraph(f"{text}.") for text in said_first if text]
        blocks += [page.Paragraph(f"{text}.", "bad") for text in tables.ties(results)]
        blocks += [
            page.Paragraph(text) for text in explanations.of_run(explanations.frames_of(results))
        ]
        blocks.append(page.Figures(_figures(run)))
    blocks += map(page.TableView, serving_tables.of_run(results))
    if tuning := verdict_tables.tuning(results):
        blocks.append(page.TableView(tuning))
    for lost in (tables.lost_by_job(frames), tables.lost_by_link(frames)):
        if lost.rows:
            blocks.append(page.TableView(lost, filtered=len(lost.rows) > tables.FEW_JOBS))
    if len(results.faults):
        blocks.append(page.TableView(tables.faults(results)))
    if len(results.collectives):
        blocks.append(page.TableView(tables.collectives(results)))
    if (kept := tables.kept_sums(results)).rows:
        blocks.append(page.TableView(kept))
    if len(results.flows):
        blocks.append(page.TableView(tables.flows(results)))
    return page.Section("summary", "Summary", blocks)


def state(results: Results) -> page.Paragraph:
    """The trust that the run deserves, in a sentence."""
    if results.notice:
        return page.Paragraph(results.notice, "bad")
    return page.Paragraph(tables.state_of(results), "good")


def _figures(run: pd.DataFrame) -> list[tuple[str, str, str]]:
    found = [
        ("average JCT", units.time(run["jct_mean_ns"].mean()), "mean over jobs"),
        (
            "PS packets / fragment",
            units.ratio(run["ps_packets_per_fragment"].mean()),
            "1: every sum was completed in the switch",
        ),
        ("completed in switch", units.share(run["in_switch_share"].mean()), "of all fragments"),
        ("memory filling", units.share(run["filling_share"].mean()), "of aggregator-time"),
        ("memory held", units.share(run["held_share"].mean()), "of aggregator-time"),
        (
            "absorbed / s / aggregator",
            units.number(run["absorbed_per_aggregator_s"].mean()),
            "contributions added in switches",
        ),
    ]
    if len(run) > 1:
        found.append(("repetitions", str(len(run)), "numbers are means"))
    return [entry for entry in found if entry[1] != units.UNKNOWN]


def _present(*blocks: page.Block | None) -> list[page.Block]:
    return [block for block in blocks if block is not None]


def _jobs(results: Results, frames: Frames) -> page.Section:
    lines = iteration_lines(results)
    shown = {**frames, "jobs": longest_jobs(frames["jobs"])}
    lengths, throughput = tables.lengths(frames), tables.throughput(shown)
    many = results.jobs["job"].nunique() > tables.FEW_JOBS
    return page.Section(
        "jobs",
        "Jobs",
        _present(
            page.TableView(lengths) if len(lengths.rows) else None,
            page.TableView(tables.jobs(shown), filtered=many),
            page.TableView(throughput) if len(throughput.rows) else None,
            job_charts.completion_times(frames["jobs"]),
            job_charts.iterations(lines) if lines else None,
        ),
    )


def _network(results: Results) -> page.Section:
    return page.Section(
        "network",
        "Network",
        _present(topology_chart.topology(results), topology_chart.aggregation_table(results)),
    )


def _memory(results: Results, frames: Frames) -> page.Section:
    blocks: list[page.Block] = []
    if len(frames["switches"]):
        blocks.append(page.TableView(tables.memory(frames)))
    shown = memory_charts.switches(results)
    count = results.memory["switch"].nunique()
    if count > len(shown):
        blocks.append(
            page.Paragraph(
                f"Charts of the {len(shown)} switches (of {count}) that aggregated most."
            )
        )
    makers = (memory_charts.by_state, memory_charts.by_job, memory_charts.heat_map)
    blocks.append(
        _by_switch(shown, lambda switch: _present(*(make(results, switch) for make in makers)))
    )
    return page.Section("memory", "Switch memory", blocks)


def _by_switch(switches: list[str], make: Callable[[str], list[page.Block]]) -> page.Choice:
    """Blocks of one of the switches at a time; of all sections the same one is shown."""
    options = [(switch, blocks) for switch in switches if (blocks := make(switch))]
    return page.Choice("switch", "Switch", options)


def _traffic(results: Results, frames: Frames) -> page.Section:
    shown = {**frames, "jobs": longest_jobs(frames["jobs"])}
    causes = departure_charts.causes(results)
    sources = tables.departures(results, shown)
    blocks = _present(
        job_charts.ps_packets(frames["jobs"]) if causes is None else causes,
        job_charts.ps_bytes(frames["jobs"]),
        page.TableView(sources, filtered=True) if sources.rows else None,
        page.TableView(tables.traffic(shown)),
    )
    if len(tables.comparable(shown)):
        blocks.append(page.TableView(tables.communication(shown)))
    if len(results.buffers):
        blocks += map(page.TableView, (pause_tables.pauses(results), pause_tables.buffers(results)))
    return page.Section("traffic", "Traffic", blocks)


def _events(results: Results, frames: Frames) -> page.Section:
    over_time = _by_switch(
        memory_charts.switches(results),
        lambda switch: _present(memory_charts.events(results, switch)),
    )
    table = page.TableView(tables.events(frames), filtered=True)
    return page.Section("events", "Switch events", [over_time, table], folded=True)


def _fidelity(results: Results) -> page.Section:
    table = page.TableView(tables.fidelity(results), filtered=True)
    return page.Section("fidelity", "Fidelity", [table], folded=True)


def _origin(results: Results) -> list[page.Section]:
    """The experiment and the machine."""
    sections = []
    path = results.folder / "experiment.yaml"
    if path.exists():
        text = read_text(path)
        sections.append(
            page.Section(
                "experiment",
                "Experiment",
                [
                    page.Paragraph("Every default is filled in; ina accepts this file."),
                    listing(text),
                ],
                folded=True,
            )
        )
    if results.environment:
        text = json.dumps(results.environment, indent=2)
        sections.append(page.Section("environment", "Environment", [listing(text)], folded=True))
    return sections


def listing(text: str) -> page.Listing:
    """A text, shortened where it would make the file large."""
    most = 200_000
    if len(text) > most:
        text = f"{text[:most]}\n... ({len(text) - most} more characters)"
    return page.Listing(text)
