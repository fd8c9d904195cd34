"""Fill the compile caches, so that the first run does not wait for compilers: `python -m
testbed.warm`.

The last step of set-up. Host protocols are compiled by numba, the switch programs in p4/ by the P4
engine with each program's default constants; both caches are per user and keyed by content, so
warming twice costs only the look.
"""

from __future__ import annotations

import importlib.util
import sys


def warm_hosts() -> None:
    """Compile every function that a host process runs per packet."""
    import testbed.hosts.process

    testbed.hosts.process.warm()


def warm_figures() -> None:
    """Let matplotlib write its font list, which it otherwise does in the middle of the first
    report.
    """
    import matplotlib.font_manager  # noqa: F401


def main() -> int:
    if importlib.util.find_spec("testbed.hosts.process") is not None:
        warm_hosts()
    warm_figures()
    return 0


if __name__ == "__main__":
    sys.exit(main())
