"""Algorithms of hosts for collectives: which rank gives what to which other rank.

The fragments of a call take turns in *chunks*. A chunk is two trees over the ranks: partial sums go
*up* to the rank that completes them, its root, and the whole sum goes *down* from it. A rank passes
a fragment on when it has all parts of it, so everything is pipelined, packet by packet. A
reduce_scatter or reduce needs the tree up alone, an all_gather or broadcast the one down.

An algorithm is a function from ranks to chunks: it says nothing of packets, losses and time
(testbed/protocols/host_sums.py does), and its least time follows from its trees (bounds.py).
"""
