"""What a run is made from, worked out once from an experiment.

    setup = set_up(experiment)

A `Setup` has the platform (network, switches, what they run) and a record per job: its
communicators with their trees or plans and ports, its fragments, window, timers and bound
(records.py). The data plane, the hosts of both runtimes and the estimates of machine/ read these
records. build.py makes them, with routes.py, timing.py and planning.py. host_specs.py turns them
into what every host is told, plan_entries.py a plan into entries of tables. rerouting.py makes a
new Setup when links fail.
"""

from testbed.setup.build import platform_of, set_up, start_job
from testbed.setup.records import Communicator, JobSetup, Platform, Ports, Setup

__all__ = [
    "Communicator",
    "JobSetup",
    "Platform",
    "Ports",
    "Setup",
    "platform_of",
    "set_up",
    "start_job",
]
