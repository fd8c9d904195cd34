"""The P4 programs on the embedded switch and on BMv2: the same entries and packets, the same
outcome.

    python -m tests.bmv2 esa --packets 100000

`cases` are experiments whose switch is compared, `packets` makes a random sequence for one,
`simple_switch` drives a BMv2 that `testbed.bmv2` fills, `compare` runs a case on both and tells the
first difference.
"""
