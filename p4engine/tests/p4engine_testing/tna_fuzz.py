"""Random packets through the programs of data/tna.txt: `python -m p4engine_testing.tna_fuzz SEED
PACKETS [FIRST LAST]`. What looks for errors is the sanitizers that the C is compiled with."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from p4engine.control.commands import Commands
from p4engine.switch.library import Switch

from p4engine import compile_program
from p4engine_testing.cases import Case
from p4engine_testing.tna import cases, source

PORTS = (*range(8), 68, 130)


def run(case: Case, folder: Path, generator: random.Random, packets: int) -> int:
    """Send packets that resemble those of the case; returns how many have left."""
    path = folder / "program.p4"
    path.write_text(source(**case.parts))
    switch = Switch(compile_program(path), ports=PORTS, seed=generator.getrandbits(32))
    commands = Commands(switch)
    for step in case.steps:
        if step.command:
            commands.run(step.command)
    known = [step.data for step in case.steps if not step.command] or [bytes(8)]
    for port in PORTS[:3]:  # queues, so that packets wait
        switch.port_shape(port, "egress", rate_bps=1_000_000, queue_packets=4)
    left = 0
    for number in range(packets):
        data = bytearray(generator.choice(known))
        for _ in range(generator.randrange(3)):
            if data:
                data[generator.randrange(len(data))] = generator.getrandbits(8)
        size = generator.choice((len(data), len(data), 0, 1, 17, 64, 1500, 9000))
        data = data[:size] + generator.randbytes(max(0, size - len(data)))
        now_ns = 50_000 * number
        switch.receive(generator.choice(PORTS), bytes(data), now_ns)
        left += len(switch.advance(now_ns))
    left += len(switch.run(10**12))
    switch.close()
    return left


def main() -> None:
    seed, packets, *part = map(int, sys.argv[1:])
    chosen = [case for case in cases() if not case.error][slice(*(part or [None]))]
    with tempfile.TemporaryDirectory() as folder:
        left = sum(run(c, Path(folder), random.Random(f"{seed} {c.name}"), packets) for c in chosen)
    print(f"clean: {len(chosen)} programs, {left} packets left")


if __name__ == "__main__":
    main()
