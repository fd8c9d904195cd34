"""P4Runtime through finsy: each kind of thing as a controller of somebody else's making uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from p4engine_testing.controller import ServedSwitch

fy = pytest.importorskip("finsy")

HERE, THERE = "02:00:00:00:00:0a", 2
FRAME = bytes.fromhex("000000000002 02000000000a 0800") + b"payload"
OTHER = FRAME[:12] + b"\x86\xdd" + FRAME[14:]
PATIENCE_S = 10


def controlled(served: ServedSwitch, work: Callable[[Any], Awaitable[None]]) -> None:
    """Carry out `work` as the switch's primary controller."""

    async def main() -> None:
        async with fy.Switch("s1", served.address) as switch:
            assert switch.is_primary
            await asyncio.wait_for(work(switch), PATIENCE_S)

    asyncio.run(main())


async def found(switch: Any, *entities: Any) -> list[Any]:
    return [entity async for entity in switch.read(list(entities))]


def station(port: int, address: int = THERE, **more: Any) -> Any:
    return fy.P4TableEntry(
        "stations",
        match=fy.Match(**{"hdr.ethernet.destination": address}),
        action=fy.Action("send", port=port),
        **more,
    )


def rule(action: Any, priority: int = 1, **match: Any) -> Any:
    return fy.P4TableEntry("rules", match=fy.Match(**match), action=action, priority=priority)


def test_a_backup_reads_and_does_not_write(served):
    async def main() -> None:
        options = fy.SwitchOptions(initial_election_id=20)
        async with (
            fy.Switch("first", served.address, options) as first,
            fy.Switch("second", served.address) as second,
        ):
            assert first.is_primary and not second.is_primary
            await first.write([+station(3)])
            assert len(await found(second, fy.P4TableEntry("stations"))) == 1
            with pytest.raises(fy.P4ClientError) as caught:
                await second.write([-station(3)])
            assert caught.value.code == fy.GRPCStatusCode.PERMISSION_DENIED

    asyncio.run(main())


def test_entries_are_written_used_and_read_with_wildcards(served):
    async def work(switch: Any) -> None:
        await switch.write([+station(3), +station(1, address=7)])
        assert served.receive(1, FRAME) == [(3, FRAME)]
        await switch.write([~station(4)])
        assert served.receive(1, FRAME) == [(4, FRAME)]
        entries = await found(switch, fy.P4TableEntry("stations"))
        assert {e.match["destination"]: e.action.args["port"] for e in entries} == {2: 4, 7: 1}
        drop = rule(fy.Action("drop"), 5, **{"hdr.ethernet.type": "0x800...0x8ff"})
        await switch.insert([drop])
        assert served.receive(1, FRAME) == []
        assert served.receive(1, OTHER) == [(4, OTHER)]
        everywhere = await found(switch, fy.P4TableEntry())
        assert {each.table_id for each in everywhere} == {"stations", "rules", "fixed"}
        (default,) = await found(switch, fy.P4TableEntry("rules", is_default_action=True))
        assert default.action.name == "NoAction"
        await switch.delete([drop, station(4)])
        assert await found(switch, fy.P4TableEntry("rules")) == []
        with pytest.raises(fy.P4ClientError) as caught:
            await switch.write([-station(4)])
        (why,) = caught.value.details.values()
        assert why.canonical_code == fy.GRPCStatusCode.NOT_FOUND

    controlled(served, work)


def test_packets_and_digests_go_both_ways(served):
    async def work(switch: Any) -> None:
        served.out.clear()
        await switch.write([fy.P4PacketOut(FRAME, egress_port=3, _pad=0)])
        punt = fy.P4TableEntry(
            "stations", action=fy.Action("to_controller"), is_default_action=True
        )
        await switch.write([~punt])
        assert served.out == [(3, FRAME)]
        packets = switch.read_packets()
        hearing = asyncio.ensure_future(anext(packets))
        await asyncio.sleep(0)  # it listens from here on
        served.receive(4, FRAME)
        packet = await hearing
        assert packet.payload == FRAME and packet["ingress_port"] == 4

        learn = rule(fy.Action("learn"), **{"hdr.ethernet.type": "0x800...0x800"})
        await switch.write([+fy.P4DigestEntry("learned_t", max_list_size=1), +learn])
        digests = switch.read_digests("learned_t")
        hearing = asyncio.ensure_future(anext(digests))
        await asyncio.sleep(0)
        served.receive(1, FRAME)
        heard = await hearing
        assert heard[0]["station"] == int(HERE.replace(":", ""), 16) and heard[0]["port"] == 1
        await switch.write([heard.ack()])

    controlled(served, work)


def test_idle_timeouts(served):
    async def work(switch: Any) -> None:
        flow = fy.P4TableEntry(
            "flows",
            match=fy.Match(**{"hdr.ethernet.source": f"{HERE}/&ff:ff:ff:ff:ff:ff"}),
            action=fy.Action("send", port=3),
            priority=1,
            idle_timeout_ns=5_000_000_000,
        )
        await switch.write([+flow])
        hearing = asyncio.ensure_future(anext(switch.read_idle_timeouts()))
        await asyncio.sleep(0)
        served.advance(4_000_000_000)
        served.receive(1, FRAME)
        served.advance(4_000_000_000)
        assert not hearing.done()
        served.advance(1_000_000_000)
        (entry,) = (await hearing).table_entry
        assert entry.table_id == "flows" and entry.idle_timeout_ns == 5_000_000_000
        asked = fy.P4TableEntry("flows", time_since_last_hit=0)
        (read,) = await found(switch, asked)
        assert read.time_since_last_hit == 5_000_000_000

    controlled(served, work)
