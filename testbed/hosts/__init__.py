"""Host processes: they give a state machine sockets and a clock, nothing else."""
