"""An estimate of what a switch chip's pipeline would need to run a program.

The passes: `load.py` makes instances of a program's text, `flow.py` (with `calls.py`,
`expressions.py` and `ways.py`) follows a packet through a control and makes a graph of values
(`values.py`), `accesses.py` counts what a packet does to each
array, `stages.py` finds the longest chain and what is circular, `memory.py` adds up bits, and
`analysis.py` compares all of this with limits (`limits.py`). `report.py` has the result as data and
as text.

This folder imports `frontend` and `middle`, and nothing imports it but the command line: the
estimate works on the checked tree and its instances, and knows nothing of C code.
docs/fit.md has the model.
"""
