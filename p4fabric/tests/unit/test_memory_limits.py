"""The limits of a process's memory."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from p4fabric.base.linux import memory_limits

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


def test_advice_names_the_limit_of_the_address_space(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (500 * MIB, 500 * MIB))
    assert memory_limits.advice().startswith("`ulimit -v` allows 500 MiB")
