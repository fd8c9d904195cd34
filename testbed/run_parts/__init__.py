"""The common parts of runs on Mininet and in virtual time: the P4 program and its dry run, the
live view, interrupts, which ports are captured, and the rows of the results' tables."""
