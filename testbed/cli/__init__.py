"""The command line `ina`, the same as run.py. main.py lists the commands, and `commands` has a module
for each. Nothing below imports this package."""
