"""The same experiment on the other clock: a run on Mininet, repeated in virtual time, side by side.

A real machine adds effects to a result that are not part of the experiment: processes wake up late,
and packets cost processor time. Virtual time has neither. So the difference between the two shows
how much of a result comes from the machine. The twin has all settings of the run, also its timers,
which otherwise depend on the clock. Only the delays of hosts are those of virtual time, or, with
--measured-hosts, those that the run measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import runner as runtimes
from testbed.config.yaml_document import read_yaml, write_yaml
from testbed.derived.timers import timers_of
from testbed.derived.windows import window_of
from testbed.errors import UserError
from testbed.experiment import load_text

if TYPE_CHECKING:
    from testbed.experiment import Experiment
    from testbed.results import Results

MAX_DELAY_NS = 10**9  # that virtual time allows


def twin_of(results: Results, measured_hosts: bool = False) -> Experiment:
    """The experiment of a run on Mininet for virtual time. `measured_hosts`: with hosts as late and
    as busy as the run's were. Raises UserError for what virtual time cannot do."""
    if not results.finished:
        raise UserError(f"{results.folder}: {results.notice}; a twin needs a finished run")
    file = results.folder / "experiment.yaml"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    original = load_text(text, file=str(file), folder=results.folder)
    if original.runtime == runtimes.VIRTUAL:
        raise UserError(
            f"{results.folder}: a run in virtual time; name a run on Mininet, and its twin in"
            " virtual time is made"
        )
    data: dict[str, Any] = read_yaml(text, str(file)).data
    data["runtime"], data["switch"] = runtimes.VIRTUAL, "embedded"
    data["name"] = f"{original.name[:56]}-virtual"
    data["timers"] = _timers(original)
    windows = {window_of(original, number) for number in range(len(original.jobs))}
    if data["system"].get("window") == "auto" and len(windows) == 1:
        data["system"]["window"] = windows.pop()
    if measured_hosts:
        data["virtual"] = _hosts(results)
    return load_text(write_yaml(data), file=f"the twin of {file}", folder=results.folder)


def _timers(original: Experiment) -> dict[str, str]:
    """The real clock's bounds; of those that differ among jobs the smallest."""
    bounds = [timers_of(original, number) for number in range(len(original.jobs))]
    return {
        name.removesuffix("_ns"): f"{min(getattr(each, name) for each in bounds)} ns"
        for name in vars(bounds[0])
    }


def _hosts(results: Results) -> dict[str, str]:
    """Section virtual with what the run's hosts took: how late the median worker was half of the
    time (a server does not say it, and is taken to be as late), give or take as much; processor
    time per packet."""
    hosts = results.hosts
    delay_ns = int(hosts["lag_p50_ns"].median())
    found: dict[str, str] = {}
    for role, name in (("worker", "worker"), ("ps", "server")):
        rows = hosts[hosts["role"] == role]
        packets = rows["packets_sent"] + rows["packets_received"]
        each = (rows["cpu_ns"] / packets.clip(lower=1)).median() if len(rows) else 0
        found |= {
            f"{name}_delay": f"{min(delay_ns, MAX_DELAY_NS)} ns",
            f"{name}_jitter": f"{min(delay_ns, MAX_DELAY_NS)} ns",
            f"{name}_packet_time": f"{int(each)} ns",
        }
    return found


def run_twin(folder: Path, parent: Path, measured_hosts: bool) -> int:
    """Run the twin of a run, its folder below `parent`, and report both. Returns the exit code."""
    from testbed.analysis.report import report_command
    from testbed.results import find, read

    experiment = twin_of(read(folder), measured_hosts)
    before = set(find(parent))
    code = runtimes.run(experiment, parent)
    (made,) = set(find(parent)) - before
    report_command([folder, made])
    return code
