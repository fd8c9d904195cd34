"""What turns a state machine into a host process: sockets and a clock, nothing else."""

import testbed.protocols  # noqa: F401  where compiled code is cached
