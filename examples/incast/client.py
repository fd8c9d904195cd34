"""A host of a network file in virtual time: a client that asks again once it has an answer."""

import struct


class Client:
    """Sends one packet at a time to h3, and measures how long its answer takes."""

    SIZE = 200  # bytes

    def __init__(self, host):
        self.host = host
        self.times_ns = []

    def start(self, now_ns):
        self.ask(now_ns)

    def receive(self, now_ns, frame):
        _, sent_ns = self.host.read_tag(frame)
        self.times_ns.append(now_ns - sent_ns)
        self.host.set_timer(now_ns + 5_000)  # think

    def timer(self, now_ns):
        self.ask(now_ns)

    def ask(self, now_ns):
        server = self.host.hosts["h3"]
        macs = bytes.fromhex((server.mac + self.host.mac).replace(":", ""))
        addresses = [bytes(map(int, each.split("."))) for each in (self.host.ip, server.ip)]
        length = self.SIZE - 14
        network = struct.pack("!BBHIBBH", 0x45, 2, length, 0, 64, 17, 0) + b"".join(addresses)
        transport = struct.pack("!HHHH", 4000, 4001, length - 20, 0)
        frame = macs + b"\x08\x00" + network + transport
        self.host.send(frame.ljust(self.SIZE - 16, b"\0") + self.host.tag(now_ns))

    def results(self):
        """Numbers that the run prints of this host."""
        mean_ns = sum(self.times_ns) / max(len(self.times_ns), 1)
        return {"answers": len(self.times_ns), "mean_us": round(mean_ns / 1000, 2)}
