"""Orchestration: what `run.py` does with an experiment, from the command line to the results
folder.

`commands` is the command line, `preflight` looks whether the machine can do it, `experiment_run`
goes through one run in order, with the parts that have a noun of their own beside it: hosts,
switches, the watchdog, progress, collection, fidelity.
"""
