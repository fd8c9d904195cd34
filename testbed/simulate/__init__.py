"""Virtual time: the hosts' state machines and the compiled P4 programs under a simulated clock.

Nothing is implemented twice. A host is the machine of testbed.workload that a host process steps, a
switch is the compiled program with the traffic manager of p4engine, which models the links
too. What is here is time, and the frames between the nodes.

Reading order: `workload.native` (C functions by address), `workload.placed_machine` (machines at
addresses, so that one loop steps machines of any type), `event_queue` (who is next), `state` (what
is kept of nodes and of frames on their way), `loop` (the events), `world` (all of it made from an
experiment), `simulation` (a run and its samples), `waiting` (what is said when it cannot go on).
"""

import testbed.protocols  # noqa: F401  where compiled code is cached
