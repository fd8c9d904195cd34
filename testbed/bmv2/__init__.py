"""BMv2, the P4 community's reference switch, as a switch of an experiment.

`compiler` turns a P4 program into BMv2's JSON with p4c, `simple_switch` is the switch's command
line, `connection` reaches its Thrift server through p4utils, and `control_client` offers the calls
of the embedded switch's control client on top of that. `dry_run` stands in for a switch before
there is one. `link_queues` gives links their bandwidth, queue, delay and loss, and `ports` counts
what went over them. docs/bmv2.md says what is modelled and how it differs from the embedded switch.

Nothing else needs this package: a machine without BMv2 loses `switch: bmv2` and nothing more.
"""
