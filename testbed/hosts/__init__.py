"""What turns a state machine into a host process: sockets and a clock, nothing else."""
