"""The P4 programs on the embedded switch and on BMv2: the same entries and packets, the same
outcome.

    python -m tests.bmv2 esa --packets 100000
"""
