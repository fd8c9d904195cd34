"""The results store: one folder per run, which outlives the run, the code and the machine.

A runtime writes it (`Writer`), analysis reads it (`read`), and neither knows the other: what they
share is the declaration of the tables in `schema.py`. Nothing here imports numpy, pandas or
matplotlib before they are needed, so that a runner pays nothing for being able to store results.
docs/results.md describes the folder for people who read it with other tools.
"""

from p4fabric.base.linux.ownership import hand_over
from p4fabric.base.linux.whole_files import whole, write_whole

from testbed.results.digest import digest, table_digest
from testbed.results.environment import checkout, describe
from testbed.results.reader import Results, ResultsError, find, read
from testbed.results.schema import SWEEP_FILE, TABLES, Column, Table
from testbed.results.schema_check import SchemaError
from testbed.results.writer import Writer

__all__ = [
    "SWEEP_FILE",
    "TABLES",
    "Column",
    "Results",
    "ResultsError",
    "SchemaError",
    "Table",
    "Writer",
    "checkout",
    "describe",
    "digest",
    "find",
    "hand_over",
    "read",
    "table_digest",
    "whole",
    "write_whole",
]
