"""The training loop that a worker replays, and the state machine of a whole host.

`training` is the loop (forward, backward, what may start when), sans-IO like the protocols that it
drives. `machine` puts a loop and a protocol together into the one object that a runtime steps. What
a machine is made of is its host's specification (testbed.setup.host_specs).
"""
