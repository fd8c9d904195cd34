"""Dispatch and combine of a set of ranks: right values under loss, copies and late packets on every
system, and the bytes of every link by a closed form."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError
from p4fabric.base.transports import LOSSLESS_TIMEOUT_NS

from testbed.experiment import load_text
from testbed.protocols.tokens import new_worker
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.budget import Budget
from tests.support.experiments import memory_line
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: experts
runtime: virtual
topology: %s
links: {bandwidth: 100 Gbit/s, delay: 1 us%s}
system: {name: %s, zeros: %s}
%s
values_per_packet: 64
jobs: [{model: %s, workers: %d, iterations: 2, scale: 1}]
"""
FAULTS = ", loss: 2 %, duplicate: 1 %, reorder: 1 %, reorder_delay: 20 us"
HEADER = 14 + 20 + 8 + 24 + 4  # bytes of a frame without values, bitmap of 32 bits
FRAME = HEADER + 4 * 64


def experiment(
    folder,
    made,
    ranks,
    system="switchml",
    links="",
    zeros="header_only",
    calls="sets",
    aggregators=256,
    topology="",
):
    file = folder / "tokens.et"
    made.write(file)
    memory = memory_line(system, aggregators)
    model = f"{{file: {file}, experts: {{calls: {calls}}}}}"
    topology = topology or f"{{kind: star, hosts: {ranks + 1}}}"
    return load_text(EXPERIMENT % (topology, links, system, zeros, memory, model, ranks))


def exchange(ranks, sets, size):
    """Rank 0 gives tokens to each set of other ranks, and gets the sum of their answers."""
    groups = {f"set.{n}": (0, *others) for n, others in enumerate(sets)}
    made = Ranks(all=tuple(range(ranks)), **groups)
    for number, others in enumerate(sets):
        for rank in (0, *others):
            fields = {"group": f"set.{number}", "peer": 0, "bytes": size, "dtype": "int32"}
            sent = made.add(rank, "dispatch", **fields)
            worked = made.add(rank, "compute", (sent,), duration_ns=1000)
            made.add(rank, "combine", (worked,), **fields)
    for rank in range(ranks):  # those in no set
        made.add(rank, "compute", duration_ns=1)
    return made


def test_packets_that_name_ranks_need_a_switch_that_adds_up(tmp_path):
    with pytest.raises(UserError, match="needs one of the systems esa, atp"):
        experiment(tmp_path, exchange(4, [(1, 2), (3,)], 3000), 4, "ring", calls="packets")


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_what_a_pool_keeps_is_asked_for_also_where_links_lose_nothing(system, tmp_path):
    """After as long as a server takes to remind, and not after that of a loss."""
    made = exchange(4, [(1, 2), (1, 3), (1, 2, 3)], 30_000)
    spec = experiment(tmp_path, made, 4, system, ", lossless: pfc", calls="packets", aggregators=4)
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"] and job["retransmissions"]
    assert job["jct_ns"] < LOSSLESS_TIMEOUT_NS


def test_tokens_in_packets_have_the_priorities_of_their_calls(tmp_path):
    spec = experiment(tmp_path, exchange(3, [(1, 2)], 900), 3, "esa", calls="packets")
    job = spec.jobs[0].model_copy(update={"priorities": {"combine": 3, "dispatch": 200}})
    setup = set_up(spec.model_copy(update={"jobs": (job,)}))
    (tokens,) = (each for each in host_specs(setup)[0].members if each.job.wanted)
    assert sorted(new_worker(tokens).level) == [3, 200]


TOPOLOGIES = (
    "{kind: star, hosts: 7}",
    "{kind: leaf_spine, leaves: 3, spines: 2, hosts: 3}",
    "{kind: fat_tree, k: 4}",
)


SYSTEMS = ("switchml", "tree", "esa", "atp", "a2tp", "ps", "ring", "double_tree")
WAYS = [("packets", system) for system in SYSTEMS[:5]] + [("sets", system) for system in SYSTEMS]


@st.composite
def exchanges(draw):
    """(program, number of ranks, values that they check): layers of calls of several owners,
    perhaps under way together, and a sum of all ranks beside them."""
    ranks, together = draw(st.integers(2, 6)), draw(st.booleans())
    everyone = st.sets(st.integers(0, ranks - 1), min_size=2).map(sorted)
    layers = draw(st.lists(st.lists(everyone, max_size=6), min_size=1, max_size=3).filter(any))
    made = Ranks(all=tuple(range(ranks)))
    last = {rank: [made.add(rank, "compute", duration_ns=5)] for rank in range(ranks)}
    due = 0
    for layer in layers:
        calls, answered = [], {rank: [] for rank in last}
        for members in layer:
            owner, size = draw(st.sampled_from(members)), draw(st.sampled_from((1, 64, 65, 900)))
            made.groups[name := f"set.{'.'.join(map(str, members))}"] = tuple(members)
            calls.append((members, dict(group=name, peer=owner, bytes=4 * size, dtype="int32")))
            due += size * len(members)
        sent = {rank: [] for rank in last}
        for members, fields in calls:
            for rank in members:
                sent[rank].append(made.add(rank, "dispatch", tuple(last[rank]), **fields))
        for rank in last:
            after = tuple(sent[rank] or last[rank])
            worked = made.add(rank, "compute", after, duration_ns=draw(st.sampled_from((1, 9000))))
            answered[rank] = [worked]
            for members, fields in calls:
                if rank in members:
                    answered[rank].append(made.add(rank, "combine", (worked,), **fields))
            last[rank] = [worked] if together else answered[rank]
    for rank in last:
        made.add(rank, "all_reduce", (0,), group="all", bytes=4000, dtype="int32")
    return made, ranks, due + 1000 * ranks


@pytest.mark.timeout(900)
def test_any_tokens_are_exact(budget: Budget, tmp_path):
    """Whatever is lost, evicted, collides or comes late, between few aggregators and on many
    switches, with one expert for all tokens or none for some; in packets that name their ranks and
    in calls of sets."""
    budget.seconds /= 2

    @settings(
        max_examples=budget.examples,
        derandomize=True,
        suppress_health_check=[*HealthCheck],
        deadline=None,
    )
    @given(
        exchanges(),
        st.sampled_from(WAYS),
        st.sampled_from(TOPOLOGIES),
        st.sampled_from(["", FAULTS, ", loss: 8 %, duplicate: 5 %"]),
        st.sampled_from(["header_only", "sent, window: 4"]),
    )
    def right(drawn, way, topology, links, zeros):
        (made, ranks, due), (calls, system) = drawn, way
        if budget.is_spent():
            return
        spec = experiment(tmp_path, made, ranks, system, links, zeros, calls, 64, topology)
        with budget.example():
            (job,) = run_virtual(spec)["jobs"]
            assert job["exact"] and job["values_checked"] == 2 * due

    right()


def test_a_rank_may_send_zeros_that_nobody_needs(tmp_path):
    """Links' loads leave these out."""
    made = exchange(2, [(1,)], 1)
    (job,) = run_virtual(experiment(tmp_path, made, 2, zeros="sent, window: 4"))["jobs"]
    assert job["exact"]


@pytest.mark.parametrize("calls, bitmaps", [("sets", 1), ("packets", 2)])
@pytest.mark.parametrize("k", [1, 2, 8])
def test_bytes_of_every_link_are_those_of_the_closed_form(k, calls, bitmaps, tmp_path):
    """A dispatch is one copy up and one down for each of k ranks, a combine k up and one down, of F
    frames with values; the others of the set say by a header that they are there, and learn by one
    that all were."""
    others, frames = tuple(range(1, k + 1)), 5
    made = exchange(9, [others], frames * 256)
    links = run_virtual(experiment(tmp_path, made, 9, calls=calls))["links"]
    header, frame = (size + 4 * (bitmaps - 1) for size in (HEADER, FRAME))
    found = {
        (row["neighbour"], row["direction"]): row["bytes"]
        for row in links
        if row["neighbour"].startswith("h")
    }
    times = 2 * frames  # iterations
    with_values = times * frame + times * header  # one of the two calls, and the other
    for rank in range(9):
        expected = with_values if rank <= k else 0
        for direction in ("ingress", "egress"):
            assert found[f"h{rank + 1}", direction] == expected, (rank, direction)
    # As flows the owner sends and gets k copies of each frame.
    assert found["h1", "ingress"] - times * header == times * frame


OF_SETS = ("sets", "packets")
MODEL = """
name: experts
runtime: virtual
topology: {kind: star, hosts: 4, per_server: 2}
links: {bandwidth: 100 Gbit/s, delay: 1 us%s}
system: {name: switchml, zeros: header_only}
memory: {aggregators: 4096}
values_per_packet: 256
jobs:
  - model:
      transformer: mixtral-8x7b
      sequence: 128
      global_batch: 4
      layers: 1
      experts: {calls: %s, skew: 1}
    parallel: {ep: 4}
    workers: 4
    iterations: 1
    scale: 0.0001
    compute_scale: 0
"""


def test_a_model_s_experts_are_those_that_were_counted(tmp_path):
    """No token goes to the ranks whose experts were never chosen."""
    (tmp_path / "counts.csv").write_text("expert, count\n0, 3\n1, 5\n2, 8\n")  # of ranks 0 and 1
    calls = f"sets, counts: {tmp_path}/counts.csv"
    spec = load_text((MODEL % ("", calls)).replace(", skew: 1", ""))
    rows = run_virtual(spec)["collectives"]
    sets = {row["communicator"] for row in rows if row["collective"] == "dispatch"}
    assert sets and all({*map(int, name.split())} & {0, 1} for name in sets)
    assert not {"2 3", "all"} & sets
    shown = spec.resolved_yaml()
    assert load_text(shown).resolved_yaml() == shown


@pytest.mark.parametrize("calls", ["sets", "packets", "flows, capacity: 0.8", "rails"])
def test_a_model_s_tokens_travel_by_sets_flows_or_rails(calls):
    spec = load_text(MODEL % (", loss: 1 %", calls))
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"]
    # Of 4 x 128 tokens' two answers each.
    least = 0.2 * 1024 if "capacity" in calls else None
    dropped = job["answers_dropped"]
    assert dropped is least is None or least < dropped < 1024
    kinds = {row["collective"] for row in tables["collectives"]} - {"all_reduce"}
    assert kinds == ({"dispatch", "combine"} if calls in OF_SETS else {"all_to_all"})
    shown = spec.resolved_yaml()
    assert (
        load_text(shown).resolved_yaml() == shown and f"calls: {calls.partition(',')[0]}" in shown
    )
