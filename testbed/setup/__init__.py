"""The parts of a run, computed once from an experiment.

    setup = testbed.schemes.set_up(experiment)

A `Setup` has the platform (network, switches, what they run) and a record per job: its
communicators with their trees or plans and ports (communicator.py), its fragments, window, timers
and bound (job_setups.py). The data plane, the hosts of both runtimes and the estimates of machine/
read these records, and so does a system's code (`Scheme`). build.py makes them, with routes.py,
timing.py and planning.py. host_specs.py makes what every host is told, plan_entries.py entries of
tables from a plan. rerouting.py makes a new Setup when links fail.
"""

from testbed.setup.communicator import Communicator, Ports
from testbed.setup.job_setups import Control, JobSetup, NewPart, Platform, Scheme, Setup

__all__ = ["Communicator", "Control", "JobSetup", "NewPart", "Platform", "Ports", "Scheme", "Setup"]
