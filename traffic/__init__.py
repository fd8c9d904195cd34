"""Traffic of training jobs: model traces, and the generator that makes them.

`trace.py`, `buckets.py` and `scaling.py` are all that a run needs of a model: they read text files
and import neither torch nor numpy. `generate.py`, `profile.py`, `times.py`, `train.py` and
`definitions/` make the files of `models/` again, from measured.csv among others, and need the extra
`traces` of pyproject.toml. docs/models.md describes the file format.
"""
