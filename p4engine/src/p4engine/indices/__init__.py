"""Indices that a packet can take out of their array: `p4engine compile --warn-index`.

`flow.py` (with `calls.py`, `expressions.py` and `ways.py`) follows a packet through a control and
makes a graph of values (`values.py`). `bounds.py` asks the graph how large indices can become. All
of it works on the checked tree and its instances (`frontend`, `middle`).
"""
