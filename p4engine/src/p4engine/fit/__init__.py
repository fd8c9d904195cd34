"""An estimate of what a switch chip's pipeline would need to run a program.

`flow.py` (with `calls.py`, `expressions.py` and `ways.py`) follows a packet through a control and
makes a graph of values (`values.py`), `accesses.py` counts what a packet does to each array,
`stages.py` finds the longest chain and what is circular, and `analysis.py` compares all of this
with limits. `report.py` has the limits and the result. `bounds.py` asks the same graph how large
indices can become.

The estimate works on the checked tree and its instances (`frontend`, `middle`). docs/fit.md has
the model.
"""
