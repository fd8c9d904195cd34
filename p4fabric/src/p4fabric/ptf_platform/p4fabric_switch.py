"""The module that PTF imports as its platform: ports of a switch of this process.

`--platform-args` names the network file and, if that has several switches, one of them:
"network=FILE.yaml;switch=s1". Ports are those of the switch's links, or those that PTF's
`--interface` names, as for a switch behind veth pairs: the interfaces' names do not matter then.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.ptf_platform.ports import SwitchPorts

LONGEST = 65536


def platform_config_update(config: dict[str, Any]) -> None:
    """Fill PTF's configuration: `port_map` and the class of its ports. Raises UserError."""
    words = dict(each.partition("=")[::2] for each in (config["platform_args"] or "").split(";"))
    if set(words) - {"network", "switch"} or "network" not in words:
        raise UserError(
            f'--platform-args: found {config["platform_args"]!r}; allowed: "network=FILE.yaml", and'
            ' ";switch=NAME" where it has several'
        )
    given = [(device, port) for device, port, _ in config["interfaces"]]
    if any(device for device, _ in given):
        raise UserError("--interface: there is one switch, device 0")
    ports = [port for _, port in given] or None
    switch = SwitchPorts.of_file(Path(words["network"]), words.get("switch"), ports)
    config["port_map"] = {(0, port): f"{switch.name}-p{port}" for port in switch.sockets}
    config["dataplane"] = {
        "portclass": lambda _, device, port, __={}: Port(switch, device, port)  # as PTF calls it
    }


class Port:
    """A port as PTF's data plane asks for it (its DataPlanePortIface and packet source)."""

    def __init__(self, switch: SwitchPorts, device: int, port: int) -> None:
        self._switch, self._device, self._port = switch, device, port
        self._up = True

    def get_packet_source(self) -> Port:
        return self

    def fileno(self) -> int:
        return self._switch.sockets[self._port].fileno()

    def recv(self) -> tuple[int, int, bytes, float] | None:
        """A packet that has left through this port: (device, port, packet, time in s); None: the
        port is down."""
        packet = self._switch.sockets[self._port].recv(LONGEST)
        return (self._device, self._port, packet, time.time()) if self._up else None

    def send(self, packet: bytes) -> int:
        """Send a packet to the switch; returns its bytes. A port that is down loses it."""
        if self._up:
            self._switch.send(self._port, bytes(packet))
        return len(packet)

    def down(self) -> None:
        self._up = False

    def up(self) -> None:
        self._up = True

    def mac(self) -> str:
        """An address of this port's own; nothing uses it on the wire."""
        return f"02:00:00:00:{self._port >> 8:02x}:{self._port & 255:02x}"
