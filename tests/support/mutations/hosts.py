"""The hazards that servers and workers guard against: what they must know about packets that are
late, doubled, or sums of several workers."""

from __future__ import annotations

from tests.support.mutations.mutation import Histories, Mutation

SERVER = "testbed/protocols/pool_server.py"
WORKER = "testbed/protocols/pool_worker.py"
LOSS_RECOVERY = "testbed/protocols/server_losses.py"

MUTATIONS = (
    # ---- parameter servers ----
    Mutation(
        "server: overlapping sums are not added",
        "workers that are in two sums are counted twice",
        SERVER,
        "        elif not common:\n",
        "        elif True:\n",
        Histories("esa"),
    ),
    Mutation(
        "server: only what contains all replaces",
        "workers that a sum lacks are lost, although their bits stay",
        SERVER,
        "        elif not fewer:\n",
        "        elif True:\n",
        Histories("esa"),
    ),
    Mutation(
        "server: past iterations are over",
        "a late packet enters the sum of a fragment two iterations later",
        SERVER,
        "        if iteration < server.iteration[place]:\n",
        "        if iteration < server.iteration[place] - 2:\n",
        Histories("esa", budget=80),
    ),
    Mutation(
        "server: results are served again",
        "a worker whose result got lost never gets it",
        SERVER,
        "            if flags & wire.RESEND and worker < config.workers:\n"
        "                out_lengths[filled]",
        "            if flags & wire.RESEND and worker > config.workers:\n"
        "                out_lengths[filled]",
        Histories("esa"),
    ),
    Mutation(
        "server: it reminds",
        "the remainder of an evicted fragment waits for the workers' timers",
        LOSS_RECOVERY,
        "        if server.config[0].remind == 1:\n",
        "        if server.config[0].remind == 2:\n",
        Histories("esa", lossless=True),
    ),
    Mutation(
        "server: ATP's is reminded likewise",
        "the same: every system with a pool needs the pull",
        LOSS_RECOVERY,
        "        if server.config[0].remind == 1:\n",
        "        if server.config[0].remind == 2:\n",
        Histories("atp", lossless=True, options={"gap": 0}),
    ),
    # ---- workers ----
    Mutation(
        "worker: a result counts once",
        "a tensor is taken for finished before it is",
        WORKER,
        "        if scoreboard.status[fragment] & send_scoreboard.RECEIVED:\n"
        "            counters.duplicate_results",
        "        if scoreboard.status[fragment] & 0:\n            counters.duplicate_results",
        Histories("esa"),
    ),
    Mutation(
        "worker: past results are over",
        "a late result is checked against another iteration's sum",
        WORKER,
        "        if iteration < scoreboard.state[0].iteration:\n            counters.stale += 1\n",
        "        if iteration < -1:\n            counters.stale += 1\n",
        Histories("esa"),
    ),
    Mutation(
        "worker: retransmissions say so",
        "a retransmission claims an aggregator that can never fill",
        WORKER,
        "worker, scoreboard, now, packets, lengths, filled, fragment, wire.RESEND\n",
        "worker, scoreboard, now, packets, lengths, filled, fragment, 0\n",
        Histories("esa", options={"reminder": "false"}),
    ),
    Mutation(
        "SwitchML's worker: timers",
        "what is lost is not sent again",
        "testbed/protocols/switchml.py",
        "        late = worker.due_ns[slot] <= now\n",
        "        late = worker.due_ns[slot] < 0\n",
        Histories("switchml"),
    ),
    Mutation(
        "ring: a sum counts once",
        "a packet that comes twice is added twice",
        "testbed/protocols/ring.py",
        "    if member.stage[place] & ring_link.RECEIVED:\n",
        "    if member.stage[place] & 0:\n",
        Histories("ring"),
    ),
    Mutation(
        "ring: what is late is acknowledged",
        "a neighbour whose acknowledgement got lost sends for ever",
        "testbed/protocols/ring.py",
        "            counters.stale += 1\n"
        "            ring_link.acknowledge(member, wire.index(row), flags, now)\n",
        "            counters.stale += 1\n",
        Histories("ring"),
    ),
)
