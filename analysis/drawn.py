"""Search for figures and a page of a sweep that are there already.

A sweep whose points have all finished is reported by each command that runs it, and drawing the
same again takes longer than all else that such a command does. So a file in the sweep's folder says
what its figures and its page were made from, and what the files looked like.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base import text_table

from testbed import systems
from testbed.analysis.style import plot_style
from testbed.results import write_whole

if TYPE_CHECKING:
    import pandas as pd

    from testbed.analysis.data.sweep_data import Sweep

FILE = ".drawn.json"  # in the sweep's folder
POINT_PAGES = ("report.html", "report.txt")


def drawn(sweep: Sweep, frame: pd.DataFrame) -> list[Path]:
    """The figures and, last, the page of a sweep, if they are what would be drawn from its points
    now; else nothing. `frame`: of `frame` in data/sweep_data.py."""
    try:
        said = json.loads((sweep.folder / FILE).read_text(encoding="utf-8"))
        paths = [sweep.folder / name for name in said["files"]]
        same = said == _note(sweep, frame, paths)
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return paths if same else []


def note(sweep: Sweep, frame: pd.DataFrame, paths: Iterable[Path]) -> None:
    """Says in the sweep's folder that these files have been drawn: figures and, last, the page."""
    path = sweep.folder / FILE
    write_whole(path, json.dumps(_note(sweep, frame, paths)))


def _note(sweep: Sweep, frame: pd.DataFrame, paths: Iterable[Path]) -> dict[str, Any]:
    files = {}
    for path in paths:
        status = path.stat()
        files[str(path.relative_to(sweep.folder))] = [status.st_size, status.st_mtime_ns]
    return {"made_from": _made_from(sweep, frame), "files": files}


def _made_from(sweep: Sweep, frame: pd.DataFrame) -> str:
    """A hash of all that figures and page depend on: the points, their runs (whose content stays as
    it is once they have ended) and these runs' pages, their numbers, the width of figures, and the
    code."""
    content = [_code(), repr(plot_style.width_of(0.0)), sweep.name, repr(sweep.keys)]
    content += [repr(sweep.figure), repr(sweep.axis), frame.to_csv(index=False)]
    for varied in sweep.robust.runs if sweep.robust else ():
        content.append(f"{varied.key} {varied.results.folder.name if varied.results else ''}")
    for point in sweep.points:
        content += [point.key, point.system, repr(point.values)]
        if (results := point.results) is not None:
            told = (results.state, results.fidelity, results.reasons, results.notice)
            pages = [(results.folder / name).exists() for name in POINT_PAGES]  # it has links to
            content.append(f"{results.folder.name} {told!r} {pages}")
    return hashlib.sha256("\0".join(content).encode()).hexdigest()


@functools.cache
def _code() -> str:
    """A hash of the code that draws, and of the libraries' versions."""
    folders = [Path(__file__).parent, Path(systems.__file__).parent]
    sources = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    sources = [path for path in sources if "__pycache__" not in path.parts]
    whole = hashlib.sha256()
    for path in [*sources, Path(text_table.__file__)]:
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    for library in ("matplotlib", "numpy", "pandas", "plotly"):
        whole.update(version(library).encode())
    return whole.hexdigest()
