"""Virtual time: machines of hosts and compiled P4 programs under a simulated clock.

A switch is the compiled program with the traffic manager of p4engine, which models the links, too.
A host is a machine: a named tuple of arrays, with a step function. What is here is time, and the
frames between the nodes.

Reading order: `event_queue` (which event is next), `state` (nodes, and frames on their way), `loop`
(the events), `wiring` (switches and what lies between them), `frame_world` (with hosts of whole
frames), `taps` and `captures` (what passes a port). `machine` has the types of machines, `native`
C functions by address, `placed_machine` machines at addresses, so that one loop steps any type;
`generator` and `flow_machine` are hosts that send flows.
"""

from pathlib import Path

from p4fabric.simulate.code_cache import add_sources

add_sources(Path(__file__).resolve().parent, ("*.py",))
