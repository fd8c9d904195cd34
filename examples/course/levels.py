"""The assignment on Mininet, level by level: four hosts run worker.py, each leaves a file.

    sudo .venv/bin/python examples/course/levels.py [LEVEL...] [--chunks 64] [--results FOLDER]

Level 3 has links that lose 5 % of the packets in each direction. Files are
FOLDER/level-L-rank-R.txt.
Exit code 0: all files of all levels have the right sums.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mininet.net import Mininet

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from p4fabric.emulate import P4Switch  # noqa: E402
from worker import numbers_of  # noqa: E402

WORKERS = 4
LOSS = 0.05


def built():
    """The network: h1 to h4 at ports 1 to 4 of s1."""
    net = Mininet(controller=None)
    s1 = net.addSwitch("s1", cls=P4Switch, program=HERE / "sums.p4")
    for rank in range(WORKERS):
        number = rank + 1
        host = net.addHost(f"h{number}", ip=f"10.0.1.{number}/24", mac=f"02:00:00:00:00:0{number}")
        net.addLink(host, s1, port2=number, intfName1="eth0")
    net.start()
    s1.client.multicast_group(1, [(rank + 1, 0) for rank in range(WORKERS)])
    for rank, host in enumerate(net.hosts):
        s1.client.table_add("worker", "address", [rank + 1], [host.MAC(), host.IP(), rank])
    return net


def run_level(level, chunks, folder):
    """Runs all workers of a level, on a network of its own; returns what is wrong, a line each."""
    net = built()
    files = [folder / f"level-{level}-rank-{rank}.txt" for rank in range(WORKERS)]
    try:
        if level == 3:
            for port in range(1, WORKERS + 1):
                for direction in ("ingress", "egress"):
                    net["s1"].client.port_shape(port, direction, loss=LOSS)
        runs = [
            host.popen(
                [sys.executable, HERE / "worker.py", str(rank), str(level), str(chunks), file]
            )
            for rank, (host, file) in enumerate(zip(net.hosts, files, strict=True))
        ]
        codes = [run.wait() for run in runs]
    finally:
        net.stop()
    wrong = [
        f"level {level}, rank {rank}: exit code {code}" for rank, code in enumerate(codes) if code
    ]
    return wrong + [line for file in files for line in differences(file, chunks)]


def differences(file, chunks):
    """Differences of a result file from the sums of all workers."""
    found = file.read_text().splitlines()
    for chunk in range(chunks):
        columns = zip(*(numbers_of(rank, chunk) for rank in range(WORKERS)), strict=True)
        expected = " ".join(map(str, [chunk, *map(sum, columns)]))
        if chunk >= len(found):
            yield f"{file.name}: chunk {chunk} is missing"
            return
        if found[chunk] != expected:
            yield f"{file.name}: chunk {chunk} is wrong: {found[chunk]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("levels", nargs="*", type=int, metavar="LEVEL", help="1, 2 and 3")
    parser.add_argument("--chunks", type=int, default=64)
    parser.add_argument("--results", type=Path, default=Path("results/course"))
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    wrong = []
    for level in options.levels or (1, 2, 3):
        found = run_level(level, options.chunks, options.results)
        print(f"level {level}: {'failed' if found else 'passed'}", flush=True)
        wrong += found
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
