"""TCP between hosts of a run, where UDP goes in trains: whole packets, within the links' rates."""

from __future__ import annotations

import hashlib
import time

import pytest
from p4fabric.emulate.mininet_network import MTU_BYTES

from testbed.emulate.mininet_run import Repetition
from testbed.emulate.session import Session
from testbed.emulate.switch_backends import backend_of
from testbed.experiment import load_text
from testbed.machine.kernel_probe import why_no_trains
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup.host_specs import host_kinds

EXPERIMENT = """
name: tcp
topology: {kind: star, hosts: 4}
links: {bandwidth: 100 Mbit/s}
system: esa
memory: {aggregators: 16}
offload: on
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
"""
RATE_BPS = 100e6
CONNECTIONS = 20
EACH_BYTES = 400_000

# Takes connections, reads each to its end, and answers with a hash of what has come.
SERVER = """
import hashlib, socket, sys, threading
listening = socket.create_server(("0.0.0.0", 5001), backlog=64)
print("listening", flush=True)
def serve(connection):
    found = hashlib.sha256()
    while data := connection.recv(65536):
        found.update(data)
    connection.sendall(found.digest())
    connection.close()
threads = []
for _ in range(int(sys.argv[1])):
    threads.append(threading.Thread(target=serve, args=(listening.accept()[0],)))
    threads[-1].start()
for thread in threads:
    thread.join()
"""
CLIENT = """
import socket, sys, threading
address, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def send(number):
    connection = socket.create_connection((address, 5001))
    connection.sendall(bytes([number]) * size)
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while data := connection.recv(64):
        answer += data
    answers.append(f"{number} {answer.hex()}")
answers = []
threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("\\n".join(answers))
"""


@pytest.mark.skipif(bool(why := why_no_trains()), reason=f"no UDP trains here: {why}")
def test_many_connections_arrive_whole_and_no_faster_than_the_link(tmp_path):
    setup = set_up(load_text(EXPERIMENT))
    backend = backend_of(setup.platform, prepare(setup))
    with Session("tcp", tmp_path) as session:
        session.start(host_kinds(setup))
        network = session.build(setup.platform.topology, **backend.network_options())
        with Repetition(setup, backend, session) as repetition:
            server = network["h4"].popen(["/usr/bin/python3", "-c", SERVER, str(CONNECTIONS)])
            assert server.stdout.readline() == b"listening\n"
            began = time.monotonic()
            sizes = (str(CONNECTIONS), str(EACH_BYTES))
            out, err, code = network["h3"].pexec(
                "/usr/bin/python3", "-c", CLIENT, network["h4"].IP(), *sizes
            )
            took = time.monotonic() - began
            assert code == 0, err
            assert server.wait() == 0
            (port,) = [
                row
                for row in repetition.switches.clients["s1"].port_stats()
                if row["direction"] == "egress" and row["interface"] == "s1-eth4"
            ]
    answers = dict(line.split() for line in out.splitlines())
    assert answers == {
        str(number): hashlib.sha256(bytes([number]) * EACH_BYTES).hexdigest()
        for number in range(CONNECTIONS)
    }
    sent = CONNECTIONS * EACH_BYTES
    # No link is faster than its rate; its queue may take a burst at once.
    assert took > 0.9 * 8 * sent / RATE_BPS
    assert port["bytes"] > sent and port["bytes"] / port["packets"] <= MTU_BYTES + 18
    assert port["unmodelled_drops"] == 0
