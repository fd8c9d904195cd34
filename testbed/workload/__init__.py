"""The training loop that a worker replays, and the plan of who does what in an experiment.

`training` is the loop (forward, backward, what may start when), sans-IO like the protocols it
drives; `machine` puts a loop and a protocol together into the one thing that a runtime steps.
"""

import testbed.protocols  # noqa: F401  where compiled code is cached
