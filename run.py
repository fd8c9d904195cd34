"""Entry point of the testbed: `sudo python3 run.py experiments/quickstart.yaml`, `run.py --help`.

It may be started with any Python, from any folder and with any PATH (sudo resets it). It continues
in the environment that ./demo has set up, and imports the testbed only there. So this file uses
only what every Python understands.
"""

import _signal  # it is there at once; `signal` takes a moment, in which Ctrl-C leaves a traceback

if __name__ == "__main__":
    # Nothing is built yet: until the testbed listens for it, Ctrl-C is simply the end.
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = os.path.join(HERE, ".venv")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
if os.path.exists(os.path.join(HERE, "demo")):
    REMEDY = "run `sudo ./demo` in %s first: it sets everything up, once" % HERE
else:
    REMEDY = "set it up as README.md in %s says" % HERE


def stop(message):
    sys.stderr.write("error: %s\n" % message)
    sys.exit(2)


def hand_over():
    """Continue in the project's own environment, unless this is it."""
    if os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT):
        return
    if not os.access(PYTHON, os.X_OK):
        stop("the testbed is not set up on this machine: " + REMEDY)
    if os.environ.get("INA_TESTBED_HANDED_OVER"):
        stop("%s is not a working environment (its Python may be gone): %s" % (ENVIRONMENT, REMEDY))
    os.environ["INA_TESTBED_HANDED_OVER"] = "1"
    try:
        os.execv(PYTHON, [PYTHON, os.path.abspath(__file__)] + sys.argv[1:])
    except OSError as error:
        stop("cannot start %s (%s): %s" % (PYTHON, error, REMEDY))


if __name__ == "__main__":
    hand_over()
    os.environ.pop("INA_TESTBED_HANDED_OVER", None)
    houses = [os.path.join(HERE, name, "src") for name in ("p4fabric", "p4engine")]
    sys.path[:1] = [HERE] + houses
    try:
        from testbed.cli.main import entry
    except ImportError as error:
        stop("%s; the set-up is incomplete: %s" % (error, REMEDY))
    entry()
