"""The interface for Python: what `import testbed as tb` offers (docs/python.md).

experiments.py loads, changes and writes experiments; parts.py has jobs, faults and topologies as
objects; running.py runs; results.py reads what was measured; drawing.py draws sweeps. Each is a
thin layer over what the command line calls, too. Only the command line may import it.
"""
