"""One module per command: `arguments(parser)` declares its arguments, `call(options)` runs it and
returns the exit code. main.py lists them."""
