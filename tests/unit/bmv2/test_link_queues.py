"""Links of an experiment with BMv2: queues of the switch, and the kernel's queueing disciplines."""

from __future__ import annotations

from testbed.bmv2 import link_queues as queues
from testbed.experiment import load_text
from testbed.schemes import platform_of
from testbed.setup import Platform
from tests.support.experiments import ON_BMV2, bmv2_links
from tests.support.switches import Recorder

FRAME = 14 + 20 + 8 + 24 + 4 + 4 * 64


def platform(text: str) -> Platform:
    return platform_of(load_text(text))


def shaped(text: str) -> list[tuple]:
    recorder = Recorder()
    queues.shape_queues(platform(text), "s1", recorder)
    return recorder.calls


def qdiscs(text: str) -> dict[str, list[str]]:
    return queues.qdiscs(platform(text))


def test_a_bandwidth_becomes_whole_packets_per_second():
    assert queues.packets_per_s(1_000_000, FRAME) == 383  # 383.4
    calls = shaped(bmv2_links("bandwidth: 1 Mbit/s\n  queue: 70 packets"))
    assert calls[:2] == [("queue_rate", 383, 1), ("queue_depth", 70, 1)]
    assert len(calls) == 2 * 10


def test_each_direction_has_its_own_rate():
    """The switch limits what leaves it; a host's own queueing discipline limits what leaves the
    host."""
    text = bmv2_links("each: [{between: [h3, s1], forward: {bandwidth: 1 Mbit/s}}]")
    assert ("queue_rate", 0, 3) in shaped(text)
    assert ("queue_depth", queues.DEEP_PACKETS, 3) in shaped(text)
    assert set(qdiscs(text)) == {"h3"}
    text = text.replace("forward", "backward")
    assert ("queue_rate", 383, 3) in shaped(text)
    assert qdiscs(text) == {}


def test_a_host_is_limited_by_htb_with_a_queue_of_packets():
    lines = qdiscs(bmv2_links("bandwidth: 1 Mbit/s\n  queue: 70 packets"))["h2"]
    assert lines[0] == "qdisc add dev h2-eth0 root handle 1: htb default 1"
    assert "dev h2-eth0 parent 1: classid 1:1 htb rate 1000000bit burst 652 " in lines[1]
    assert lines[2] == "qdisc add dev h2-eth0 parent 1:1 handle 10: pfifo limit 70"


def test_delay_and_loss_are_netem_on_the_interface_that_sends():
    text = "bandwidth: 1 Mbit/s\n  queue: 70 packets\n  delay: 10 ms\n  loss: 0.5 %"
    found = qdiscs(bmv2_links(text))
    # 3.83 packets are on the wire, and the queue is beside them.
    assert found["h2"][2].endswith("netem delay 10000.000us loss 0.500000% limit 74")
    assert len(found["s1"]) == 10
    assert found["s1"][1].startswith(
        "qdisc add dev s1-eth2 root netem delay 10000.000us loss 0.500000% limit "
    )


def test_delay_without_bandwidth_needs_no_htb():
    text = bmv2_links("delay: 1 us")
    assert queues.disciplines(platform(text).directions) == {"netem"}
    assert qdiscs(text)["h1"] == [
        f"qdisc add dev h1-eth0 root netem delay 1.000us limit {queues.DEEP_PACKETS}"
    ]
    assert queues.disciplines(platform(bmv2_links("bandwidth: 1 Mbit/s")).directions) == {"HTB"}
    assert queues.disciplines(platform(bmv2_links("{}")).directions) == set()


def test_the_mtu_is_that_of_a_full_packet():
    assert queues.mtu_bytes(platform(ON_BMV2)) == queues.MIN_MTU_BYTES
    assert queues.mtu_bytes(platform(ON_BMV2 + "values_per_packet: 128\n")) == queues.MIN_MTU_BYTES
    text = ON_BMV2 + "values_per_packet: 2048\n"
    text = text.replace("{name: esa, window: 64}\nmemory: {aggregators: 128}", "ps")
    assert queues.mtu_bytes(platform(text)) == 20 + 8 + 28 + 4 * 2048
