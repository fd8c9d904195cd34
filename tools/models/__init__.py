"""Makers of the files of traffic/models/: definitions in torch, operations, and measured times.

`generate.py` writes them: `profile.py` counts the operations of a model of `definitions/`,
`times.py` gives them the measured times of `measured.py` (measured.csv and h200.csv), `train.py`
trains the one with gradients. `measure.py` measures on a GPU, `page.py` prints the tables of
docs/models.md. All but `page.py` need torch, the extra `traces` of pyproject.toml.
"""
