"""Results that a worker keeps for others, against a dictionary; and a worker that gives them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.protocols import given as given_values
from testbed.protocols import kept_results, wire
from tests.support.one_host import BASE, OneWorker

FRAGMENTS, WORDS = 3, 4


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, FRAGMENTS - 1), st.booleans(), st.integers(0, 0xFFFF)
        )
    )
)
def test_the_latest_result_of_a_switch_is_kept_for_two_rounds(came):
    kept = kept_results.new_kept_results(FRAGMENTS, WORDS)
    known: dict[tuple[int, int], tuple[int, list[int]]] = {}  # (round and content) by row
    for number, (iteration, fragment, by_switch, flags) in enumerate(came, 1):
        packet = np.full(wire.HEADER_WORDS + WORDS, number, np.uint32)
        wire.set_word(packet, 0, flags)
        wire.set_word(packet, 5, (1 if by_switch else wire.SERVER) << 16)
        kept_results.keep(kept, iteration, fragment, packet)
        if by_switch:
            kept_flags = [flags & wire.INTEGERS, *[0] * (wire.HEADER_WORDS - 1)]
            known[iteration % 2, fragment] = iteration, kept_flags + [number] * WORDS
        for old in range(-1, 6):
            for each in range(FRAGMENTS):
                round_of, content = known.get((old % 2, each), (None, []))
                assert kept_results.has(kept, old, each) == (round_of == old)
                if round_of == old:
                    row = np.zeros(wire.HEADER_WORDS + WORDS, np.uint32)
                    kept_results.write(kept, old, each, row)
                    row[0] = wire.word(row, 0)  # in the byte order of this machine
                    assert row.tolist() == content


def test_a_worker_gives_the_results_of_two_rounds():
    """Its program has got them, and may have changed the values that it gave."""
    worker = OneWorker("esa", window=40, timeout="2 ms")
    worker.replace(kept=kept_results.new_kept_results(worker.fragments, BASE + 4 - 6))
    worker.step(0)
    for iteration in range(3):
        came = [worker.result(f, iteration, sender=1) for f in range(worker.fragments)]
        worker.step(1000 * iteration + 1, *came[: -1 if iteration == 2 else None])
    worker.replace(given=given_values.new_given(9, 9, 3))
    sent = len(worker.step(2500))
    before = worker.counters
    for iteration, fragment in ((2, 4), (1, 5), (0, 6)):
        ask = worker.packet(wire.ASK, fragment, iteration, flags=wire.AGAIN)
        again = worker.step(3000, ask)
        if iteration == 0:  # no worker can lack it
            assert again == []
            continue
        (packet,) = again
        assert packet.kind == wire.GRADIENT and packet.flags == wire.RESEND | wire.PARTIAL
        assert packet.fragment == iteration * worker.fragments + fragment
        assert (packet.bitmap, packet.sender) == (0b111, 0)
        assert packet.values == worker.sum_of(range(3), fragment, iteration)
    counted = {name: worker.counters[name] - before.get(name, 0) for name in worker.counters}
    assert sent == 0 and counted["answered_asks"] == 2
    assert counted["gradient_packets"] == counted["retransmissions"] == 2
