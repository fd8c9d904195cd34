"""`python -m labs`: the commands of commands.py.

Where this Python lacks their packages, it continues in the environment .venv beside this folder.
So this file uses only what every Python has.
"""

from __future__ import annotations

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENT = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")


def remedy() -> str:
    """The remedy for a missing package."""
    if os.path.exists(os.path.join(ROOT, "demo")):
        return f"run `sudo ./demo` in {ROOT} first"
    if not os.path.exists(os.path.join(ROOT, "requirements.txt")):
        return "`python -m pip install ina-labs` installs what is missing"
    return (
        f"in {ROOT}, run `python3 -m venv .venv` and `.venv/bin/python -m pip install -r"
        " requirements.txt` first"
    )


if __name__ == "__main__":
    try:
        from labs.commands import main
    except ImportError as error:
        elsewhere = os.path.realpath(sys.prefix) != os.path.realpath(ENVIRONMENT)
        if elsewhere and os.access(PYTHON, os.X_OK):
            path = os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
            environment = {**os.environ, "PYTHONPATH": path}
            os.execve(PYTHON, [PYTHON, "-m", "labs", *sys.argv[1:]], environment)
        sys.stderr.write(f"error: {error}: {remedy()}\n")
        sys.exit(2)
    sys.exit(main())
