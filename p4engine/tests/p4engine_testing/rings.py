"""The pytest plugin of every test folder here: the option `--slow`, and reasons to skip a ring.

A test's ring is the folder below `tests` that it lies in (unit, switch, network), so a test file
needs no marker of its own. A skipped test shows its reason in pytest's summary. Without `--slow`,
tests that are marked so are not selected, and files of nothing else are not even imported; the
summary counts both.

Tests can run side by side (`-n auto`): the files of the rings unit, switch, network and browser are
shared out. What other work would disturb (a test compares times or rates, or needs an answer soon)
is in a folder `alone` or in another ring. It runs in one process, after the others, and a lock
keeps the others waiting. (Marks of pytest-xdist for groups do nothing with pytest 9.2.)

A conftest.py takes `pytest_addoption` from `p4engine_testing.load`; however many do, the plugin is
there once.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from p4engine.backend.c_build import find_c_compiler

from p4engine_testing.temporary_files import no_temporary_file_left, temporary_folder

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

__all__ = ["no_temporary_file_left", "temporary_folder"]  # fixtures of all tests
SIDE_BY_SIDE = ("unit", "switch", "network", "browser")
FIRST = ("network", "browser")
ALONE = "alone"  # a folder
MARKERS = (
    "slow: takes long; runs only with --slow (./test --all)",
    "switch: needs a C compiler, but neither root nor a network",
    "network: builds a network; needs root",
)
TOOLS = ("ip", "unshare", "nsenter", "sysctl")
LONG = 200  # as many tests as one that is marked slow counts for, where files are put in order
LONGEST_LINE = 400  # of a failure
TIMES = "times.yaml"  # of --record-times, below the root of the tests
LOOK_S = 5.0  # between looks at how much time a test has had

SPENT_S: defaultdict[str, float] = defaultdict(float)  # by ring and by file, so far
ELSEWHERE_S: list[float] = []  # of processes that no process here has waited for
MOST = 60  # files that --record-times names
NOT_SELECTED: Counter[str] = Counter()  # tests and files that --slow would add
SLOW_FILES: set[Path] = set()  # the latter
MARKED = re.compile(
    r"^(pytestmark = )pytest\.mark\.slow$|^ *(@)pytest\.mark\.slow$|^ *(?:async )?def (test_)",
    re.MULTILINE,
)

# The first call of a compiled function loads it; that is no sign of a flaky test.
settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")
    what = f"write the processor seconds, of all processes, of rings and files to {TIMES}"
    parser.addoption("--record-times", action="store_true", help=what)


# A fork does not collect what its parent has left: the end of such an object may wait for a thread,
# which forks do not have (a server of gRPC waits so for ever).
os.register_at_fork(after_in_child=gc.freeze)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(AtOnce(config), "failures at once")


class AtOnce:
    """Prints a line for each failure when it happens: pytest's own summary comes after all tests,
    which may be an hour later."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)  # behind the letter of pytest's own progress
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if not report.failed or terminal is None:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        said = str(report.longrepr if crash is None else crash.message).strip()
        where = report.nodeid if report.when == "call" else f"{report.nodeid} ({report.when})"
        line = f"failed: {where}: {said.partition(chr(10))[0]}"
        terminal.write(f"\n{line[:LONGEST_LINE]}\n", red=True)


def why_no_network() -> str | None:
    """The reason why no network can be built here, None where one can."""
    if os.geteuid() != 0:
        return "network tests need root (sudo ./test)"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"network tests need {', '.join(missing)}" if missing else None


def folders(path: Path) -> tuple[str, ...]:
    """The folders between the innermost `tests` above a test file and the file; its ring first."""
    parts = path.parts[:-1]
    return parts[len(parts) - parts[::-1].index("tests") :] if "tests" in parts else ()


def ring(item: pytest.Item) -> str:
    return "".join(folders(Path(item.path))[:1])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_network = why_no_network()
    no_compiler = None if find_c_compiler() else "no C compiler (cc, gcc or clang)"
    if not config.getoption("--slow"):
        left_out = {item for item in items if ring(item) and item.get_closest_marker("slow")}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
        NOT_SELECTED["test"] = len(left_out)
    for item in items:
        if ring(item) == "network":
            item.add_marker(pytest.mark.network)
            if no_network:
                item.add_marker(pytest.mark.skip(reason=no_network))
        elif ring(item) == "switch":
            item.add_marker(pytest.mark.switch)
            if no_compiler:
                item.add_marker(pytest.mark.skip(reason=no_compiler))
    if hasattr(config, "workerinput"):
        # Long files first, which those of networks and browsers are too: then all processes end
        # together.
        of_file: Counter[Path] = Counter()
        for item in items:
            is_long = config.getoption("--slow") and _takes_long(item)
            of_file[item.path] += LONG if is_long else 1
        items.sort(key=lambda item: (ring(item) not in FIRST, -of_file[item.path]))
    items.sort(key=lambda item: is_alone(Path(item.path)))


def _takes_long(item: pytest.Item) -> bool:
    """True if a test takes long with --slow: as a slow one, or as one with a budget of time, of
    which there is more then."""
    is_slow = item.get_closest_marker("slow") is not None
    return is_slow or "budget" in getattr(item, "fixturenames", ())


def is_wholly_slow(path: Path) -> bool:
    """True if the text of a test file marks each of its tests as slow, or all at once."""
    found = Counter("".join(groups) for groups in MARKED.findall(path.read_text()))
    return bool(found["pytestmark = "]) or found["@"] == found["test_"] > 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file whose tests would not be selected, unless the caller names it."""
    name = collection_path.name
    if config.getoption("--slow") or not (name.startswith("test_") and name.endswith(".py")):
        return None
    named = {Path(os.path.abspath(word.partition("::")[0])) for word in config.args}
    if not folders(collection_path) or collection_path in named:
        return None
    if not is_wholly_slow(collection_path):
        return None
    if named & {*collection_path.parents}:  # and not only its neighbour
        SLOW_FILES.add(collection_path)
        NOT_SELECTED["file"] = len(SLOW_FILES)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    gc.disable()  # nothing of what is imported and collected goes away
    yield
    gc.enable()


def pytest_collection_finish() -> None:
    """Exempt objects of modules from garbage collection: scanning them repeatedly took a tenth of
    all tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One more than processors: tests also wait, for networks, browsers and other processes."""
    return len(os.sched_getaffinity(0)) + 1


def is_alone(path: Path) -> bool:
    """True if the tests of a file run while no others do."""
    way = folders(path)
    return bool(way) and (way[0] not in SIDE_BY_SIDE or ALONE in way)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Files are shared out whole, so that what a file makes once is made once."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "alone" if is_alone(config.rootpath / file) else file

    config.option.loadscopereorder = False  # the order is that of the items
    return Scheduling(config, log)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)  # around pytest-timeout: waiting does not count
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    with open(item.config.inipath or __file__) as lock:
        if hasattr(item.config, "workerinput"):
            fcntl.flock(lock, fcntl.LOCK_EX if is_alone(Path(item.path)) else fcntl.LOCK_SH)
        ELSEWHERE_S.clear()
        begun_s = sum(os.times()[:4])
        yield
        spent_s = sum(os.times()[:4]) - begun_s + sum(ELSEWHERE_S)
        for name in (ring(item), item.nodeid.partition("::")[0]):
            SPENT_S[name] += spent_s


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    for name, spent_s in node.workeroutput.get("spent_s", {}).items():
        SPENT_S[name] += spent_s
    NOT_SELECTED.update({} if NOT_SELECTED else node.workeroutput.get("not_selected", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counted = [(what, NOT_SELECTED[what]) for what in ("test", "file")]
    parts = [f"{n} slow {what}{'s' * (n != 1)}" for what, n in counted if n]
    if parts:
        terminalreporter.write_line(f"{' and '.join(parts)} not selected: ./test --all")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["spent_s"] = dict(SPENT_S)
        session.config.workeroutput["not_selected"] = dict(NOT_SELECTED)
    elif session.config.getoption("--record-times"):
        rings = [f"{name}: {s:.1f}\n" for name, s in sorted(SPENT_S.items()) if name.isidentifier()]
        files = [(s, name) for name, s in SPENT_S.items() if name.endswith(".py")]
        most = [f"# {s:6.1f}  {name}\n" for s, name in sorted(files, reverse=True)[:MOST]]
        said = "# Processor seconds of each ring, with the processes that its tests have started.\n"
        (session.config.rootpath / TIMES).write_text(said + "".join([*rings, *most]))


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings) -> bool | None:
    """Let a test's limit count what the machine had to give: of a minute in which twenty processes
    wanted two processors it counts a tenth.

    A thread keeps the time, because runs in a test's own process use the only timer of signals."""
    if threading.current_thread() is not threading.main_thread():
        return None
    from pytest_timeout import timeout_sigalrm

    def too_long(number: int, frame: object) -> None:
        timeout_sigalrm(item, settings)

    ended = threading.Event()
    before = signal.signal(signal.SIGUSR2, too_long)
    watch = threading.Thread(target=_watch, args=(settings.timeout, ended), daemon=True)
    watch.start()

    def cancel() -> None:
        ended.set()
        watch.join()
        signal.signal(signal.SIGUSR2, before)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]  # pytest-timeout calls it
    return True


def _watch(limit_s: float, ended: threading.Event) -> None:
    """Send the main thread SIGUSR2 when a test has had so much time."""
    had_s = 0.0
    while not ended.wait(LOOK_S):
        had_s += LOOK_S * min(1.0, (os.cpu_count() or 1) / max(os.getloadavg()[0], 1.0))
        if had_s >= limit_s:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
            return
