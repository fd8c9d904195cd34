"""Fill the compile caches, so that the first run does not wait: `python -m testbed.cli.warm`.

The last step of set-up. Host protocols are compiled by numba, the quickstart's switch program by
the P4 engine; both caches are per user and keyed by content, so warming twice costs only the look.
"""

from __future__ import annotations

from testbed.paths import EXPERIMENTS

QUICKSTART = EXPERIMENTS / "quickstart.yaml"


def warm_hosts() -> None:
    """Compile every function that a host process runs per packet."""
    import testbed.protocols  # noqa: F401  first: it tells numba where its cache is
    from testbed.hosts.host_process import warm

    warm()


def warm_virtual_time() -> None:
    """Compile the loop of virtual time; the machines that it steps are those of host processes."""
    from testbed.simulate import loop, state
    from testbed.workload.placed_machine import Placed

    # A world without work.
    loop.run(Placed(state.new_world(1, 0, 1, 1, 64)), 0, 1)


def warm_switches() -> None:
    """Compile the P4 program that the quickstart runs, and with it the runtime of all programs."""
    from testbed.experiment import load
    from testbed.runtimes.program import prepare

    prepare(load(QUICKSTART))


def warm_figures() -> None:
    """Have matplotlib write its list of fonts, or it does so amid the first report."""
    import matplotlib.font_manager  # noqa: F401


if __name__ == "__main__":
    warm_hosts()
    warm_virtual_time()
    warm_switches()
    warm_figures()
