"""How long a network takes to be up and ready, and down again: `sudo .venv/bin/python
bench/startup.py`.

The network is one switch and HOSTS hosts (default 32), all of them with a worker or a parameter
server of an ESA experiment. *Up and ready* is everything from the start of the first process to the
moment at which the run could begin: spawners with their imports, namespaces, links, the switch with
its tables, and all host processes ready. *Down* is until the last process is gone. The P4 program
and the protocols are compiled before the clock starts, as set-up does it. Prints one row per step,
then the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from testbed.derived.host_specs import host_kinds  # noqa: E402
from testbed.emulate.mininet_run import Repetition  # noqa: E402
from testbed.emulate.session import Session  # noqa: E402
from testbed.emulate.switch_backends import backend_of  # noqa: E402
from testbed.experiment import load_text  # noqa: E402
from testbed.network import registry  # noqa: E402
from testbed.runtimes.program import prepare  # noqa: E402

EXPERIMENT = """
name: startup
topology: {{kind: star, hosts: {hosts}}}
system: esa
memory: {{aggregators: 1024}}
jobs:
  - {{model: resnet50, workers: {workers}, iterations: 1, scale: 0.001}}
"""


def measure(hosts: int) -> dict[str, float]:
    """Seconds per step of one start and end."""
    experiment = load_text(EXPERIMENT.format(hosts=hosts, workers=hosts - 1))
    program = prepare(experiment)
    times = {}
    with tempfile.TemporaryDirectory() as logs:
        begin = last = time.monotonic()

        def step(name: str) -> None:
            nonlocal last
            now = time.monotonic()
            times[name] = now - last
            last = now

        session = Session("bench/startup.py", Path(logs))
        try:
            session.start(host_kinds(experiment))
            session.nodes.wait_ready()
            step("spawner of nodes")
            session.build(experiment.topology_object())
            step("network")
            session.pool.wait_ready()
            step("host pool (rest)")
            repetition = Repetition(experiment, backend_of(experiment, program), session, 0)
            repetition.__enter__()
            step("switch and hosts ready")
            times["UP"] = last - begin
            repetition.__exit__(None)
            step("switch and hosts stopped")
        finally:
            session.close()
        step("network gone")
        times["DOWN"] = times["switch and hosts stopped"] + times["network gone"]
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a network's start and end.")
    parser.add_argument("--hosts", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("error: networks need root: start it with sudo")
    registry.clean()
    subprocess.run([sys.executable, "-m", "testbed.cli.warm"], check=True, cwd=ROOT)
    rounds = [measure(arguments.hosts) for _ in range(arguments.repeat)]
    print(f"1 switch, {arguments.hosts} hosts, {arguments.repeat} rounds    median   worst  (s)")
    for name in rounds[0]:
        values = [times[name] for times in rounds]
        print(f"{name:<35}{statistics.median(values):8.2f}{max(values):8.2f}")
    print(f"machine: {os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}")


if __name__ == "__main__":
    main()
