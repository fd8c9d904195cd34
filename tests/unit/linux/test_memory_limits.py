"""What limits a process's memory, and what running out of it looks like."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.linux import memory_limits
from testbed.linux.shortage import shortage
from tests.support.experiments import changed
from tests.support.paths import ROOT

MIB = 1 << 20


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A folder of control groups without any limit."""
    monkeypatch.setattr(memory_limits, "GROUPS", tmp_path)
    return tmp_path


def write(folder, **numbers):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in numbers.items():
        (folder / f"memory.{name}").write_text(f"{value}\n")


def own_group(version: int) -> str:
    """The path of this process's group."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" if version == 2 else "memory" in controllers.split(","):
            return path.lstrip("/")
    pytest.skip(f"this process has no control group of version {version} for memory")


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_group_counts(groups, version):
    free = memory_limits.available_bytes()
    assert free > 600 * MIB
    names = {1: ("limit_in_bytes", "usage_in_bytes"), 2: ("max", "current")}[version]
    path, top = own_group(version), groups / "memory" if version == 1 else groups
    no_limit = {1: str((1 << 63) - 4096), 2: "max"}[version]
    write(top, **{names[0]: no_limit, names[1]: 10 * MIB})
    assert memory_limits.available_bytes() > 600 * MIB
    write(top, **{names[0]: 500 * MIB, names[1]: 300 * MIB})
    assert memory_limits.available_bytes() == 200 * MIB
    # Files in the cache can be dropped.
    write(top, stat=f"rss 1\ninactive_file {50 * MIB}\ntotal_inactive_file {50 * MIB}")
    assert memory_limits.available_bytes() == 250 * MIB
    if path:
        write(top / path, **{names[0]: 100 * MIB, names[1]: 99 * MIB})
        assert memory_limits.available_bytes() == MIB
    assert "its control group allows" in memory_limits.advice()


def test_what_says_that_memory_ran_out(monkeypatch):
    assert memory_limits.ran_out(MemoryError())
    assert memory_limits.ran_out(OSError(errno.ENOMEM, "x"))
    lost = ImportError("a.so: failed to map segment from shared object")
    assert not memory_limits.ran_out(lost)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (500 * MIB, 500 * MIB))
    assert memory_limits.ran_out(lost)
    assert memory_limits.says_so("OSError: Could not find/load shared object file 'x.so' from y")
    assert memory_limits.says_so("terminate called after throwing an instance of 'std::bad_alloc'")
    said = SystemError("error return without exception set")
    assert shortage(said).startswith("memory ran out; `ulimit -v` allows 500 MiB")
    assert not memory_limits.ran_out(ImportError("no module named x"))
    assert memory_limits.advice().startswith("`ulimit -v` allows 500 MiB")


@pytest.mark.parametrize(
    ("system", "mib"),
    [
        ("{name: esa, window: 64}", 211),
        ("{name: esa, window: 64}", 300),
        ("{name: grid, planner: striped}", 380),
        ("{name: grid, planner: striped}", 398),
    ],
)
def test_a_command_says_so_in_one_line(tmp_path, system, mib):
    """The first has no room for Arrow, the last two none for scipy's OpenBLAS."""
    file = tmp_path / "small.yaml"
    text = changed("{name: esa, window: 64}", system)
    file.write_text(text + "runtime: virtual\n")
    done = limited(mib, str(file), "--results", str(tmp_path))
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr
    assert says_so(done.stderr.strip().splitlines()[-1], mib)


@pytest.mark.parametrize("mib", [440, 570])
def test_a_sweeps_points_say_so(tmp_path, mib):
    """In their processes a library cannot be loaded, or no error be sent with its traceback."""
    file = tmp_path / "small.yaml"
    text = changed("{name: esa, window: 64}", "esa")
    file.write_text(text + "runtime: virtual\nsweep: {memory.aggregators: [16, 32]}\n")
    done = limited(mib, "sweep", str(file), "--processes", "1", "--results", str(tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    points = [line for line in done.stdout.splitlines() if " of 2: " in line]
    assert len(points) == 2 and all(says_so(line, mib) for line in points), done.stdout


def limited(mib: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in an address space of so much."""
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB)),
        capture_output=True,
        text=True,
        timeout=100,
    )


def says_so(line: str, mib: int) -> bool:
    return "memory" in line and f"`ulimit -v` allows {mib} MiB" in line
