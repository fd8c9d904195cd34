"""Traffic of training jobs: model traces, recordings, programs of ranks and arrivals.

`trace.py`, `buckets.py` and `scaling.py` are all that a run needs of a model: they read the text
files of `models/` and import neither torch nor numpy. `tools/models` of a checkout makes these
files. docs/models.md describes their format.
"""
