"""The command line `ina`, the same as run.py. main.py lists the commands; `commands` has a module
of each. Nothing below imports this package."""
