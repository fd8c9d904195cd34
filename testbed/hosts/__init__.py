"""Host processes: they give a state machine sockets and a clock, nothing else."""

import testbed.protocols  # noqa: F401  where compiled code is cached
