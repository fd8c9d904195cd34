"""What the training jobs send and when: model traces, and the generator that makes them.

`trace.py` (with `scaling.py`) is all that a run needs: it reads text files and imports neither
torch nor numpy. The rest (`generate.py`, `profile.py`, `times.py`, `train.py`, `definitions/`)
makes the files of `models/` again and needs the extra `traces` of pyproject.toml. docs/models.md
describes the file format.
"""
