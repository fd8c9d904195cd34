"""A host of no job sends what looks like a job's packets, as fast as it can, while the job runs on
Mininet: every value stays right, the job ends, and the switch has refused them."""

from __future__ import annotations

import contextlib

import pytest
from rich.console import Console

from testbed import results
from testbed.derived.host_specs import host_kinds
from testbed.dissect import Ina
from testbed.emulate.mininet_run import Repetition
from testbed.emulate.session import Session
from testbed.emulate.switch_backends import backend_of
from testbed.experiment import load_text
from testbed.protocols import wire
from testbed.results import Writer, describe
from testbed.runtimes.program import prepare
from testbed.topology import host_ip, switch_ip
from tests.support.fabric import udp_frame
from tests.support.matrix import first_of

EXPERIMENT = """
name: intruders
topology: {kind: star, hosts: 6}
links: {bandwidth: 20 Mbit/s}
system: %(system)s
%(memory)s
values_per_packet: 16
jobs: [{model: resnet18, workers: 3, iterations: 3, scale: 0.002, compute_scale: 0.1}]
"""
WORKERS, SERVER, INTRUDER = 3, 4, "h6"

# Sends the frames of a file over and over until it is ended, when others leave it time.
SENDER = """
import os, socket, sys
os.nice(19)
frames = [bytes.fromhex(line) for line in open(sys.argv[1])]
(name,) = [name for _, name in socket.if_nameindex() if name != "lo"]
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((name, 0))
print("ready", flush=True)
while True:
    for frame in frames:
        try:
            out.send(frame)
        except OSError:
            pass
"""


def frames(system: str) -> list[bytes]:
    """Gradients of every worker and results, early, due and late, with other values."""
    made = []
    to_server = host_ip(SERVER) if system in ("esa", "atp", "ps") else switch_ip(1)
    for fragment in (*range(50), 1000, 2**31):
        for worker in range(WORKERS):
            parts = {"job": 0, "fragment_number": fragment, "index": fragment, "priority": 255}
            gradient = Ina(
                kind=wire.GRADIENT, sender=worker, bitmap=1 << worker, values=[7] * 16, **parts
            )
            result = Ina(kind=wire.RESULT_ONE, sender=0x4000, bitmap=7, values=[7] * 16, **parts)
            address = host_ip(worker + 1)
            made.append(udp_frame(address, to_server, bytes(gradient)))
            made.append(udp_frame(to_server, address, bytes(result)))
    return made


@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "ps", "ring"], 1))
def test_a_host_of_no_job_changes_nothing(tmp_path, system):
    memory = "" if system in ("ps", "ring") else "memory: {aggregators: 256}"
    experiment = load_text(EXPERIMENT % {"system": system, "memory": memory})
    backend = backend_of(experiment, prepare(experiment))
    environment = describe(
        experiment.timestamp_unit_ns,
        switch=experiment.switch,
        runtime=experiment.runtime,
        **backend.versions(),
    )
    yaml = experiment.resolved_yaml()
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(Writer.create(tmp_path / "r", "run", yaml, environment))
        session = stack.enter_context(Session("intruders", tmp_path))
        session.start(host_kinds(experiment))
        network = session.build(experiment.topology_object(), **backend.network_options())
        repetition = stack.enter_context(Repetition(experiment, backend, session, 0))
        listed = tmp_path / "frames.txt"
        listed.write_text("".join(f"{each.hex()}\n" for each in frames(system)))
        sender = network[INTRUDER].popen(["/usr/bin/python3", "-c", SENDER, str(listed)])
        try:
            assert sender.stdout.readline() == b"ready\n"
            repetition.run(Console(quiet=True), writer)
        finally:
            sender.kill()
            sender.wait()
        writer.finish()
    read = results.read(writer.folder)
    assert read.jobs.exact.all() and (read.jobs.outcome == "finished").all()
    refused = read.links.query("direction == 'ingress'").set_index("neighbour").refused
    assert refused[INTRUDER] > 100
    assert refused.drop(INTRUDER).sum() == 0
