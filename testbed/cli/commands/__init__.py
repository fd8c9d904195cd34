"""The commands, which main.py lists: `arguments(parser)` declares the arguments of one, and
`call(options)` runs it and returns the exit code. In a module of several these have the command's
name: `ps_arguments` and `ps`."""
