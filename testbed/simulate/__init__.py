"""Virtual time: the hosts' state machines and the compiled P4 programs under a simulated clock.

Nothing is implemented twice. A host is the machine of testbed.workload that a host process steps, a
switch is the compiled program with the traffic manager of p4engine, which models the links
too. What is here is time, and the frames between the nodes.

The clock, the events, frames, switches and captures are those of p4fabric.simulate. Reading order:
`world` (all of it made from an experiment), `parts` (several threads, and the same results),
`simulation` (a run and its samples), `waiting` (the error when nothing can happen any more).
"""
