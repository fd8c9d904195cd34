"""What an experiment may ask for with `switch: bmv2`, and what becomes of its links."""

from __future__ import annotations

import pytest

from testbed.bmv2 import link_queues as queues
from testbed.experiment import load_text
from tests.support.experiments import BASE, message
from tests.support.switches import Recorder

ON_BMV2 = BASE + "switch: bmv2\n"
FRAME = 14 + 20 + 8 + 24 + 4 + 4 * 64


def links(text: str) -> str:
    """An experiment with other links; `text` is what stands below `links:`."""
    return ON_BMV2.replace("bandwidth: 100 Mbit/s\n  delay: 10 us", text)


def shaped(text: str) -> list[tuple]:
    recorder = Recorder()
    queues.shape_queues(load_text(text), "s1", recorder)
    return recorder.calls


def qdiscs(text: str) -> dict[str, list[str]]:
    experiment = load_text(text)
    return queues.qdiscs(experiment, experiment.topology_object())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bandwidth: 2 Gbit/s", "links.bandwidth: h1 to s1: found 2 Gbit/s; allowed with BMv2"),
        ("bandwidth: 100 kbit/s", "260.8 kbit/s (100 packets of 326 B) to 1 Gbit/s, or unlimited"),
        ("delay: 1 ms\n  jitter: 1 us", "links.jitter: h1 to s1: found 1 us; BMv2 has none"),
        ("duplicate: 1 %", "links.duplicate: h1 to s1: found 1 %; BMv2 has none. Allowed: 0"),
        ("reorder: 1 %", "links.reorder: h1 to s1: found 1 %; BMv2 has none"),
        (
            "each: [{between: [h4, s1], backward: {reorder: 1 %}}]",
            "s1 to h4: found 1 %; BMv2 has none. Allowed: 0; take this key out",
        ),
    ],
)
def test_what_bmv2_cannot_do_is_an_error(text, expected):
    assert expected in message(links(text))
    assert "1 error in the experiment" in message(links(text))


def test_a_rate_of_exactly_the_limits_is_allowed():
    assert load_text(links("bandwidth: 1 Gbit/s")).switch == "bmv2"
    assert load_text(links("bandwidth: 260.8 kbit/s")).switch == "bmv2"


def test_virtual_time_has_no_bmv2():
    said = message(ON_BMV2 + "runtime: virtual\n")
    assert "switch: found 'bmv2' with runtime virtual, which only has the embedded switch" in said


def test_a_bandwidth_is_as_many_whole_packets():
    assert queues.packets_per_s(1_000_000, FRAME) == 383  # 383.4
    calls = shaped(links("bandwidth: 1 Mbit/s\n  queue: 70 packets"))
    assert calls[:2] == [("queue_rate", 383, 1), ("queue_depth", 70, 1)]
    assert len(calls) == 2 * 10


def test_each_direction_has_its_own_rate():
    """What leaves the switch is the switch's; what leaves a host is limited there."""
    text = links("each: [{between: [h3, s1], forward: {bandwidth: 1 Mbit/s}}]")
    assert ("queue_rate", 0, 3) in shaped(text)
    assert ("queue_depth", queues.DEEP_PACKETS, 3) in shaped(text)
    assert set(qdiscs(text)) == {"h3"}
    text = text.replace("forward", "backward")
    assert ("queue_rate", 383, 3) in shaped(text)
    assert qdiscs(text) == {}


def test_a_host_is_limited_by_htb_with_a_queue_of_packets():
    lines = qdiscs(links("bandwidth: 1 Mbit/s\n  queue: 70 packets"))["h2"]
    assert lines[0] == "qdisc add dev h2-eth0 root handle 1: htb default 1"
    assert "dev h2-eth0 parent 1: classid 1:1 htb rate 1000000bit burst 652 " in lines[1]
    assert lines[2] == "qdisc add dev h2-eth0 parent 1:1 handle 10: pfifo limit 70"


def test_delay_and_loss_are_netem_on_the_interface_that_sends():
    text = "bandwidth: 1 Mbit/s\n  queue: 70 packets\n  delay: 10 ms\n  loss: 0.5 %"
    found = qdiscs(links(text))
    # 3.83 packets are on the wire, and the queue is beside them.
    assert found["h2"][2].endswith("netem delay 10000.000us loss 0.500000% limit 74")
    assert len(found["s1"]) == 10
    assert found["s1"][1].startswith(
        "qdisc add dev s1-eth2 root netem delay 10000.000us loss 0.500000% limit "
    )


def test_delay_without_bandwidth_needs_no_htb():
    text = links("delay: 1 us")
    assert queues.disciplines(load_text(text)) == {"netem"}
    assert qdiscs(text)["h1"] == [
        f"qdisc add dev h1-eth0 root netem delay 1.000us limit {queues.DEEP_PACKETS}"
    ]
    assert queues.disciplines(load_text(links("bandwidth: 1 Mbit/s"))) == {"HTB"}
    assert queues.disciplines(load_text(links("{}"))) == set()


def test_the_mtu_is_that_of_a_full_packet():
    assert queues.mtu_bytes(load_text(ON_BMV2)) == queues.MIN_MTU_BYTES
    assert queues.mtu_bytes(load_text(ON_BMV2 + "values_per_packet: 256\n")) == 20 + 8 + 28 + 1024
