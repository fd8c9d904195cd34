"""The houses of this repository, and which of them have their tests run: `./test` and `HOUSE/test`.

A house is a folder with a distribution of its own and `tests` in it; the testbed itself, the core,
has the repository's top-level folders. `./test` runs the core's tests, and those of another house
only where a file of it, or of a house that it builds on, is not as in a tree whose tests were
green: a digest of the files stands for the tree. Two records hold such digests: GREEN, which is
committed (`--record-green` writes it), and one in .venv of what was green in this checkout.

A record cannot lie about a tree that nobody has tested, because only this tree's digest is looked
for. So a merge may leave any lines of both sides in GREEN, even its marks of a conflict: each line
counts by itself, and a tree that the merge has made has a new digest. Files are found by walking,
with .gitignore, so that an archive without .git and a checkout of another user's have the same
digest as a clone.

    python -m tests.support.houses [--house NAME] [--all] [--record-green] [pytest's arguments]
    python -m tests.support.houses --changed     # list the houses that are in no record
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

BUILDS_ON: dict[str, tuple[str, ...]] = {
    "p4engine": (),
    "p4fabric": ("p4engine",),
    "labs": ("p4engine", "p4fabric"),
}
"""The houses beside the core, each with those whose changes call for its tests. Labs that use the
core are no reason to run all labs' tests: see `tests_of_the_core`."""

CORE = "testbed"
GREEN = Path("tests", "green.yaml")
HERE_GREEN = Path(".venv", ".green")
RECORDED = re.compile(r"^(\w+): ([0-9a-f]{32})$", re.MULTILINE)
TITLE = """\
# Trees whose tests were green: a digest of each house's files. HOUSE/test --record-green writes it
# (tests/support/houses.py). After a merge, lines of both sides may stay.
"""
SHOWN = 8  # digits of a digest
WHOLE = re.compile(r"-n|auto|\d+|-[qvx]+|--slow|--record-times|--durations(=\d+)?")
"""Arguments for pytest with which all tests of a house run."""
CHOOSES = ("-k", "-m", "--lf", "--last-failed", "--ff", "--deselect", "--pyargs")


@dataclass(frozen=True)
class Decision:
    """Whether the tests of a house run, and why."""

    house: str
    runs: bool
    why: str

    def __str__(self) -> str:
        return f"{self.house}: {self.why}"


def houses(root: Path) -> list[str]:
    """Those beside the core that are there, lowest first."""
    return [name for name in BUILDS_ON if (root / name / "tests").is_dir()]


def _ignored(root: Path) -> list[str]:
    """The patterns of .gitignore."""
    path = root / ".gitignore"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [line.rstrip("/") for line in lines if line.strip() and not line.startswith("#")]


def _files(root: Path, folder: Path, ignored: list[str]) -> Iterator[Path]:
    """What is neither ignored nor a folder, below a folder; links are not followed."""
    for entry in os.scandir(folder):
        path = Path(entry.path)
        whole = f"/{path.relative_to(root).as_posix()}"
        if any(fnmatch.fnmatch(whole if "/" in each else entry.name, each) for each in ignored):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(root, path, ignored)
        else:
            yield path


def digest(root: Path, house: str) -> str:
    """Of names, contents and rights to execute of the files of a house and those it builds on."""
    ignored, total = _ignored(root), hashlib.sha256()
    for part in sorted({house, *BUILDS_ON[house]} & {*houses(root)}):
        for path in sorted(_files(root, root / part, ignored)):
            linked = path.is_symlink()
            content = os.readlink(path).encode() if linked else path.read_bytes()
            kind = "link" if linked else f"{path.stat().st_mode & 0o100}"
            name = path.relative_to(root).as_posix()
            head = f"{name}\0{kind}\0{len(content)}\0"
            total.update(head.encode(errors="surrogateescape") + content)
    return total.hexdigest()[:32]


def recorded(root: Path, *records: Path) -> set[tuple[str, str]]:
    """The pairs of house and digest in records that exist."""
    texts = [(root / record).read_text() for record in records if (root / record).is_file()]
    return {pair for text in texts for pair in RECORDED.findall(text)}


def record(root: Path, path: Path, green: dict[str, str], title: str = "") -> None:
    """Replace the lines of these houses in a record by their digests."""
    others = {pair for pair in recorded(root, path) if pair[0] not in green}
    lines = [f"{house}: {each}\n" for house, each in sorted({*others, *green.items()})]
    (root / path).write_text(title + "".join(lines))


def decide(root: Path, everything: bool) -> list[Decision]:
    """For all houses, the core first."""
    made = [Decision(CORE, True, "runs")]
    known = recorded(root, GREEN, HERE_GREEN)
    named = {house for house, _ in known}
    for house in houses(root):
        short = (whole := digest(root, house))[:SHOWN]
        if everything:
            made.append(Decision(house, True, "runs"))
        elif (house, whole) in known:
            why = f"unchanged since the recorded green tree (digest {short}); "
            made.append(Decision(house, False, f"{why}./test --all or {house}/test runs it"))
        else:
            why = "changed since" if house in named else "has"
            of = "the recorded green tree" if house in named else "no recorded green tree"
            made.append(Decision(house, True, f"runs, {why} {of} (digest {short})"))
    return made


def tests_of_the_core(root: Path, house: str) -> list[Path]:
    """The test files of another house that the core's changes can break: those that import it, or
    name a folder of the house whose modules do (two labs run the testbed)."""
    imports = re.compile(rf"^\s*(?:from|import) {CORE}\b(?!\.{house}\b)", re.MULTILINE)
    texts = {path: path.read_text() for path in sorted((root / house).rglob("*.py"))}
    tests = {path: text for path, text in texts.items() if root / house / "tests" in path.parents}
    users = {
        path.parent.name
        for path, text in texts.items()
        if path not in tests and imports.search(text)
    }
    named = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(users)) or r"(?!)")
    return [
        path
        for path, text in tests.items()
        if path.name.startswith("test_") and (imports.search(text) or named.search(text))
    ]


def chooses(folder: Path, words: Iterable[str]) -> bool:
    """True if arguments for pytest name tests, so that no house is run whole."""
    return any(
        word.startswith(CHOOSES)
        or (word[:1] not in ("-", "") and (folder / word.partition("::")[0]).exists())
        for word in words
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _run(folder: Path, words: list[str]) -> int:
    """Of pytest, in a folder."""
    import pytest

    os.chdir(folder)
    return int(pytest.main(words))


def _left_out(root: Path) -> str | None:
    """Why a run here would not be a whole one."""
    sys.path.append(str(root / "p4engine" / "tests"))
    from p4engine_testing.rings import why_no_network

    return why_no_network()


def main(root: Path, words: list[str]) -> int:
    """What the head of this file says; returns pytest's exit code."""
    house, everything, write = CORE, "--all" in words, "--record-green" in words
    if "--house" in words:
        at = words.index("--house")
        house = words[at + 1]
        del words[at : at + 2]
    words = ["--slow" if word == "--all" else word for word in words if word != "--record-green"]
    if words == ["--changed"]:
        changed = [each.house for each in decide(root, False) if each.runs and each.house != CORE]
        print("\n".join(changed))
        return 0
    folder = root if house == CORE else root / house
    is_whole = all(map(WHOLE.fullmatch, words)) and not os.environ.get("PYTEST_ADDOPTS")
    if write and not is_whole:
        _say("error: --record-green is for a whole run, without names of tests")
        return 2
    if chooses(folder, words):
        return _run(folder, words)
    if write and (why := _left_out(root)):
        _say(f"error: {why}, so a run here leaves tests out; --record-green needs them all")
        return 2
    made = decide(root, everything) if house == CORE else [Decision(house, True, "runs")]
    for each in made:
        _say(str(each))
    running = [each.house for each in made if each.runs and each.house != CORE]
    digests = {name: digest(root, name) for name in running}
    if house != CORE:
        words += ["tests"]
    else:
        left = [
            path for each in made if not each.runs for path in tests_of_the_core(root, each.house)
        ]
        where = [root / name / "tests" for name in running] + [root / "tests"] + left
        words += ["-c", "pyproject.toml", *(str(path.relative_to(root)) for path in where)]
    code = _run(folder, words)
    green = {name: each for name, each in digests.items() if digest(root, name) == each}
    if code == 0 and is_whole:
        if (root / HERE_GREEN).parent.is_dir():
            record(root, HERE_GREEN, green)
        if write:
            record(root, GREEN, green, TITLE)
            _say(f"recorded as green in {GREEN}: {', '.join(sorted(green)) or 'nothing'}")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[2], sys.argv[1:]))
