"""Speed and memory of the testbed: `python -m bench NAME [ARGUMENTS]`, in a checkout.

NAME is a program of this folder or one of its sweeps, NAME.yaml, which harness.py runs. `--help`
after the name prints what it measures. Without a name, all are listed.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from bench import harness

HERE = Path(__file__).resolve().parent


def known() -> dict[str, str]:
    """The first line of what each program and each sweep says of itself."""
    found = {}
    for path in sorted((*HERE.glob("*.py"), *HERE.glob("*.yaml"))):
        if path.stem not in ("__init__", "__main__", "harness"):
            found.setdefault(path.stem, path.read_text().splitlines()[0].strip('"# '))
    return found


def main() -> int:
    names = known()
    name, *arguments = sys.argv[1:] or [""]
    if name not in names:
        print((__doc__ or "").partition("\n")[0])
        print("\n".join(f"    {each:16} {about}" for each, about in names.items()))
        return 0 if name in ("", "--help") else 2
    sys.argv = [f"python -m bench {name}", *arguments]
    if (HERE / f"{name}.py").exists():
        return importlib.import_module(f"bench.{name}").main() or 0
    return harness.main(name)


if __name__ == "__main__":
    sys.exit(main())
