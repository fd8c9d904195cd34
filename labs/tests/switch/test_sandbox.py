"""A graded submission reaches nothing of the machine, whoever grades it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labs._teacher import solution
from labs.commands import main
from labs.grader import box, sandbox, seccomp
from labs.grader.box import Box, BoxDied, hand_over, remove, scratch_folder
from labs.grader.memory import Memory
from labs.tests.support import ROOT
from labs.tests.support.hostile_submission import ATTEMPTS, NO_SANDBOX
from labs.tests.support.ordinary_user import USER, WHO, run_as

pytestmark = NO_SANDBOX
PROBES = [335, 336]  # uretprobe, uprobe: the kernel ends who calls them, before it asks a filter
CONDITIONAL = (
    *("open", "openat", "fcntl", "ioctl", "prlimit64", "futex", "madvise", "mmap", "socket"),
)


def hostile(who: str, use: Callable[[Box], Any], packages: tuple[str, ...] = ("numpy",)) -> Any:
    """Result of `use` with a box that has the hostile module in it, started by root or another."""

    def graded() -> Any:
        scratch = scratch_folder()
        try:
            (scratch / "source").mkdir()
            (scratch / "source" / "hostile.py").write_text(ATTEMPTS)
            with Box("python", scratch, 20, packages) as box:
                box.call("module_load", "hostile.py")
                return use(box)
        finally:
            remove(scratch)

    return run_as(who, graded)


@contextlib.contextmanager
def open_folder():
    """A folder that every user can reach; pytest's own are root's alone."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def state(path: Path) -> tuple:
    found = path.lstat()
    attributes = os.listxattr(path)
    return stat.S_IMODE(found.st_mode), found.st_mtime_ns, found.st_uid, attributes


@pytest.mark.parametrize("who", WHO)
def test_no_attempt_at_files_processes_clocks_namespaces_or_the_network_succeeds(who):
    with open_folder() as folder:
        victim, closed = folder / "victim", folder / "closed"
        victim.write_text("untouched")
        closed.mkdir(mode=0o700)
        inside = closed / "secret"
        inside.write_text("the seed")
        if who != "root" and os.geteuid() == 0:
            for path in (victim, closed, inside):
                os.chown(path, USER, USER)
        before = [state(path) for path in (folder, victim, closed, inside)]
        own = [
            str(victim),
            str(inside),
            "/submission/source/hostile.py",
            "/packages/numpy/version.py",
        ]
        own += [sandbox._executable(), "/code/inside/worker.py", "/etc/ld.so.cache", "/dev/null"]
        parent = os.getpid()
        made = hostile(who, lambda box: box.call("function", "attempts", [own, parent]))
        done = {name for name, result in made.items() if result == "done"}
        assert done <= {"write /dev/null", "append /dev/null"}, made
        assert [state(path) for path in (folder, victim, closed, inside)] == before
        assert victim.read_text() == "untouched"
        assert {p.name for p in folder.iterdir()} == {"victim", "closed"}


@pytest.mark.parametrize("who", WHO)
def test_every_system_call_that_is_not_on_the_list_is_refused(who):
    scmp = seccomp.library()
    arch = scmp.system_arch()
    names = [*seccomp.allowed("python"), *CONDITIONAL[:-1]]
    skipped = [*PROBES, *(scmp.resolve_syscall(arch, name) for name in names)]
    made = hostile(who, lambda box: box.call("function", "every_call", [skipped]))
    assert made == {}


@pytest.mark.parametrize("who", WHO)
def test_processes_have_no_memory_in_common_and_see_nothing_of_each_others(who):
    made = hostile(who, lambda box: box.call("function", "together", []))
    assert made.pop("futex of its own") == made.pop("memory of its own") == "done"
    assert made and set(made.values()) == {"errno 1"}, made


def test_the_lists_have_no_call_that_tells_of_other_processes():
    telling = {"sysinfo", "fadvise64", "mincore", "readahead", "preadv2", "membarrier", "statfs"}
    telling |= {"get_robust_list", "futex_waitv", "flock", "sched_setaffinity", "shmget", "kill"}
    for kind in ("python", "switch", "network"):
        assert not seccomp.allowed(kind) & telling


def test_a_process_stands_still_until_it_is_called_again():
    """One that has answered by itself and goes on cannot do so while another is asked."""

    def look(box: Box) -> list:
        states = []
        for name in ("identity", "goes_on"):
            box.call("function", name, [])
            time.sleep(0.1)
            states.append(Path(f"/proc/{box.pid}/stat").read_text().rpartition(")")[2].split()[0])
        used = box.cpu_s()
        time.sleep(0.2)
        return [states, box.cpu_s() - used]

    states, used_s = hostile(WHO[0] if os.geteuid() else "root", look)
    assert states == ["T", "T"] and used_s == 0


@pytest.mark.parametrize("groups", [True, False])
def test_the_processes_of_a_grading_have_one_limit_of_memory(groups, monkeypatch):
    """Each of them has less than it may."""
    monkeypatch.setattr(box, "Memory", lambda: Memory(512 << 20, groups))
    scratch = scratch_folder()
    try:
        (scratch / "source").mkdir()
        (scratch / "source" / "hostile.py").write_text(ATTEMPTS)
        made = []
        for _ in range(4):
            made.append(Box("python", scratch, 20))
            made[-1].call("module_load", "hostile.py")
        if groups and box._memories[scratch].look_s:
            pytest.skip("this user can make no control groups here")
        for each in made[:2]:
            each.call("function", "keeps", [150])
        with pytest.raises(BoxDied, match="memory"):  # the kernel may end any of them
            for each in made[2:]:
                each.call("function", "keeps", [150])
            for each in made:
                each.call("function", "identity", [])
    finally:
        for each in made:
            each.close()
        group = box._memories[scratch]._group
        remove(scratch)
    assert scratch not in box._memories and not (group and group.exists())


def test_the_lists_have_no_call_that_changes_the_metadata_of_files():
    changing = ("chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "lchown", "utime")
    changing += ("setxattr", "lsetxattr", "fsetxattr", "mount", "chroot", "ptrace", "kill", "bpf")
    for kind in seccomp.KINDS:
        assert not seccomp.allowed(kind) & set(changing)
    assert "utimensat" not in seccomp.allowed("python") | seccomp.allowed("switch")


@pytest.mark.parametrize("who", WHO)
def test_nothing_of_the_machine_can_be_seen(who):
    with open_folder() as folder:
        other = folder / "submissions" / "ada" / "lab9_routing" / "planner.py"
        other.parent.mkdir(parents=True)
        other.write_text("def plan(network): ...")
        labs = ROOT / "labs"
        solutions = [p for p in (labs / "_teacher").rglob("*") if p.is_file()]
        places = [other, ROOT, labs, ROOT / "testbed", ROOT / "testbed/routing", *solutions]
        places += [p for p in labs.rglob("*.py") if "inside" not in p.parts]
        places += [Path(tempfile.gettempdir()), Path.home(), Path("/root"), Path("/home")]
        places += map(Path, ("/proc", "/sys", "/run", "/var", "/srv", "/opt", "/mnt", "/media"))
        places += map(Path, ("/etc/passwd", "/etc/shadow", "/etc/hostname", "/usr/local", "/boot"))
        places += [Path(f"/proc/{os.getpid()}/root"), Path("/submission/cache"), Path("/dev/shm")]
        places += [Path(f"/dev/fd/{n}") for n in range(10)]
        seen = hostile(who, lambda box: box.call("function", "found", [list(map(str, places))]))
        assert seen == []
        files = hostile(who, lambda box: box.call("function", "files", []))
    outside = ("/usr/lib", "/lib", "/etc", "/dev", "/packages/numpy", "/code/inside", "/usr/bin")
    library = str(Path(os.__file__).resolve().parent)
    assert {p for p in files if not p.startswith((*outside, library))} <= {
        "/submission/source/hostile.py",
        sandbox._executable(),
    }
    names = {Path(p).name for p in files if not p.startswith(("/packages", library))}
    assert not names & {"checks.py", "mistakes.py", "planner.py", "networks.py", "TEACHERS.md"}
    modules = ["testbed", "labs", "p4engine", "scapy", "pyseccomp", "networkx", "rich"]
    imports = hostile(who, lambda box: box.call("function", "imports", [[*modules, "numpy"]]))
    assert imports == ["numpy"]


@pytest.mark.parametrize("who", WHO)
def test_a_submission_runs_as_nobody_without_privileges(who):
    def look(box: Box) -> list:
        text = Path(f"/proc/{box.pid}/status").read_text()
        lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        names = ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp")
        return [box.call("function", "identity", []), *(lines[name] for name in names)]

    user, *more = hostile(who, look)
    assert set(user) == {sandbox.NOBODY}
    assert more == ["0" * 16] * 4 + ["1", "2"]


def test_a_submission_may_look_at_its_own_limits():
    (_, cpu_s), (_, files) = hostile(WHO[0], lambda box: box.call("function", "own_limits", []))
    assert 20 < cpu_s < 60 and files > 0


def test_a_lab_can_allow_more_packages():
    def look(box: Box) -> Any:
        return box.call("function", "imports", [["networkx", "scipy.optimize", "scapy"]])

    assert hostile("root" if os.geteuid() == 0 else "me", look, ("numpy", "networkx", "scipy")) == [
        "networkx",
        "scipy.optimize",
    ]


@pytest.mark.parametrize("who", WHO)
def test_the_compiler_sees_no_labs_and_writes_to_its_cache_only(who):
    """A P4 program can include no labs, and an attack on the compiler can change its cache only."""
    program = (
        "import os, sys\n"
        "if os.getuid() == 0:\n"
        "    os.setresgid(65534, 65534, 65534)\n"
        "    os.setresuid(65534, 65534, 65534)\n"
        "names = [os.path.join(at, n) for at, _, all in os.walk('/') for n in all]\n"
        "print([n for n in names if n.endswith(('/checks.py', '/mistakes.py', 'TEACHERS.md'))])\n"
        "print([p for p in sys.argv[1:] if os.path.lexists(p)])\n"
        "made = []\n"
        "for at, _, _ in os.walk('/'):\n"
        "    try:\n"
        "        open(at + '/.x', 'w').close()\n"
        "        made.append(at)\n"
        "    except OSError:\n"
        "        pass\n"
        "print(made)\n"
    )
    places = [str(ROOT), "/home", "/root", "/tmp", "/usr/local", "/etc/passwd", "/proc/self"]

    def look() -> list[str]:
        scratch = scratch_folder()
        try:
            for name in ("source", "cache"):
                (scratch / name).mkdir()
            hand_over(scratch / "cache")
            with open(os.devnull, "w") as null:
                words = sandbox.command("compile", scratch, (), null.fileno())
                run = subprocess.run(
                    [*words, "-c", program, *places],
                    capture_output=True,
                    text=True,
                    pass_fds=[null.fileno()],
                )
            assert run.returncode == 0, run.stderr
            return run.stdout.splitlines()
        finally:
            remove(scratch)

    assert run_as(who, look) == ["[]", "[]", "['/submission/cache']"]


# ---- where there can be no sandbox ----


def test_without_bubblewrap_nothing_is_graded(monkeypatch, capsys):
    sandbox.bubblewrap.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    try:
        assert main(["grade", "2", str(solution("lab2_aggregation"))]) == 2
    finally:
        sandbox.bubblewrap.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: grading needs bubblewrap")
    assert line.endswith("apt-get install bubblewrap")


def test_where_no_namespaces_can_be_made_nothing_is_graded(monkeypatch, capsys, tmp_path):
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    sandbox.bubblewrap.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    try:
        assert main(["grade", "2", str(solution("lab2_aggregation"))]) == 2
    finally:
        sandbox.bubblewrap.cache_clear()
    (line,) = capsys.readouterr().err.splitlines()
    assert "No permissions to create new namespace" in line and "labs/README.md" in line
