"""`python -m p4fabric`."""

from p4fabric.cli import entry

entry()
