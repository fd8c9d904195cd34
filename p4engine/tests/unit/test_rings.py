"""Which tests run side by side, which run while no others do, and what their limits count."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from p4engine_testing import rings

TESTS = """
import json, os, time
import pytest

@pytest.mark.parametrize("number", range(4))
def test_something(number):
    begin = time.monotonic()
    time.sleep(0.05)
    line = json.dumps([__file__, os.getpid(), begin, time.monotonic()])
    with open({log!r}, "a") as file:
        file.write(line + "\\n")
"""


def test_what_needs_the_real_clock_runs_alone_and_in_one_process(tmp_path):
    log = tmp_path / "log"
    for name in ("unit/test_a", "unit/test_b", "clock/test_c", "clock/test_d"):
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS.format(log=str(log)))
    (tmp_path / "conftest.py").write_text("from p4engine_testing.load import pytest_addoption\n")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {' '.join(sys.path)}\n")
    words = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(ran) == 16
    alone = [each for each in ran if "/clock/" in each[0]]
    assert len({process for _, process, _, _ in alone}) == 1
    for one in alone:
        for other in ran:
            assert other is one or other[3] <= one[2] or one[3] <= other[2], (one, other)
    of_file = {file: {each[1] for each in ran if each[0] == file} for file, *_ in ran}
    assert all(len(processes) == 1 for processes in of_file.values())


@pytest.mark.parametrize(("load", "looks"), [(0.1, 20), (2.0, 20), (20.0, 200)])
def test_a_limit_counts_the_time_that_the_machine_had(monkeypatch, request, load, looks):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    before = signal.getsignal(signal.SIGALRM)
    one = SimpleNamespace(config=request.config)
    limit = SimpleNamespace(timeout=20 * rings.LOOK_S, disable_debugger_detection=True)
    try:
        assert rings.pytest_timeout_set_timer(one, limit)
        look = signal.getsignal(signal.SIGALRM)
        for _ in range(looks - 1):
            look(signal.SIGALRM, None)
        with pytest.raises(pytest.fail.Exception, match="Timeout"):
            look(signal.SIGALRM, None)
    finally:
        one.cancel_timeout()
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, rings.LOOK_S, rings.LOOK_S)
