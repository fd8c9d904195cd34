"""Background flows in an experiment file: which flows there are, and what is refused."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.transports import PRODUCT

from testbed.experiment import load_text
from testbed.schemes import set_up
from tests.support.experiments import BASE, ON_BMV2


def load(*entries, base=BASE):
    listed = "".join(f"  - {{{entry}}}\n" for entry in entries)
    return load_text(f"{base}background:\n{listed}")


def ends(experiment, repetition=0):
    return [(flow.source, flow.target) for flow in set_up(experiment, repetition).flows]


def test_one_flow_from_each_to_each():
    experiment = load(
        "kind: tcp, from: [h1, h2], to: [h2, h10]",
        "name: c, kind: udp, from: h3, to: h4, rate: 1 Mbit/s, start: 1 s, for: 2 s",
    )
    assert ends(experiment) == [("h1", "h2"), ("h1", "h10"), ("h2", "h10"), ("h3", "h4")]
    flows = set_up(experiment).flows
    assert [flow.name for flow in flows] == ["tcp-0-0", "tcp-0-1", "tcp-0-2", "c"]
    assert [flow.number for flow in flows] == [0, 1, 2, 3]
    keys = flows[3].keys
    assert (keys.start_ns, keys.end_ns, keys.rate_bps) == (10**9, 3 * 10**9, 10**6)
    again = load_text(experiment.resolved_yaml())
    assert set_up(again).flows == flows and again.resolved_yaml() == experiment.resolved_yaml()
    assert "background" not in load_text(BASE).resolved_yaml()


def test_old_words_mean_the_same_and_are_noted():
    rest = "from: h1, to: h2, rate: 1 Mbit/s"
    old, new = load(f"kind: cbr, {rest}, packet: 200 B"), load(f"kind: udp, {rest}, size: 200 B")
    (before,), (now,) = old.background, new.background
    assert before.model_dump() == {**now.model_dump(), "kind": "cbr"} and now.packet_bytes == 200
    assert not any("is now called" in each for each in new.warnings)
    noted = [each.partition(";")[0] for each in old.warnings if "is now called" in each]
    assert noted == [
        "background[0]: `packet` is now called `size`",
        "background[0]: `kind: cbr` is now called `kind: udp`",
    ]
    with pytest.raises(UserError, match=r"background\[0\].packet: unknown key"):
        load(f"kind: udp, {rest}, packet: 200 B, size: 200 B")


def test_random_ends():
    experiment = load(
        "kind: tcp, from: random, to: random, flows: 40",
        "kind: tcp, from: random, to: h5, flows: 20",
        "kind: tcp, from: [h1, h2], to: random, flows: 20",
    )
    found = ends(experiment)
    assert len(found) == 80 and all(source != target for source, target in found)
    assert len({source for source, _ in found[:40]}) > 5
    assert {target for _, target in found[40:60]} == {"h5"}
    assert {source for source, _ in found[60:]} == {"h1", "h2"}
    assert ends(experiment) == found != ends(experiment, 1)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("kind: udp, from: h1, to: h2", "udp without a rate; allowed: a rate"),
        ("kind: tcp, from: h1, to: h2, rate: 1 Mbit/s", "tcp with a rate"),
        ("kind: tcp, from: h1, to: h20", "background[0].to: h20 is not in the topology"),
        ("kind: tcp, from: s1, to: h2", "background[0].from: s1 is a switch"),
        ("kind: tcp, from: h1, to: h1", "h1 cannot send to itself"),
        ("kind: tcp, from: [h1, h1], to: h2", "different hosts"),
        ("kind: tcp, from: [h1, random], to: h2", "or random alone"),
        ("kind: tcp, from: h1, to: h2, flows: 2", "flows with from or to: random"),
        ("kind: tcp, from: h1, to: h2, on: 1 ms", "one of on, off; allowed: both or neither"),
        ("kind: tcp, from: h1, to: h2, burst: 1 kB", "one of burst, every"),
        ("kind: tcp, from: h1, to: h2, burst: 1 kB, every: 1 s, on: 1 s, off: 1 s", "one of them"),
        ("kind: udp, rate: 1 Mbit/s, from: h1, to: h2, burst: 1 kB, every: 1 s", "udp with burst"),
        ("kind: tcp, from: h1", "to: missing"),
        ("kind: udp, rate: 1 Mbit/s, congestion_control: reno, from: h1, to: h2", "kind tcp"),
    ],
)
def test_what_cannot_be_honoured(entry, message):
    with pytest.raises(UserError) as error:
        load(entry)
    assert message in str(error.value)


def test_too_many_flows():
    with pytest.raises(UserError, match="found 1025 flows; allowed: 1024"):
        load("kind: tcp, from: random, to: random, flows: 1024", "kind: tcp, from: h1, to: h2")


def test_the_congestion_control_is_the_files_not_the_machines():
    given = "kind: tcp, from: h1, to: h2"
    flows = set_up(
        load(
            given,
            f"{given}, congestion_control: bbr",
            "kind: udp, rate: 1 Mbit/s, from: h3, to: h4",
        )
    ).flows
    assert [flow.keys.controlled_by for flow in flows] == ["reno", "bbr", None]


def test_virtual_time_has_one_congestion_control():
    virtual = f"runtime: virtual\n{BASE}"
    load("kind: tcp, congestion_control: reno, from: h1, to: h2", base=virtual)
    with pytest.raises(
        UserError, match=r"background\[0\].congestion_control: found cubic; virtual"
    ):
        load("kind: tcp, congestion_control: cubic, from: h1, to: h2", base=virtual)


@pytest.mark.parametrize(
    ("entry", "links", "warned"),
    [
        ("kind: tcp", "bandwidth: 10 Mbit/s", True),
        ("kind: tcp, congestion_control: cubic", "bandwidth: 10 Mbit/s", True),
        ("kind: tcp, congestion_control: bbr", "bandwidth: 10 Mbit/s", False),
        ("kind: tcp, burst: 10 kB, every: 1 s", "bandwidth: 10 Mbit/s", False),
        ("kind: udp, rate: 1 Mbit/s", "bandwidth: 10 Mbit/s", False),
        ("kind: tcp", "bandwidth: 10 Mbit/s, ecn_threshold: none", False),
        (
            "kind: tcp",
            "bandwidth: 10 Mbit/s, queue: 150 packets, ecn_threshold: 100 packets",
            False,
        ),
    ],
)
def test_a_warning_where_a_flow_keeps_queues_above_the_marks(entry, links, warned):
    base = BASE.replace("links:\n  bandwidth: 100 Mbit/s\n  delay: 10 us", f"links: {{{links}}}")
    assert links in base
    warnings = load(f"{entry}, from: h1, to: h2", base=base).warnings
    assert any("background[0]: TCP without bursts" in each for each in warnings) == warned


def test_a_system_that_may_lose_nothing_has_no_background():
    base = BASE.replace("{name: esa, window: 64}", "{name: switchml, sets: 1}")
    with pytest.raises(UserError, match="fills queues, so that packets get lost; with sets: 1"):
        load("kind: tcp, from: h1, to: h2", base=base)


def test_bmv2_counts_packets_so_all_must_have_one_size():
    with pytest.raises(UserError, match=r"must have the size of the jobs' packets: 326 B"):
        load("kind: tcp, from: h1, to: h2", base=ON_BMV2)
    assert ends(load("kind: tcp, from: h1, to: h2, size: 326 B", base=ON_BMV2))


def test_reliable_connections_have_keys_of_their_own():
    base = f"runtime: virtual\n{BASE}"
    ends = "from: h1, to: h2"
    more = "recovery: selective_repeat, ack_every: 4, window: bdp, burst: 1 MB, every: 1 ms"
    experiment = load(f"kind: rc, {ends}, congestion_control: swift, {more}", base=base)
    (keys,) = experiment.background
    assert (keys.control, keys.window_packets, keys.is_rc) == ("swift", PRODUCT, True)
    again = load_text(experiment.resolved_yaml())
    assert again.background == experiment.background
    for wrong, message in (
        (f"kind: rc, {ends}, rate: 1 Gbit/s", "rc with a rate"),
        (f"kind: rc, {ends}, congestion_control: reno", "rc with congestion_control reno"),
        (f"kind: tcp, {ends}, congestion_control: dcqcn", "tcp with congestion_control dcqcn"),
        (f"kind: rc, {ends}, congestion_control: dcqn", "did you mean dcqcn"),
        (f"kind: tcp, {ends}, window: 5 packets", "tcp with window"),
        (f"kind: udp, {ends}, rate: 1 Mbit/s, ack_every: 2", "udp with ack_every"),
    ):
        with pytest.raises(UserError, match=message):
            load(wrong, base=base)
    with pytest.raises(UserError, match="found rc, whose hosts are in virtual time only"):
        load(f"kind: rc, {ends}")


def test_linear_marks_lie_between_two_lengths_of_a_queue():
    def load_links(links):
        text = BASE.replace(
            "bandwidth: 100 Mbit/s\n",
            "bandwidth: 100 Mbit/s\n" + "".join(f"  {each}\n" for each in links.split(", ")),
        )
        assert text != BASE
        return load_text(text)

    links = "ecn_threshold: 5 packets, ecn_max_threshold: 200 packets, ecn_max_probability: 1 %"
    way = load_links(links).directions[0][0]
    assert (way.ecn_max_threshold_packets, way.ecn_max_probability) == (200, 0.01)
    for wrong, message in (
        ("ecn_max_threshold: 200 packets", "found no ecn_threshold beside it"),
        ("ecn_threshold: 9 packets, ecn_max_threshold: 9 packets", "allowed: more than that"),
        ("ecn_threshold: 9 packets, ecn_max_threshold: 9000 packets", "which is 1000 packets"),
    ):
        with pytest.raises(UserError, match=message):
            load_links(wrong)
