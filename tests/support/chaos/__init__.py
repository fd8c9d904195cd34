"""Runs on Mininet to which things happen at random: each ends exact, or failed with its cause, and
nothing of it is left.

    sudo .venv/bin/python -m tests.support.chaos --minutes 60 [--seed N] [--events K]
    sudo .venv/bin/python -m tests.support.chaos --seed N --only NUMBER

An event is one call of `run.py` with a small experiment, while which processes are killed or
stopped, a file system fills up, memory or processors become scarce, or a stranger floods a switch.
What happens, to which experiment, and when, follows from the seed and the event's number alone;
so `--only` repeats one event. (The machine's own timing is not repeated.) Afterwards the
invariants are checked. The folder of an event that breaks one is kept, and named with the command
that repeats it.

plans.py draws events, environment.py limits what they have, one_run.py carries out an event,
processes.py finds a run's processes, invariants.py judges an event, campaign.py runs many.
"""
