"""Start of Python modules as processes that import nothing from the current folder.

`python -m MODULE` puts the current folder first on the module path, so that a file `json.py` there
runs in place of the standard library's, with the rights of the process. `python -P` does not, but
only since Python 3.11.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

# Begins text for `python -c`.
IGNORE_FOLDER = "import sys; sys.path[:] = filter(None, sys.path); "
START = (
    IGNORE_FOLDER + "del sys.argv[0]; import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *arguments: object) -> list[str]:
    """Command line that runs a module with this Python, as `python -m` would."""
    return [sys.executable, "-c", START, module, *map(str, arguments)]


def module_path(*first: str, environment: Mapping[str, str] = os.environ) -> str:
    """A PYTHONPATH: folders `first`, then those of the environment. Empty parts, which would be
    the current folder, are left out."""
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(part for part in dict.fromkeys((*first, *given)) if part)
