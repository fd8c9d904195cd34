"""Virtual time: the hosts' state machines and the compiled P4 programs under a simulated clock.

Nothing is implemented twice. A host is the machine of testbed.workload that a host process steps, a
switch is the compiled program with the traffic manager of p4engine, which models the links
too. What is here is time, and the frames between the nodes.

Reading order: `event_queue` (which event is next), `state` (nodes, and frames on their way), `loop`
(the events), `wiring` (switches and what lies between them), `frame_world` (with hosts of whole
frames), `world` (all of it made from an experiment), `parts` (several threads, and the same
results), `simulation` (a run and its samples), `waiting` (the error when nothing can happen any
more), `taps` and `captures` (what passes a port). testbed.workload has `native` (C functions by
address) and `placed_machine` (machines at addresses, so that one loop steps any type).
"""
