"""The sandbox around what a student has written: what is in it, and the command that makes it.

bubblewrap makes namespaces of the kernel for one process: files, processes, network, interprocess
communication, host name. The file system in it is made of what Python or a C compiler needs, the
submission, and nothing else of the machine, all of it read-only: no checks, no solutions, no other
submissions, nobody's home, no testbed. So there is nothing that a call that changes files could
change. Inside, the process gives up the rest (inside/walls.py): it is nobody where root grades, has
limits, and can make only the system calls of a short list (seccomp.py). There is no weaker sandbox
that is chosen by itself: where bubblewrap is missing or may not make namespaces, nothing is graded,
unless somebody says that a platform has isolated the machine for one submission (isolated.py).

There are four kinds of process. *compile* runs our P4 compiler and the system's C compiler: it
starts programs and writes to a cache of the submission's own. *switch* runs what came of it.
*python* runs a student's Python. *network* is *switch* on a Mininet network: root has put it into
the switch's network namespace, in which there are only the links to the hosts.

    /code        this folder's `inside`, and the P4 engine
    /packages    Python packages from elsewhere
    /submission  what was handed in: source/, and cache/ with what was compiled of it
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import UserError

import p4engine
from labs.grader.inside.walls import NOBODY
from labs.grader.isolated import Isolated, open_submission

INSIDE = Path(__file__).resolve().parent / "inside"
ENGINE = Path(p4engine.__file__).resolve().parent
CODE, PACKAGES, SUBMISSION = Path("/code"), Path("/packages"), Path("/submission")
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or ""
# The loader, libc and the like, under the names that systems have for them.
LIBRARIES = ("/lib64", "/usr/lib64", f"/lib/{MULTIARCH}", f"/usr/lib/{MULTIARCH}")
LOADER = ("/etc/ld.so.cache", "/etc/alternatives")
# The C compiler, and what it calls and reads.
TOOLS = ("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libexec", "/usr/include")
TOOL_LINKS = ("/bin", "/lib", "/lib32", "/lib64")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")
P4_PACKAGES = ("rich", "pygments", "markdown_it", "mdurl")  # the trace's text
PYTHON_PACKAGES = ("numpy",)
REMEDY = "apt-get install bubblewrap"
PREFIX = "ina-labs-"  # of scratch folders
MEMORY_BYTES = {"compile": 3 << 30}
FILE_BYTES = {"compile": 128 << 20}
DESCRIPTORS = {"compile": 256}
OPTIONS = "-s", "-S", "-B", "-u"  # of Python
USUAL_MEMORY_BYTES, USUAL_DESCRIPTORS = 1 << 30, 64


def limits(kind: str, cpu_s: int) -> dict[str, int]:
    """Limits of a process of this kind that may use `cpu_s` seconds of a processor."""
    made = {
        "RLIMIT_CPU": cpu_s,
        "RLIMIT_AS": MEMORY_BYTES.get(kind, USUAL_MEMORY_BYTES),
        "RLIMIT_FSIZE": FILE_BYTES.get(kind, 0),
        "RLIMIT_NOFILE": DESCRIPTORS.get(kind, USUAL_DESCRIPTORS),
        "RLIMIT_CORE": 0,
    }
    if kind in ("switch", "python"):
        made["RLIMIT_NPROC"] = 0
    return made


@dataclass(frozen=True)
class Start:
    """The beginning of a process: the `words` of its command up to Python's options; where it finds
    the `submission`; its `search_path` (`sys.path`) and `environment`; `nested`: whether it is a
    child of the process that is started, which writes to the descriptor `info`."""

    words: list[str]
    submission: Path
    search_path: list[str]
    environment: dict[str, str]
    nested: bool


_isolated: Isolated | None = None  # the platform's isolation in the place of bubblewrap's


def trust_the_platform(closed: Sequence[Path]) -> None:
    """From now on make no sandbox: a platform has isolated this machine for one submission.
    closed: what that must not read. Raises UserError where it could."""
    global _isolated
    code = [(INSIDE, INSIDE.name), (ENGINE, ENGINE.name)]
    _isolated = Isolated(code, closed, f"{PREFIX}{os.getpid()}-")


def require() -> None:
    """Raises UserError where submissions cannot be confined."""
    if _isolated is None:
        bubblewrap()


def start(kind: str, work: Path, packages: Sequence[str], info: int) -> Start:
    """The beginning of a process of this kind; arguments as of `command`."""
    environment = _environment(kind)
    if _isolated is None:
        words = command(kind, work, packages, info)
        return Start(words, SUBMISSION, search_path(), {}, True)
    if kind == "network":
        raise UserError("--network needs namespaces, which a platform's container does not give")
    open_submission(work)
    if "TMPDIR" in environment:
        environment["TMPDIR"] = str(work / "cache")
    names = tuple(packages if kind == "python" else P4_PACKAGES)
    path = _isolated.search_path(search_path()[:2], names, _packages)
    return Start([_executable(), *OPTIONS], work, path, environment, False)


@functools.cache
def bubblewrap() -> str:
    """Path of the program. Raises UserError where it is missing or cannot make a sandbox."""
    path = shutil.which("bwrap")
    if path is None:
        raise UserError(f"grading needs bubblewrap, which confines submissions: {REMEDY}")
    probe = [path, *_namespaces("python"), *_binds(["/usr", "/lib", "/lib64", "/bin"])]
    done = subprocess.run([*probe, "/usr/bin/true"], capture_output=True, text=True)
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(
            f"bubblewrap cannot confine submissions here ({why[-1]}); it needs namespaces of the"
            " kernel, which this machine or container does not give; in a container for this"
            " submission alone: --already-isolated (labs/README.md)"
        )
    return path


def _namespaces(kind: str) -> list[str]:
    made = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    made += ["--unshare-cgroup-try", "--hostname", "lab"]
    if kind != "network":
        made.append("--unshare-net")
    if os.geteuid() == 0:  # root becomes nobody inside, for which it needs two privileges
        made += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        made += ["--cap-add", "CAP_NET_RAW"] if kind == "network" else []
    else:
        made += ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    return made


def command(kind: str, work: Path, packages: Sequence[str], info: int) -> list[str]:
    """The command that starts Python in a sandbox; its program and arguments are to follow.

    Args:
        kind: of process.
        work: the submission's folder, with `source` and `cache` if it has a P4 program.
        packages: Python packages that a student's Python may import.
        info: descriptor to which the ids of processes are written.
    """
    made = _binds([*(TOOLS + TOOL_LINKS if kind == "compile" else LIBRARIES), *LOADER])
    if kind == "compile":
        made += ["--ro-bind", "/proc/cpuinfo", "/proc/cpuinfo"]  # a cached object's name has it
        # The system's folders may hold an installed kit, or packages of a teacher.
        made += [word for path in _installed() for word in _empty(path)]
    made += _python()
    for device in DEVICES:
        made += ["--dev-bind", device, device]
    made += ["--ro-bind", str(INSIDE), str(CODE / "inside")]
    wanted = packages if kind == "python" else P4_PACKAGES
    if kind != "python":
        made += ["--ro-bind", str(ENGINE), str(CODE / "p4engine")]
    for source, name in _packages(tuple(wanted)):
        made += ["--ro-bind", source, str(PACKAGES / name)]
    if kind in ("compile", "python"):
        made += ["--ro-bind", str(work / "source"), str(SUBMISSION / "source")]
    if kind != "python":
        bind = "--bind" if kind == "compile" else "--ro-bind"
        made += [bind, str(work / "cache"), str(SUBMISSION / "cache")]
    if kind == "network":
        made += ["--proc", "/proc"]  # of its own processes; the packet loop reads counters there
    made = [bubblewrap(), *_namespaces(kind), "--info-fd", str(info), *_parents(made), *made]
    made += ["--chdir", str(SUBMISSION), "--remount-ro", "/", "--clearenv"]
    for name, value in _environment(kind).items():
        made += ["--setenv", name, value]
    # Not -I, which hides the environment, too: what is in it is ours. The caller sets sys.path.
    return [*made, "--", _executable(), *OPTIONS]


def _parents(operations: Sequence[str]) -> list[str]:
    """Makes the folders in which something is mounted, open to everybody; bubblewrap would make
    them for root alone."""
    made: dict[str, None] = {}
    for number, word in enumerate(operations):
        if word in ("--ro-bind", "--bind", "--dev-bind"):
            parents = Path(operations[number + 2]).parents
            made |= dict.fromkeys(str(path) for path in reversed(parents) if path != Path("/"))
    return [word for path in made for word in ("--perms", "0755", "--dir", path)]


def search_path() -> list[str]:
    """The `sys.path` inside."""
    paths = sysconfig.get_paths()
    library = Path(paths["stdlib"]).resolve()
    return [str(library), str(library / "lib-dynload"), str(CODE), str(PACKAGES)]


def _environment(kind: str) -> dict[str, str]:
    made = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    if kind == "compile":
        return {**made, "TMPDIR": str(SUBMISSION / "cache")}
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    # Sets have the same order each time; see inside/chance.py.
    return {**made, **dict.fromkeys(threads, "1"), "PYTHONHASHSEED": "0"}


@functools.cache
def _executable() -> str:
    base = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


@functools.cache
def _python() -> list[str]:
    """The interpreter and the standard library, without the packages that may lie in it."""
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    made = _binds([_executable(), str(library)])
    for name in ("site-packages", "dist-packages"):
        if (library / name).is_dir():
            made += _empty(library / name)
    for folder in {Path(sys.base_prefix).resolve() / "lib", library.parent}:
        made += _binds(sorted(map(str, folder.glob("libpython3*.so*"))))
    return made


@functools.cache
def _packages(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(where it is, its name inside) of packages and of the libraries that come with them; what is
    not installed is left out."""
    made = []
    for name in names:
        found = importlib.util.find_spec(name)
        if found is None or not found.submodule_search_locations:
            continue
        folder = Path(found.submodule_search_locations[0]).resolve()
        made.append((str(folder), name))
        libraries = folder.parent / f"{name}.libs"
        if libraries.is_dir():
            made.append((str(libraries), libraries.name))
    return made


def _installed() -> Iterator[Path]:
    """Folders of the compiler's that can hold labs: where the testbed or a kit is, and where
    Debian puts Python packages."""
    own = [INSIDE.parents[2], *map(Path, ("/usr/lib/python3/dist-packages",))]
    for path in own:
        if path.is_dir() and any(path.is_relative_to(tree) for tree in TOOLS):
            yield path


def _empty(path: Path) -> list[str]:
    """An empty folder in the place of another."""
    return ["--tmpfs", str(path), "--remount-ro", str(path)]


def _binds(paths: Sequence[str]) -> list[str]:
    """Each path that exists, read-only and under its own name; a link stays a link."""
    made = []
    for path in paths:
        if os.path.islink(path) and not path.startswith("/etc"):
            made += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            made += ["--ro-bind", path, path]
    return made
