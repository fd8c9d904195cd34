"""The testbed behind the command `ina` (run.py).

docs/architecture.md describes its folders and layers.

P4 programs, topologies, traces, analysis, labs and experiment files are top-level folders of a
checkout; links here lead to them (paths.py).

Importing this package imports nothing else, so that a process pays only for what it uses: a switch
process never loads numba, a host process never loads Mininet.
"""
