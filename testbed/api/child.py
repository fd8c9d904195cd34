"""The process of a run that `run_async` has started: `python -m testbed.api.child PARENT`.

It reads what to run from standard input (JSON), runs it as the command line would, and writes one
line of JSON: the results folder, or the error. It ends in order when it is interrupted, and with
its parent.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from p4engine.process_end import exit_with
from p4fabric.base import interrupts
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux.kernel import die_with_parent
from p4fabric.base.steps import quiet_console


def main() -> int:
    """Run the requested command; returns the exit code."""
    interrupts.install()
    die_with_parent(int(sys.argv[1]), signal.SIGTERM)
    try:
        print(json.dumps(_outcome(json.load(sys.stdin))), flush=True)
    except KeyboardInterrupt:
        return interrupts.exit_code()
    return 0


def _outcome(asked: dict[str, Any]) -> dict[str, object]:
    from testbed.analysis.report import after_run
    from testbed.experiment.load import load_text
    from testbed.runner import carry_out
    from testbed.sweeps.trials import tuned

    quiet = quiet_console()
    try:
        experiment = load_text(asked["text"], asked["file"], asked["folder"], asked["stem"])
        results = Path(asked["results"])
        folder = carry_out(tuned(experiment, results), results, asked["pcap"], quiet)
        after_run(folder, quiet, draw=asked["report"])
    except UserError as error:
        return {"error": "user", "message": str(error)}
    except RunError as error:
        return {
            "error": "run",
            "message": str(error),
            "log_tail": error.log_tail,
            "log": error.log,
        }
    return {"folder": str(folder)}


if __name__ == "__main__":
    exit_with(main)
