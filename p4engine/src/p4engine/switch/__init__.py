"""A compiled program as a switch: a Python object (library.py) or a process (process.py)."""
