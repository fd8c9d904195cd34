"""Fill the compile caches, so that the first run does not wait: `python -m testbed.cli.warm`.

The last step of set-up. Host protocols are compiled by numba, switch programs by the P4 engine;
both caches are per user and keyed by content, so warming twice costs only the look. By default only
what the demo needs is compiled. Everything else is compiled when it is first used, and says
so; `--all` does it now, for the tests.

Each part is compiled in a process of its own, as many at a time as there are processors. Then all
are loaded once in one process: of functions that two of them share, one may have lost the other's
entry in the cache. What an installed package has compiled (`python -m tools.compiled`) is left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

from p4engine.module_start import module_command
from p4fabric.base.steps import step
from p4fabric.simulate.code_cache import made_with
from p4fabric.simulate.shipped_code import installed, why_unused
from rich.console import Console

from testbed.paths import EXPERIMENTS, PACKAGE
from testbed.protocols import compiled, is_shipped, remove_unused

if TYPE_CHECKING:
    from testbed.protocols.host_spec import HostSpec

DEMO = EXPERIMENTS / "demo.yaml"
# Systems with machines of their own, and whether they take the key `memory`.
MEMORY = {
    **dict.fromkeys(("esa", "atp", "a2tp", "switchml", "grid"), True),
    **dict.fromkeys(("ps", "ring"), False),
}
ROLES = ("worker", "ps")
VIRTUAL_TIME = "virtual-time"
FED = "program"  # a worker whose values a program gives
EXPERIMENT = """
name: warm
topology: {{kind: star, hosts: 9}}
links: {{bandwidth: 1 Gbit/s}}
system: {system}
{memory}
jobs:
  - {{model: alexnet, workers: 2, iterations: 1, scale: 0.001}}
  - {{name: program, command: "true", workers: 2}}
  - name: ranks
    model: {{transformer: llama2-7b, sequence: 128, global_batch: 2, layers: 1}}
    parallel: {{dp: 2}}
    workers: 2
    iterations: 1
    scale: 0.00001
"""


def warm_hosts(system: str, role: str) -> None:
    """Compile every function that a host process of a role, or FED, runs per packet."""
    from testbed.experiment import load_text
    from testbed.hosts.host_process import load
    from testbed.schemes import set_up
    from testbed.setup.host_specs import host_kinds

    memory = "memory: {aggregators: 64}" if MEMORY[system] else ""
    kinds = host_kinds(set_up(load_text(EXPERIMENT.format(system=system, memory=memory))))

    def is_wanted(spec: HostSpec) -> bool:
        return role == (FED if spec.is_worker and spec.job.program else spec.role)

    load([spec.to_json() for spec in kinds if is_wanted(spec)])


def warm_virtual_time() -> None:
    """Compile the loop of virtual time, what fills in packets, and the machine of flows; the other
    machines that it steps are those of host processes."""
    from p4fabric.simulate import loop, state
    from p4fabric.simulate.flow_machine import HostFlows
    from p4fabric.simulate.frames import FrameMemory
    from p4fabric.simulate.generator import HOST, new_receptions
    from p4fabric.simulate.machine import new_batch
    from p4fabric.simulate.placed_machine import Placed, Stepper
    from p4fabric.simulate.records import new_table

    from testbed.protocols import values

    values.filler()
    # A world without work.
    loop.run(Placed(state.new_world(1, 0, 1, 1, FrameMemory(64))), 0, 1)
    batches = new_batch(1, 71), new_batch(1, 71)
    idle = HostFlows(0).machine(new_table(HOST, answer_ns=-1), 0, new_receptions(1))
    Stepper(idle, *batches)


def warm_switches() -> None:
    """Compile the P4 programs that the demo runs, and with them the runtime of all programs."""
    from testbed.experiment.sweep_file import load_sweep
    from testbed.run_parts.program import prepare
    from testbed.schemes import set_up

    for point in load_sweep(DEMO).points:
        prepare(set_up(point.experiment))


def warm_figures() -> None:
    """Have matplotlib write its list of fonts, or it does so amid the first report."""
    import matplotlib.font_manager  # noqa: F401


def demo_hosts() -> list[str]:
    """The kinds of hosts of the demo, workers first, as arguments of this program."""
    from testbed.experiment.sweep_file import load_sweep
    from testbed.schemes import set_up
    from testbed.setup.host_specs import host_kinds

    setups = [set_up(point.experiment) for point in load_sweep(DEMO).points]
    kinds = {f"{spec.job.system}:{spec.role}" for setup in setups for spec in host_kinds(setup)}
    return sorted(kinds, key=lambda kind: (kind.endswith(":ps"), kind))


def protocols(everything: bool) -> list[str]:
    """Parts that numba compiles, as arguments of this program, the longest first."""
    if not everything:
        return demo_hosts()
    return [f"{system}:{role}" for system, role in product(MEMORY, (*ROLES, FED))] + [VIRTUAL_TIME]


def tell_unused() -> None:
    """Say of each installed package of compiled code that it is not used, and why."""
    for package in installed():
        reason = why_unused(package, made_with())
        print(f"set-up: {package.name} is not used, because {reason}", file=sys.stderr)


def warm(part: str) -> None:
    """Warm one part."""
    others = {
        VIRTUAL_TIME: warm_virtual_time,
        "switches": warm_switches,
        "figures": warm_figures,
    }
    if part in others:
        others[part]()
    else:
        warm_hosts(*part.split(":"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="what the tests need, too")
    parser.add_argument("--part", action="append", metavar="NAME", help="only this, in here")
    options = parser.parse_args()
    if options.part:
        for part in options.part:
            warm(part)
        return 0
    slow = [] if is_shipped() else protocols(options.all)
    if slow:
        tell_unused()
    chosen = [*slow, "switches", "figures"]
    command = module_command("testbed.cli.warm", "--part")
    done: list[int] = []
    before = len(compiled())

    def in_a_process(part: str) -> None:
        done.append(subprocess.run([*command, part], cwd=PACKAGE.parent).returncode)

    def progress() -> str:
        functions = len(compiled()) - before
        return f"compiled {functions} functions, {len(done)} of {len(chosen)} parts"

    console = Console(stderr=True)
    with step(console, progress), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(in_a_process, chosen))
    if any(done):
        return 1
    if slow:
        with step(console, "loading what is compiled"):
            for part in slow:
                warm(part)
    remove_unused()
    return 0


if __name__ == "__main__":
    sys.exit(main())
