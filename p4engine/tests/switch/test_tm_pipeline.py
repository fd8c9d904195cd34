"""The traffic manager around the pipelines: copies, clones, second passes, metadata."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_char_p, c_int, c_uint32, c_uint64, c_void_p

import pytest
from p4engine.switch.traffic_manager import Manager, SwitchError
from p4engine_testing.leftovers import data_bytes

WORDS = [
    "instance_type", "ingress_port", "egress_port", "egress_rid", "packet_length",
    "enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth", "kept",
]  # fmt: skip
NORMAL, INGRESS_CLONE, EGRESS_CLONE, _, RECIRCULATED, REPLICATED, RESUBMITTED = range(7)


def seen(data: bytes) -> dict[str, int]:
    """The metadata that the fake program's egress appended."""
    return dict(zip(WORDS, struct.unpack("<10I", data[-40:]), strict=True))


def send(tm, data: bytes, port: int = 1, now_ns: int = 0) -> list[tuple[int, bytes]]:
    tm.receive(port, data, now_ns)
    return [(port, data) for _, port, data in tm.run()]


def test_unicast_metadata(make, packet):
    tm = make(ports=[1, 2])
    [(port, data)] = send(tm, packet("U", 2, meta=True))
    assert port == 2 and len(data) == 64 + 40
    meta = seen(data)
    assert (meta["instance_type"], meta["ingress_port"], meta["egress_port"]) == (NORMAL, 1, 2)
    assert (meta["packet_length"], meta["enq_qdepth"], meta["deq_timedelta"]) == (64, 0, 0)


def test_drops_and_absent_ports_are_counted(make, packet):
    tm = make(ports=[1, 2])
    assert send(tm, packet("D")) == send(tm, packet("d", 2)) == send(tm, packet("U", 7)) == []
    assert send(tm, packet("M", 9)) == []
    stats = tm.stats()
    names = ("received", "sent", "ingress_drops", "egress_drops", "no_port", "no_group")
    assert [stats[name] for name in names] == [4, 0, 1, 1, 1, 1]
    tm.stats_reset()
    assert tm.stats()["received"] == 0
    with pytest.raises(SwitchError, match="no such port"):
        tm.receive(3, b"x", 0)


def test_multicast_makes_copies_with_their_rids(make, packet):
    tm = make(ports=[1, 2, 3, 4])
    tm.multicast_group(5, [(2, 10), (3, 11), (3, 12), (1, 13)])
    out = send(tm, packet("M", 5, meta=True))
    assert [port for port, _ in out] == [2, 3, 3, 1]
    assert [seen(data)["egress_rid"] for _, data in out] == [10, 11, 12, 13]
    assert {seen(data)["instance_type"] for _, data in out} == {REPLICATED}
    assert [seen(data)["egress_port"] for _, data in out] == [2, 3, 3, 1]
    assert len({data[:64] for _, data in out}) == 1
    tm.multicast_group(5, [])
    assert send(tm, packet("M", 5)) == [] and tm.multicast_get(5) == []
    tm.multicast_delete(5)
    with pytest.raises(SwitchError, match="no such group"):
        tm.multicast_delete(5)


def test_copies_to_shaped_and_unshaped_ports_are_equal(make, packet):
    tm = make(ports=[1, 2, 3, 4])
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    tm.port_shape(3, "egress", delay_ns=10)
    tm.multicast_group(1, [(2, 0), (3, 0), (4, 0), (2, 0), (4, 0)])
    out = send(tm, packet("M", 1, size=200))
    assert sorted(port for port, _ in out) == [2, 2, 3, 4, 4]
    assert len({data for _, data in out}) == 1


def test_groups_that_cannot_be(make):
    tm = make(ports=[1])
    for members in ([(511, 0)], [(1, 65536)], [(-1, 0)]):
        with pytest.raises(SwitchError):
            tm.multicast_group(1, members)
    for group in (0, 65536):
        with pytest.raises(SwitchError):
            tm.multicast_group(group, [(1, 1)])


def test_clone_of_ingress_is_the_packet_as_it_came(make, packet):
    tm = make(ports=[1, 2, 3])
    tm.mirror_session(6, port=3)
    (clone_port, clone), (port, data) = send(tm, packet("C", 2, 6, meta=True))
    assert (clone_port, port) == (3, 2)
    assert clone[3] == 0 and data[3] == 1  # ingress wrote byte 3 of the original only
    meta = seen(clone)
    assert (meta["instance_type"], meta["kept"], meta["packet_length"]) == (INGRESS_CLONE, 0, 64)
    assert seen(data)["instance_type"] == NORMAL
    tm.mirror_session(7, port=3)  # odd sessions of the fake program keep the field list
    (_, clone), _ = send(tm, packet("C", 2, 7, meta=True))
    assert seen(clone)["kept"] == 1


def test_a_session_without_target_makes_no_clone(make, packet):
    tm = make(ports=[1, 2])
    assert [port for port, _ in send(tm, packet("C", 2, 9))] == [2]
    tm.mirror_session(9, port=1)
    assert [port for port, _ in send(tm, packet("C", 2, 9))] == [1, 2]
    tm.mirror_session(9)
    assert [port for port, _ in send(tm, packet("C", 2, 9))] == [2]
    with pytest.raises(SwitchError):
        tm.mirror_session(1 << 20, port=1)


def test_clone_to_a_group_and_a_port(make, packet):
    tm = make(ports=[1, 2, 3, 4])
    tm.multicast_group(8, [(3, 1), (4, 2)])
    tm.mirror_session(6, port=1, group=8)
    out = send(tm, packet("C", 2, 6, meta=True))
    assert [port for port, _ in out] == [3, 4, 1, 2]
    assert [seen(data)["instance_type"] for _, data in out] == [INGRESS_CLONE] * 3 + [NORMAL]


def test_clone_of_egress_goes_through_egress_again(make, packet):
    tm = make(ports=[1, 2, 3])
    tm.mirror_session(4, port=3)
    out = dict(send(tm, packet("E", 2, 4, meta=True)))
    assert set(out) == {2, 3}
    assert seen(out[3])["instance_type"] == EGRESS_CLONE
    assert (seen(out[3])["kept"], seen(out[3])["egress_port"]) == (1, 3)
    assert out[3][:64] == out[2][:64]


@pytest.mark.parametrize("shaped", [False, True])
def test_clone_of_egress_from_a_queue(make, packet, shaped):
    """The clone outlives the packet that it was made from."""
    tm = make(ports=[1, 2, 3])
    tm.mirror_session(4, port=3)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    if shaped:
        tm.port_shape(3, "egress", rate_bps=512_000_000)
    for n in range(20):
        tm.receive(1, packet("E", 2, 4, size=64 + n), 0)
    out = tm.run()
    for port in (2, 3):
        got = [data for _, p, data in out if p == port]
        assert [len(data) for data in got] == [64 + n for n in range(20)]
        assert all(data[5:] == packet("E", size=len(data))[5:] for data in got)


def test_resubmit_starts_over_with_the_field_list(make, packet):
    tm = make(ports=[1, 2])
    [(port, data)] = send(tm, packet("R", 2, 3, meta=True))
    assert port == 2 and data[3] == 4 and seen(data)["kept"] == 4
    assert seen(data)["packet_length"] == 64
    assert tm.stats()["resubmits"] == 3


def test_recirculate_takes_the_deparsed_packet(make, packet):
    tm = make(ports=[1, 2])
    [(port, data)] = send(tm, packet("X", 2, 3, meta=True, size=300))
    assert port == 2 and data[3] == 4 and data[5:300] == packet("X", size=300)[5:]
    assert tm.stats()["recirculations"] == 3
    [(port, data)] = send(tm, packet("X", 2, 0))
    assert data[3] == 1


def test_recirculating_through_an_absent_port(make, packet):
    tm = make(ports=[1])
    assert send(tm, packet("X", 200, 2)) == []
    assert (tm.stats()["recirculations"], tm.stats()["no_port"]) == (2, 1)


def test_an_endless_loop_ends(make, packet):
    tm = make(ports=[1, 2])
    assert send(tm, packet("L", 2)) == []
    assert tm.stats()["loop_drops"] == 1
    assert len(send(tm, packet("U", 2))) == 1


def test_endless_loops_through_a_queue_end(make, packet):
    """Each packet meets the other one waiting, so that no pass causes the next at once."""
    tm = make(ports=[1, 2])
    tm.port_shape(2, "egress", rate_bps=8_000_000)
    for what in "ULL":
        tm.receive(1, packet(what, 2), 1000)
    assert len(tm.run()) == 1
    assert tm.stats()["loop_drops"] == 2
    assert tm.next_event_ns() is None
    # The next moment has passes of its own.
    tm.receive(1, packet("U", 2), 10**9)
    assert len(tm.run()) == 1


def test_truncate(make, packet):
    tm = make(ports=[1, 2])
    [(_, data)] = send(tm, packet("T", 2, 30, size=500))
    assert len(data) == 30


def test_queueing_metadata_are_those_of_the_egress_queue(make, packet):
    tm = make(ports=[1, 2], timestamp_unit_ns=1, epoch_ns=1000)
    tm.port_shape(2, "egress", rate_bps=832_000_000)  # 104 bytes out: 1000 ns
    for _ in range(4):
        tm.receive(1, packet("U", 2, meta=True), 1000)
    tm.receive(1, packet("U", 2, meta=True), 2500)
    meta = [seen(data) for _, _, data in tm.run()]
    assert [m["enq_qdepth"] for m in meta] == [0, 0, 1, 2, 2]
    assert [m["enq_timestamp"] for m in meta] == [0, 0, 0, 0, 1500]
    assert [m["deq_timedelta"] for m in meta] == [0, 1000, 2000, 3000, 2500]
    assert [m["deq_qdepth"] for m in meta] == [0, 2, 2, 1, 0]


def test_timestamps_are_in_the_unit_since_the_epoch(make):
    tm = make(ports=[1], timestamp_unit_ns=1000, epoch_ns=5_000)
    assert tm.timestamp(12_999) == 7
    assert tm.timestamp(0) == 0
    assert tm.timestamp(5_000 + ((1 << 48) + 3) * 1000) == 3


def test_packets_of_every_size_survive_queues(make, packet):
    tm = make(ports=[1, 2])
    tm.port_shape(1, "ingress", rate_bps=10_000_000_000, delay_ns=77)
    tm.port_shape(2, "egress", rate_bps=9_000_000_000, delay_ns=78, queue_packets=None)
    sizes = [5, 8, 60, 511, 512, 513, 1514, 2048, 9014, 16384, 16385, 65535]
    for size in sizes * 3:
        tm.receive(1, packet("U", 2, size=size), 0)
    out = tm.run()
    assert [len(data) for _, _, data in out] == sizes * 3
    assert all(data[5:] == packet("U", size=len(data))[5:] for _, _, data in out)


def test_a_short_packet_is_no_problem(make):
    tm = make(ports=[0, 1])
    for data in (b"", b"U", b"U\x01"):
        tm.receive(1, data, 0)
    assert [(port, len(data)) for _, port, data in tm.run()] == [(0, 0), (0, 1), (1, 2)]


def test_every_port_number(make, packet):
    tm = make()
    assert len(tm.ports) == 511
    assert [port for port, _ in send(tm, packet("U", 255), port=510)] == [255]


def test_entry_points_are_the_same_switch(make, packet):
    tm = make(ports=[1, 2])
    data = packet("U", 2)
    receive = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint32, c_char_p, c_uint32, c_uint64)
    assert receive(tm.entry_points()["receive"])(tm.address, 1, data, len(data), 77) == 0
    assert [(time_ns, port) for time_ns, port, _ in tm.outputs()] == [(77, 2)]


PATHS = ["unicast", "drop", "multicast", "clone", "egress clone", "resubmit", "recirculate"]
PATHS += ["delay", "copies", "losses", "full queue", "full priority queue", "failure"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [64, 20_000])  # the latter has memory of its own
def test_packets_leave_no_memory_behind(make, packet, path, size):
    tm = make(ports=[1, 2, 3], priority_queues=2 if path == "full priority queue" else 1)
    tm.multicast_group(5, [(2, 0), (3, 0), (7, 0)])
    tm.mirror_session(4, group=5)
    shapes = {"delay": {"delay_ns": 1000}, "copies": {"duplicate": 1.0, "delay_ns": 1000}}
    shapes |= {"losses": {"loss": 1.0}, "failure": {"delay_ns": 1000, "rate_bps": 10**9}}
    for queue in ("full queue", "full priority queue"):
        shapes[queue] = {"rate_bps": 10**9, "queue_packets": 2}
    if path in shapes:
        tm.port_shape(1, "ingress", **{**shapes[path], "rate_bps": 0})
        tm.port_shape(2, "egress", **shapes[path])
    ops = {"drop": ("d", 2), "multicast": ("M", 5), "clone": ("C", 2, 4), "resubmit": ("R", 2, 3)}
    ops |= {"egress clone": ("E", 2, 4), "recirculate": ("X", 2, 3)}
    data = packet(*ops.get(path, ("U", 2)), size=size)

    def use(begin: int, times: int) -> int:
        """The memory that this process has after so many packets."""
        for now_ns in range(begin, begin + times * 10**7, 10**7):
            for _ in range(4 if "queue" in path or path == "failure" else 1):
                tm.receive(1, data, now_ns)
            if path == "failure":
                tm.advance(now_ns + 1001)
                for up in (False, True):
                    tm.port_up(1, up)
                    tm.port_up(2, up)
            tm.run()
        return data_bytes()

    before = use(0, 300)
    assert use(10**12, 12_000 if size == 64 else 4000) - before < 1 << 20


def test_the_memory_of_a_switch_goes_with_it(make, packet, fake_library):
    """Also that of packets on its links and in its queues."""

    def come_and_go(times: int) -> int:
        for _ in range(times):
            handle = fake_library.p4_create(None)
            tm = Manager(fake_library, handle, ports=[1, 2])
            tm.port_shape(2, "egress", rate_bps=10**9, delay_ns=10**9)
            tm.port_shape(1, "ingress", delay_ns=10**6)
            for now_ns in (0, 0, 10**7):
                tm.receive(1, packet("U", 2, size=40_000), now_ns)
            tm.close()
            fake_library.p4_destroy(handle)
        return data_bytes()

    before = come_and_go(30)
    assert come_and_go(100) - before < 1 << 20
