"""Results as one file that somebody else can check: packed here, run again there.

`archive` is the file and its rules, `pack` makes it, `verify` runs it again and compares.
docs/artifacts.md describes the format.
"""
