"""The P4 programs on the embedded switch and on BMv2: the same entries and packets, the same
outcome.

    python -m tests.bmv2 esa --packets 100000

`cases` are experiments whose switch is compared, `packets` makes a random sequence for one,
`entries` and `simple_switch` fill and drive BMv2, `compare` runs a case on both and tells the first
difference.
"""
