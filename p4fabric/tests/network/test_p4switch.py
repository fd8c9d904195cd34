"""P4Switch runs a P4 program between hosts: in a network of ours, and in a plain Mininet script."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.program import import_path
from p4fabric.base.topology import host_ip, host_mac
from p4fabric.emulate import P4Switch
from p4fabric.emulate.mininet_network import Network
from p4fabric.emulate.spawner import Spawner
from p4fabric_testing import L3
from p4fabric_testing.topologies import star


@pytest.fixture
def network(tmp_path):
    spawner = Spawner("switch pool", ["p4fabric.emulate.namespace"], tmp_path / "pool.log")
    built = Network(star(hosts=3), spawner, tmp_path, tmp_path)
    yield built
    built.stop()
    spawner.close()


def route(client, hosts: int) -> None:
    for number in range(1, hosts + 1):
        match = [(host_ip(number), 32)]
        client.table_add("route", "forward", match, [number, host_mac(number)])


def test_hosts_ping_each_other_through_a_p4_program(network):
    switch = network["s1"]
    switch.program = L3
    switch.start()
    assert "100% packet loss" in network["h1"].cmd("ping -c 1 -W 0.3 10.0.0.2"), "no routes yet"
    route(switch.client, 3)
    for source, target in (("h1", 2), ("h2", 3), ("h3", 1)):
        output = network[source].cmd(f"ping -c 3 -i 0.01 -s 4000 {host_ip(target)}")
        assert " 0% packet loss" in output, output
        assert "ttl=63" in output


def test_links_are_shaped_by_the_switch_in_both_directions(network):
    switch = network["s1"]
    switch.program = L3
    switch.start()
    route(switch.client, 3)
    for port, direction in ((1, "ingress"), (1, "egress"), (2, "egress")):
        switch.client.port_shape(port, direction, delay_ns=20_000_000)
    output = network["h1"].cmd("ping -c 3 -i 0.01 10.0.0.2")
    times = [float(time) for time in re.findall(r"time=([\d.]+)", output)]
    # There: into port 1 and out of port 2; back: out of port 1.
    assert len(times) == 3 and min(times) >= 60


def test_a_program_with_an_error_says_where(network, tmp_path):
    broken = tmp_path / "broken.p4"
    broken.write_text(L3.read_text().replace("hdr.ipv4.ttl - 1", "hdr.ipv4.tll - 1"))
    switch = network["s1"]
    switch.program = broken
    with pytest.raises(RunError, match="switch s1 ended before it was up") as caught:
        switch.start()
    assert re.search(r"broken\.p4:\d+:\d+", caught.value.log_tail), caught.value.log_tail


SCRIPT = """
import sys
from mininet.net import Mininet
from p4fabric.emulate.nodes import P4Switch

net = Mininet(controller=None)
h1, h2 = net.addHost("h1", ip="10.0.0.1/24"), net.addHost("h2", ip="10.0.0.2/24")
s1 = net.addSwitch("s1", cls=P4Switch, program=sys.argv[1], priority_queues=3)
for host in (h1, h2):
    net.addLink(host, s1)
net.start()
try:
    for number, host in enumerate((h1, h2), 1):
        s1.client.table_add("route", "forward", [(host.IP(), 32)], [number, host.MAC()])
    h1.setARP(h2.IP(), h2.MAC())
    h2.setARP(h1.IP(), h1.MAC())
    print("lost", net.pingAll())
    print("queues", len(s1.client.queue_stats()))
    print(h1.cmd("ethtool -k h1-eth0 | grep tx-checksumming"))
finally:
    net.stop()
"""


def test_it_works_in_a_plain_mininet_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(L3)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": import_path(), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "lost 0.0" in done.stdout and "queues 6" in done.stdout
    assert "tx-checksumming: off" in done.stdout


KILLED = """
import os, signal, sys
from mininet.net import Mininet
from p4fabric.emulate.nodes import P4Switch

net = Mininet(controller=None)
h1 = net.addHost("h1")
s1 = net.addSwitch("s1", cls=P4Switch, program=sys.argv[1])
net.addLink(h1, s1)
net.start()
print(s1.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_script_leaves_no_switch_and_no_file(tmp_path):
    script, scratch = tmp_path / "script.py", tmp_path / "scratch"
    script.write_text(KILLED)
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, str(script), str(L3)],
        stdout=subprocess.PIPE,
        text=True,
        env={
            "PYTHONPATH": import_path(),
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "TMPDIR": str(scratch),
        },
    )
    assert done.returncode == -signal.SIGKILL
    switch = Path("/proc") / done.stdout.strip()
    deadline = time.monotonic() + 20
    while switch.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not switch.exists(), "the switch did not end with the script"
    assert list(scratch.iterdir()) == []


def test_arguments_of_bmv2_nodes_are_refused_with_what_to_write_instead():
    for argument, remedy in (("json_path", "program=FILE.p4"), ("grpc_port", "p4runtime=PORT")):
        with pytest.raises(UserError, match=f"{argument} belongs to BMv2; instead: {remedy}"):
            P4Switch("s1", program=L3, **{argument: "x"})
    with pytest.raises(UserError, match="neither it nor Mininet has an argument programme"):
        P4Switch("s1", programme=L3)
