"""The switch process: a compiled program between network interfaces, with its control socket."""
