"""`ina doctor`: the machine's abilities, the missing parts, the remedies, and the runtimes that
work.

Everything that can be tried is tried: a C compiler compiles, Mininet is imported by a Python of its
own, the kernel's features are used in namespaces that end with the process (`kernel_probe`). What
cannot be tried, as the kernel's features without root, is said to be unknown. Nothing is installed
and nothing is left behind. The doctor is for machines on which something is missing, so this module
imports nothing but the standard library; even `rich` may be what is missing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4engine.backend.c_build import find_c_compiler
from p4engine.cli.shims_command import find_real, find_shim
from p4engine.module_start import IGNORE_FOLDER, module_command
from p4fabric.base.program import pip_install
from p4fabric.emulate.network_needs import SEES_IT

from testbed.machine import kernel_probe
from testbed.paths import DISTRIBUTIONS, PACKAGE, command_line, module_environment, sudo

OK = "ok"
MISSING = "missing"
UNKNOWN = "unknown"

EMBEDDED = "runtime: mininet, switch: embedded"
BMV2 = "runtime: mininet, switch: bmv2"
VIRTUAL = "runtime: virtual"
DEFAULT = EMBEDDED
MININET = frozenset((EMBEDDED, BMV2))
EVERY = frozenset((EMBEDDED, BMV2, VIRTUAL))
ONLY_BMV2 = frozenset((BMV2,))
NOTHING: frozenset[str] = frozenset()

# Which line goes into apt's sources depends on the distribution; the page has it.
P4LANG = "add p4lang's package source (https://github.com/p4lang/p4c#readme)"


@dataclass(frozen=True)
class Finding:
    """One thing: `state` is OK, MISSING or UNKNOWN, `detail` a version or what went wrong, `remedy`
    what mends it. Runtimes of `needed_by` do not work without it."""

    thing: str
    state: str
    detail: str
    remedy: str
    needed_by: frozenset[str]


def doctor_command(as_json: bool = False) -> int:
    """Print all findings; 0 if the default runtime works here, else 2. Raises UserError."""
    with _named("trying what this machine has"):
        findings = examine()
    if as_json:
        print(json.dumps([_data(each) for each in (*findings, *runtimes(findings))], indent=1))
    else:
        show(findings, runtimes(findings))
    return 0 if not obstacles(findings, DEFAULT) else 2


def _named(what: str) -> contextlib.AbstractContextManager[None]:
    """A step that names itself where it can."""
    try:
        from p4fabric.base.steps import step
        from rich.console import Console
    except ImportError:
        return contextlib.nullcontext()
    return step(Console(stderr=True), what)


def _data(finding: Finding) -> dict[str, str]:
    words = ("thing", "state", "detail", "remedy")
    return {word: getattr(finding, word) for word in words}


def examine() -> list[Finding]:
    """Look at everything."""
    findings = [_root(), _mininet()]
    findings += [
        _command("ip", "iproute2", "", MININET),
        _command("ifconfig", "net-tools", "", MININET),
        traffic_control(),
        _compiler(),
        *kernel_features(),
        *_packages(),
        *bmv2_tools(),
    ]
    return findings


def traffic_control() -> Finding:
    """The command that puts queueing disciplines on interfaces."""
    return _command("tc", "iproute2", "only where the switch is BMv2", NOTHING)


def bmv2_tools() -> list[Finding]:
    """Findings on the parts that BMv2 as a switch needs."""
    compilers = ("p4c-bm2-ss", "p4c")
    return [
        _tool("P4 compiler p4c", compilers, "p4lang-p4c"),
        _tool("BMv2 simple_switch", ("simple_switch",), "p4lang-bmv2"),
        _p4utils(),
    ]


def obstacles(findings: Sequence[Finding], runtime: str) -> list[str]:
    """Needs of a runtime that are missing here, or may be missing."""
    return [
        finding.thing if finding.state == MISSING else f"{finding.thing} (unknown)"
        for finding in findings
        if runtime in finding.needed_by and finding.state != OK
    ]


def runtimes(findings: Sequence[Finding]) -> list[Finding]:
    """Every runtime as a finding of its own."""
    result = []
    for runtime in (EMBEDDED, BMV2, VIRTUAL):
        lacks = obstacles(findings, runtime)
        name = runtime + (" (the default)" if runtime == DEFAULT else "")
        detail = f"needs {', '.join(lacks)}" if lacks else ""
        result.append(Finding(name, MISSING if lacks else OK, detail, "", NOTHING))
    return result


# ---- the things, one by one ----


def _run(*command: str, folder: Path | None = None) -> tuple[bool, str]:
    """Run a command: True if it ended well, and the last line that it printed."""
    environment = dict(module_environment(), PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=30,
            cwd=folder,
            env=environment,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    first, second = done.stderr, done.stdout
    if done.returncode == 0:
        first, second = second, first
    said = first if first.strip() else second
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if done.returncode < 0:
        lines.append(f"ended by signal {-done.returncode}")
    return done.returncode == 0, lines[-1] if lines else ""


def _system_package(name: str) -> str:
    if shutil.which("apt-get"):
        return f"{sudo()}apt-get install {name}"
    return f"install what Debian has as the package {name}"


def _root() -> Finding:
    if os.geteuid() == 0:
        return Finding("root", OK, "", "", MININET)
    return Finding("root", MISSING, "", command_line("doctor", root=True), MININET)


def _mininet() -> Finding:
    remedy = _system_package("mininet")
    if not shutil.which("mnexec"):
        return Finding("Mininet", MISSING, "no command mnexec", remedy, MININET)
    code = "import mininet.net; print(mininet.net.VERSION)"
    works, said = _run(sys.executable, "-c", IGNORE_FOLDER + code)
    remedy = SEES_IT if "No module named 'mininet'" in said else remedy
    return Finding("Mininet", OK if works else MISSING, said, "" if works else remedy, MININET)


def _command(name: str, package: str, purpose: str, needed_by: frozenset[str]) -> Finding:
    path = shutil.which(name)
    if path:
        return Finding(f"command {name}", OK, path, "", needed_by)
    return Finding(f"command {name}", MISSING, purpose, _system_package(package), needed_by)


def _compiler() -> Finding:
    """A C compiler for compiled P4 programs: shared objects that use the C library and its
    mathematics."""
    remedy = _system_package("gcc libc6-dev")
    path = find_c_compiler()
    if path is None:
        return Finding("C compiler", MISSING, "neither cc, gcc nor clang", remedy, EVERY)
    with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text('#include <stdio.h>\nint probe(void) { return puts(""); }\n')
        target = str(source.with_suffix(".so"))
        works, said = _run(path, "-shared", "-fPIC", "-o", target, str(source))
    if not works:
        return Finding("C compiler", MISSING, f"{path}: {said}", remedy, EVERY)
    return Finding("C compiler", OK, path, "", EVERY)


_KERNEL_REMEDY = {
    kernel_probe.NAMESPACES: "in a container: start it with --privileged",
    kernel_probe.VETH: "modprobe veth (on the machine itself, not in a container)",
    kernel_probe.PACKET_SOCKETS: "modprobe af_packet (on the machine itself)",
    kernel_probe.TRAINS: "Linux 6.2 or newer",
    kernel_probe.POLICY_ROUTING: "a kernel with CONFIG_IP_MULTIPLE_TABLES",
    kernel_probe.HTB: "modprobe sch_htb (on the machine itself)",
    kernel_probe.NETEM: "modprobe sch_netem (on the machine itself)",
}
_OPTIONAL = {
    kernel_probe.TRAINS: "only for speed: without it packets go one by one",
    kernel_probe.POLICY_ROUTING: "only where servers have several ranks",
    kernel_probe.HTB: "only where the switch is BMv2: links with a bandwidth",
    kernel_probe.NETEM: "only where the switch is BMv2: links with delay or loss",
}


def kernel_features() -> Iterator[Finding]:
    """Each feature of `kernel_probe`, tried."""
    reasons: dict[str, str] = {}
    unknown = "root is needed to try"
    if os.geteuid() == 0:
        module = "testbed.machine.kernel_probe"
        works, said = _run(*module_command(module), folder=PACKAGE.parent)
        try:
            reasons = json.loads(said) if works else {}
        except ValueError:
            works = False
        if not works:
            unknown = f"could not be tried: {said}"
    for feature in kernel_probe.FEATURES:
        needed_by = NOTHING if feature in _OPTIONAL else MININET
        thing = f"kernel: {feature}"
        if feature not in reasons:
            yield Finding(thing, UNKNOWN, unknown, command_line("doctor", root=True), needed_by)
        elif not reasons[feature]:
            yield Finding(thing, OK, "", "", needed_by)
        else:
            parts = (_OPTIONAL.get(feature), reasons[feature].removeprefix("Error: "))
            detail = "; ".join(part for part in parts if part)
            remedy = _KERNEL_REMEDY[feature]
            remedy = f"{sudo()}{remedy}" if remedy.startswith("modprobe") else remedy
            yield Finding(thing, MISSING, detail, remedy, needed_by)


def _packages() -> Iterator[Finding]:
    """The packages that the testbed depends on: one finding if all is well, else one per
    package."""
    try:
        lines = importlib.metadata.requires(DISTRIBUTIONS[0]) or []
    except importlib.metadata.PackageNotFoundError:
        detail = f"the distribution {DISTRIBUTIONS[0]} is not installed for {sys.executable}"
        yield Finding("Python packages", MISSING, detail, f"{sudo()}./demo", EVERY)
        return
    try:
        requirements = _requirements(lines)
    except ImportError:
        remedy = f"{pip_install()} packaging"
        yield Finding("Python package packaging", MISSING, "not installed", remedy, EVERY)
        return
    problems = [finding for finding in map(_package, requirements) if finding.state != OK]
    if not problems:
        yield Finding("Python packages", OK, f"all {len(requirements)}", "", EVERY)
    yield from problems


def _package(requirement: Any) -> Finding:
    thing = f"Python package {requirement.name}"
    remedy = f"{pip_install()} '{requirement.name}{requirement.specifier}'"
    if requirement.name in DISTRIBUTIONS:
        remedy = f"{sudo()}./demo"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(thing, MISSING, "not installed", remedy, EVERY)
    if not requirement.specifier.contains(version, prereleases=True):
        detail = f"{version}, not {requirement.specifier}"
        return Finding(thing, MISSING, detail, remedy, EVERY)
    return Finding(thing, OK, version, "", EVERY)


def _requirements(lines: Iterable[str]) -> list[Any]:
    """The dependencies that hold for this Python and for no extra, as packaging.Requirement."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in lines]
    return [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]


def _tool(thing: str, names: Sequence[str], package: str) -> Finding:
    path = next(filter(None, map(find_real, names)), None)
    remedy = f"{P4LANG}, then {_system_package(package)}"
    if path is None:
        shim = next(filter(None, map(find_shim, names)), None)
        what = f"no command {' or '.join(names)}"
        if shim is not None:
            what += f"; {shim} is a stand-in that runs p4engine"
        return Finding(thing, MISSING, what, remedy, ONLY_BMV2)
    works, said = _run(path, "--version")
    if not works:
        return Finding(thing, MISSING, f"{path}: {said}", remedy, ONLY_BMV2)
    return Finding(thing, OK, f"{path}, {said}" if said else path, "", ONLY_BMV2)


def _p4utils() -> Finding:
    """p4utils' Thrift API, with the modules of BMv2 and Thrift that it stands on."""
    thing = "p4utils"
    # One by one, because each has its own remedy.
    lacks = []
    bmv2 = _system_package("p4lang-bmv2")
    for module, remedy in (
        ("thrift", _system_package("python3-thrift")),
        ("bm_runtime.standard", f"comes with BMv2: {P4LANG}, then {bmv2}"),
        ("sswitch_runtime", f"comes with BMv2: {P4LANG}, then {bmv2}"),
        (
            "p4utils.utils.sswitch_thrift_API",
            f"{pip_install()} --no-deps git+https://github.com/nsg-ethz/p4-utils",
        ),
    ):
        works, said = _run(sys.executable, "-c", f"import {module}")
        if not works:
            lacks.append((module, said, remedy))
    if not lacks:
        return Finding(thing, OK, "", "", ONLY_BMV2)
    # Without the others p4utils cannot be imported either: the first is the cause.
    module, said, remedy = lacks[0]
    return Finding(thing, MISSING, f"{module}: {said}", remedy, ONLY_BMV2)


# ---- printing ----


def show(findings: Sequence[Finding], runtimes: Sequence[Finding]) -> None:
    """Print both: tables at a terminal, else one line per finding."""
    if sys.stdout.isatty():
        try:
            _show_tables(findings, runtimes)
            return
        except ImportError:
            pass
    for finding in (*findings, *runtimes):
        print(_line(finding))


def _line(finding: Finding) -> str:
    """`missing  thing: detail -> remedy`"""
    text = f"{finding.state:<8} {finding.thing}"
    if finding.detail:
        text += f": {finding.detail}"
    return text + (f" -> {finding.remedy}" if finding.remedy else "")


_COLORS = {OK: "green", MISSING: "red", UNKNOWN: "yellow"}


def _show_tables(findings: Sequence[Finding], runtimes: Sequence[Finding]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for rows, titles in (
        (findings, ("", "thing", "found", "remedy")),
        (runtimes, ("", "runtime", "")),
    ):
        table = Table(box=box.SIMPLE_HEAD)
        for title in titles:
            table.add_column(title, overflow="fold")
        for row in rows:
            state = Text(row.state, _COLORS[row.state] if row.state != MISSING else _color(row))
            cells = (row.thing, row.detail, row.remedy)[: len(titles) - 1]
            table.add_row(state, *map(Text, cells))
        console.print(table)


def _color(finding: Finding) -> str:
    """Color of a finding: red for parts that the default runtime misses."""
    return _COLORS[MISSING] if DEFAULT in finding.needed_by else _COLORS[UNKNOWN]
