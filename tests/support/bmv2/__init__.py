"""Both switches under the same packets.

`cases` are experiments whose switch is compared, `packets` makes a random sequence for one,
`simple_switch` drives a BMv2 that `testbed.bmv2` fills, `compare` runs a case on both and tells the
first difference.
"""
