"""The mode `--already-isolated`: one submission in a container that a platform has isolated.

Where the kernel's namespaces are refused (Gradescope, plain Docker), bubblewrap cannot make a
sandbox. Files, processes and the network are then the container's: what a submission could reach of
them is what the platform has put there. What stays is all that a process can give up by itself
(inside/walls.py): it is nobody, has limits, can make only the system calls of the list, and so can
neither write a file nor open a socket nor signal a process. For that the grader is root in the
container, and what it must not show is closed to others: the labs with their checks and solutions,
and the secret. `Isolated` looks whether that is so, and refuses otherwise.

A submission's processes find our code in a folder that is made for them, as in the sandbox:

    code/inside, code/p4engine     copies, since the originals are closed
    code/packages/PYTHON or P4     links to the Python packages of a kind of process
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from p4fabric.base.errors import UserError

from labs.grader.inside.walls import NOBODY

FLAG = "--already-isolated"
OPEN = 0o755
IGNORED = shutil.ignore_patterns("__pycache__")


class Isolated:
    """The folder of code for the processes of one grading; it is removed when the grader ends.

    Args:
        code: (folder, name in it) of what is copied.
        closed: files and folders that a submission must not read.
        prefix: of the folder's name.

    Raises UserError where the grader is not root, or something is not closed.
    """

    def __init__(
        self, code: Iterable[tuple[Path, str]], closed: Iterable[Path], prefix: str
    ) -> None:
        if os.geteuid() != 0:
            raise UserError(
                f"{FLAG}: the grader is not root here, so a submission would be the same user and"
                " read the checks; start it as root of the container"
            )
        for path in closed:
            if readable(path):
                raise UserError(
                    f"{FLAG}: a submission, which is user nobody, could read {path};"
                    f" `chmod -R go= {path}` closes it"
                )
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(OPEN)
        for source, name in code:
            shutil.copytree(source, self.folder / name, ignore=IGNORED)
        for path in self.folder.rglob("*"):
            path.chmod(OPEN if path.is_dir() else 0o644)
        self._packages: dict[tuple[str, ...], Path] = {}

    def search_path(
        self,
        library: Sequence[str],
        names: tuple[str, ...],
        found: Callable[[tuple[str, ...]], list[tuple[str, str]]],
    ) -> list[str]:
        """The `sys.path` of a process. library: the standard library's folders; found: where the
        packages of these names are, and what they are called."""
        if names not in self._packages:
            folder = self.folder / "packages" / str(len(self._packages))
            folder.mkdir(mode=OPEN, parents=True)
            for source, name in found(names):
                (folder / name).symlink_to(source)
            self._packages[names] = folder
        return [*library, str(self.folder), str(self._packages[names])]


def readable(path: Path) -> bool:
    """True if user nobody can read a file or folder, whatever the folders above it allow."""
    words = ["/usr/bin/test", "-r", str(path.resolve())]
    done = subprocess.run(words, user=NOBODY, group=NOBODY, extra_groups=[], env={})
    return done.returncode == 0


def open_submission(scratch: Path) -> None:
    """Let nobody enter a submission's folder, and read what was handed in."""
    for path in (scratch, *(scratch / "source").rglob("*"), scratch / "source"):
        if path.is_dir():
            path.chmod(OPEN)
        elif path.is_file():
            path.chmod(0o644)
