"""Linux calls that Python's standard library does not offer: namespaces and other kernel calls,
processor time and identity of processes, scheduling, limits of memory, and the user behind sudo.
Imports nothing of the rest."""
