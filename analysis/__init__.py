"""Numbers, printed tables and figures of runs. Reads only the results store."""

import os
import pwd
from pathlib import Path


def _keep_caches_apart() -> None:
    """matplotlib caches its list of fonts below $HOME. Where sudo has kept the caller's $HOME, that
    would leave files of root's there; root's own home takes them instead."""
    own = pwd.getpwuid(os.geteuid()).pw_dir if os.geteuid() == 0 else None
    if own is not None and Path.home() != Path(own):
        os.environ.setdefault("MPLCONFIGDIR", f"{own}/.cache/ina-testbed/matplotlib")


_keep_caches_apart()
