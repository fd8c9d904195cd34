"""Clocks: a jump of the wall clock changes no run, because nothing measures or waits by it."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

WALL = re.compile(
    r"\btime\.time(_ns)?\b|\bdatetime\.(now|utcnow|today)\(|CLOCK_REALTIME|\bgettimeofday\("
    r"|\btime\(NULL\)|\blocaltime\(|\b(pthread_cond|sem|mq)_timed"
)
# What reads it, and for what.
ALLOWED = {
    "testbed/results/environment.py": "the date of a run",
    "testbed/results/writer.py": "the date of a run",
    "p4fabric/src/p4fabric/netfile/run_folder.py": "the date of a run",
    "p4fabric/src/p4fabric/simulate/code_cache.py": "the age of files in a cache",
    "p4engine/src/p4engine/backend/cache.py": "the age of files in a cache",
    "p4engine/src/p4engine/runtime/stamps.h": "the clock of the kernel's stamps (test_stamps.py)",
    "p4engine/src/p4engine/p4runtime/service.py": "the date of messages to controllers",
    "p4fabric/src/p4fabric/ptf_platform/p4fabric_switch.py": "times of packets for PTF",
    "p4engine/src/p4engine/cli/shim_capture.py": "times in captures",
}


def test_the_wall_clock_is_read_for_dates_alone():
    found = set()
    for folder in ("testbed", "analysis", "traffic", "topos", "p4fabric/src", "p4engine/src"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".c", ".h") and WALL.search(path.read_text()):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == set(ALLOWED)
