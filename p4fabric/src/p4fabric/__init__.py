"""Networks of P4 switches and hosts.

`base` has what everything uses: errors, quantities, YAML with lines, topologies, Linux calls.
`emulate` builds networks of Linux: namespaces, links, switches and processes in them. `simulate` is
the engine of virtual time, and `netfile` has the networks that a file describes, on both. Nothing
here knows what the hosts send to each other, or why.
"""
