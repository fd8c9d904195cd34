"""The command line: `ina`, the same as run.py. main.py has the list of commands; a command that is
more than a call has a file of its own. Nothing below imports this package."""
