"""The framework behind run.py: everything that an experiment needs except P4 programs, topologies,
traces and analysis, which have top-level folders of their own.

Importing this package imports nothing else, so that a process pays only for what it uses: a switch
process never loads numba, a host process never loads Mininet.
"""
