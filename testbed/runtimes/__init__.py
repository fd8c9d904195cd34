"""What runs on Mininet and runs in virtual time have in common: the P4 program and its dry run, the
live view, interrupts, and the rows of the results' tables."""
