"""A host of no job sends what looks like a job's packets, as fast as it can, while the job runs on
Mininet: every value stays right, the job ends, and the switch has refused them."""

from __future__ import annotations

import contextlib

import pytest
from p4fabric_testing.matrix import first_of
from rich.console import Console

from testbed import results
from testbed.emulate.mininet_run import Repetition
from testbed.emulate.session import Session
from testbed.emulate.switch_backends import backend_of
from testbed.experiment import load_text
from testbed.results import Writer, describe
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup.host_specs import host_kinds
from tests.support.experiments import memory_line
from tests.support.intruders import SENDER, frames

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


@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "ps", "ring"], 1))
def test_a_host_of_no_job_changes_nothing(tmp_path, system):
    memory = memory_line(system, 256)
    experiment = load_text(EXPERIMENT % {"system": system, "memory": memory})
    setup = set_up(experiment)
    backend = backend_of(setup.platform, prepare(setup))
    environment = describe(
        setup.platform.timestamp_unit_ns,
        switch=experiment.switch,
        runtime=experiment.runtime,
        **backend.versions(),
    )
    yaml = experiment.resolved_yaml()
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(Writer.create(tmp_path / "r", "run", yaml, environment))
        session = stack.enter_context(Session("intruders", tmp_path))
        session.start(host_kinds(setup))
        network = session.build(setup.platform.topology, **backend.network_options())
        repetition = stack.enter_context(Repetition(setup, backend, session))
        listed = tmp_path / "frames.txt"
        sent = frames(system, range(1, WORKERS + 1), SERVER)
        listed.write_text("".join(f"{each.hex()}\n" for each in sent))
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
