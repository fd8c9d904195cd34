"""Host processes: they give a state machine sockets and a clock, nothing else."""

from testbed import protocols as protocols  # with which numba learns where its cache is
