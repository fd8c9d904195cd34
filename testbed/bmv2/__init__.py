"""BMv2, the P4 community's reference switch, as a switch of an experiment.

`compiler` turns a P4 program into BMv2's JSON with p4c, `process` is the command line of
`simple_switch`, `connection` reaches its Thrift server through p4utils, and `control` offers the
calls of the embedded switch's control client on top of that. `dry_run` stands in for a switch
before there is one. `queues` gives links their bandwidth, queue, delay and loss, `ports` tells what
went over them. docs/bmv2.md says what is modelled and how it differs from the embedded switch.

Nothing here is needed by anything else: a machine without BMv2 lacks `switch: bmv2` and no more.
"""
