"""A learning switch: Mininet hosts, examples/learning.p4, and a P4Runtime controller (finsy).

    sudo .venv/bin/python examples/learning.py [PORT]

The controller hears of every new station, enters it into both tables, and at the end reads the
switch's counters and its register back. Exit code 0: all hosts have reached each other and the
controller knows them all.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import finsy as fy
from mininet.net import Mininet

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from p4fabric.emulate import P4Switch  # noqa: E402

HOSTS = 3
CPU_PORT = 510


def network(port: int) -> Mininet:
    """One switch that serves P4Runtime at 127.0.0.1:`port`, and its hosts."""
    net = Mininet(controller=None)
    switch = net.addSwitch(
        "s1", cls=P4Switch, program=HERE / "learning.p4", p4runtime=port, cpu_port=CPU_PORT
    )
    for number in range(1, HOSTS + 1):
        host = net.addHost(f"h{number}", ip=f"10.0.0.{number}/24", mac=f"02:00:00:00:00:0{number}")
        net.addLink(host, switch)
    return net


async def learn(switch: fy.Switch, stations: dict[str, int]) -> None:
    """Be the switch's controller: set it up, then learn from every packet that it sends up."""
    await switch.write(
        [
            +fy.P4MulticastGroupEntry(1, replicas=list(range(1, HOSTS + 1))),
            +fy.P4CloneSessionEntry(100, replicas=[CPU_PORT]),
        ]
    )
    async for packet in switch.read_packets():
        source, port = packet.payload[6:12], packet["ingress_port"]
        if source.hex(":") in stations:
            continue
        stations[source.hex(":")] = port
        mac = int.from_bytes(source, "big")
        await switch.write(
            [
                +fy.P4TableEntry(
                    "destinations",
                    match=fy.Match(**{"hdr.ethernet.destination": mac}),
                    action=fy.Action("to_port", port=port),
                ),
                +fy.P4TableEntry(
                    "sources",
                    match=fy.Match(**{"hdr.ethernet.source": mac, "standard.ingress_port": port}),
                    action=fy.Action("NoAction"),
                ),
            ]
        )


async def main(port: int) -> int:
    net = network(port)
    net.start()
    stations: dict[str, int] = {}
    try:
        switch = fy.Switch("s1", f"127.0.0.1:{port}")
        async with switch:
            learning = asyncio.create_task(learn(switch, stations))
            await asyncio.sleep(0.2)
            lost = await asyncio.to_thread(net.pingAll, "1")
            print(f"lost: {lost:.0f} %")
            for _ in range(100):  # the packets are on their way to the controller
                if len(stations) == HOSTS:
                    break
                await asyncio.sleep(0.1)
            for mac, at in sorted(stations.items()):
                print(f"{mac} is at port {at}")
            async for entry in switch.read(fy.P4RegisterEntry("unknown_frames", index=0)):
                print(f"frames of unknown stations: {entry.data}")
            await switch.write([~fy.P4RegisterEntry("unknown_frames", index=0, data=0)])
            async for entry in switch.read(fy.P4RegisterEntry("unknown_frames", index=0)):
                print(f"after the controller has written it: {entry.data}")
            learning.cancel()
    finally:
        net.stop()
    return 0 if lost == 0 and len(stations) == HOSTS else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9559)))
