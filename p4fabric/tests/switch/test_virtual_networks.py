"""Networks in virtual time: programs and hosts of several kinds, and what is measured of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.cli import main
from p4fabric_testing import DATA, L3_TNA
from p4fabric_testing.topology_files import exercise
from p4fabric_testing.virtual_networks import MARKING, built, flow, port, run_text, star

STACK, ROUNDS = (str(DATA / f"{name}.p4") for name in ("stack", "rounds"))


COLLECTOR = '''
class Collector:
    """Reads the stack of records of each packet."""

    def __init__(self, host):
        self.wrong = self.packets = 0
        self.deepest = {}

    def receive(self, now_ns, frame):
        assert frame[12:14] == b"\\x9a\\x00"
        waited, at = 0, 17
        for _ in range(frame[14]):
            place = int.from_bytes(frame[at : at + 2], "big")
            queue = int.from_bytes(frame[at + 2 : at + 5], "big")
            waited += int.from_bytes(frame[at + 5 : at + 9], "big")
            self.deepest[place] = max(self.deepest.get(place, 0), queue)
            at += 9
        sent_ns = int.from_bytes(frame[-8:], "little")
        # three links of 1 us, two switches of 400 ns; 1250, then 1262 and 1271 B at 100 Gbit/s
        empty_ns = 3000 + 800 + 100 + 100.96 + 101.68
        at_sender_ns = 0
        self.packets += 1
        self.wrong += abs(now_ns - sent_ns - empty_ns - waited) > 3
    def results(self):
        return {"packets": self.packets, "wrong": self.wrong, "deepest": self.deepest}
'''

LINE = f"""
runtime: virtual
network:
  program: {STACK}
  hosts:
    h1: {{ip: 10.0.0.1/24}}
    h2: {{ip: 10.0.0.2/24}}
    h3: {{ip: 10.0.0.3/24, class: 'collector.py:Collector'}}
  switches:
    s1: &switch
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.3/32}}, action: forward,
           params: {{port: 3}}}}
      commands: [table_set_default own_number record_as 1]
    s2:
      entries:
        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.3/32}}, action: forward,
           params: {{port: 1}}}}
      commands: [table_set_default own_number record_as 2]
  links:
    - {{between: [h1, s1-p1], bandwidth: 100 Gbit/s, delay: 1 us}}
    - {{between: [h2, s1-p2], bandwidth: 100 Gbit/s, delay: 1 us}}
    - {{between: [s1-p3, s2-p2], bandwidth: 100 Gbit/s, delay: 1 us}}
    - {{between: [h3, s2-p1], bandwidth: 100 Gbit/s, delay: 1 us}}
virtual: {{duration: 200 us, steps: exact}}
flows:
  - {{name: f, from: [h1, h2], to: h3, size: 1250 B, rate: 60 Gbit/s, gaps: fixed}}
"""


def test_a_stack_of_records_tells_where_each_packet_waited(tmp_path):
    """The records of a packet's way add up to its latency, to the nanoseconds of rounding."""
    (tmp_path / "collector.py").write_text(COLLECTOR)
    run, found = run_text(tmp_path, LINE)
    told = run.network.classes["h3"].results()
    assert told["packets"] == sum(row["sent"] for row in found["flows"]) == 2400
    assert told["wrong"] == 0
    most = port(found, "s1", 3, "egress")["queue_max"]
    assert most > 50 and told["deepest"][1] in (most, most - 1)
    # At s2 a packet is 9 of 1271 B longer, and so are 2400 of them than those that came.
    assert 14 <= told["deepest"][2] <= 17


def test_copies_and_rounds_are_counted(tmp_path):
    """Each packet goes round three times, and a copy of it leaves at another port."""
    more = (
        "virtual: {duration: 100 us, steps: exact}\n"
        "flows: [{name: f, from: h1, to: h2, rate: 8 Gbit/s, size: 1000 B, dscp: 3}]\n"
        "readings: [{counter: passes, of: s1, at: [50 us, 100 us]}]\n"
    )
    text = star(ROUNDS, 3, more, switch="clones: [{session: 1, replicas: [{port: 3}]}]")
    run, found = run_text(tmp_path, text)
    there, copies = flow(found, "f"), flow(found, "f", "h3")
    assert there["sent"] == there["received"] == copies["received"] == 100
    assert there["duplicates"] == copies["duplicates"] == 0 and copies["loss"] is None
    [switch] = found["switches"]
    assert (switch["recirculations"], switch["clones"]) == (300, 100)
    counts = [(row["time_ns"], row["index"], row["value"]) for row in run.readings]
    # 1 us and 80 ns from the host to the switch
    assert counts == [(50_000, 0, 49), (50_000, 1, 147), (100_000, 0, 99), (100_000, 1, 297)]


def test_tcp_fills_its_link_and_shares_it(tmp_path):
    links = "bandwidth: 10 Gbit/s, delay: 1 us, queue: 100 packets"
    more = (
        "virtual: {duration: 20 ms}\n"
        "flows: [{name: t, kind: tcp, from: [h1, h2], to: h3, size: 1500 B}]\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 3, more, links=links))
    rates = [flow(found, name)["throughput_bps"] for name in ("t-h1-h3", "t-h2-h3")]
    assert {row["sending_bps"] for row in found["throughput"]} == {None}  # no connections
    assert 9.5e9 < sum(rates) <= 10.01e9 and min(rates) > 2e9
    drops = port(found, "s1", 3, "egress")["queue_drops"]
    assert drops == sum(flow(found, name)["lost"] for name in ("t-h1-h3", "t-h2-h3")) > 0


def test_connections_follow_the_marks_of_a_program(tmp_path):
    """With marks the queue stays short of its end; packets that cannot be marked overrun it."""
    links = "bandwidth: 10 Gbit/s, delay: 1 us, queue: 300 packets"
    dropped = {}
    for ecn in ("ect0", "not-ect"):
        more = (
            "virtual: {duration: 1 ms}\nflows: [{name: t, kind: rc, from: [h1, h2], to: h3,"
            f" congestion_control: dcqcn_vendor, ecn: {ecn}, size: 1500 B}}]\n"
        )
        _, found = run_text(tmp_path, star(MARKING, 3, more, links=links))
        rows = [flow(found, name) for name in ("t-h1-h3", "t-h2-h3")]
        dropped[ecn] = port(found, "s1", 3, "egress")["queue_drops"]
        assert (min(row["marked"] for row in rows) > 0) == (ecn == "ect0")
        assert min(row["received"] for row in rows) > 30
        allowed = [row["sending_bps"] for row in found["throughput"]]
        assert max(allowed) == 10**10 and (min(allowed) < 10**10) == (ecn == "ect0")
    assert dropped["ect0"] == 0 < dropped["not-ect"]
    wrong = "flows: [{name: t, from: h1, to: h3, rate: 1 Gbit/s, congestion_control: swift}]\n"
    with pytest.raises(UserError, match="udp with congestion_control"):
        run_text(tmp_path, star(MARKING, 3, "virtual: {duration: 1 ms}\n" + wrong))


def test_answers_come_back_after_their_delay(tmp_path):
    more = (
        "virtual: {duration: 100 us, switch_latency: 0}\n"
        "flows: [{name: f, from: h1, to: h2, packet_rate: 100000, size: 1250 B}]\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 2, more, host={2: "answer: {delay: 7 us}"}))
    asked, answered = found["flows"]
    assert asked["what"] == "packets" and asked["min_ns"] == asked["max_ns"] == 2200
    assert answered["what"] == "answers" and answered["host"] == "h1"
    assert answered["received"] == asked["received"] == 10 and answered["loss"] == 0
    assert answered["min_ns"] == answered["max_ns"] == 2 * 2200 + 7000


@pytest.mark.parametrize("share", [3, 7])
def test_sizes_and_periods_are_as_the_file_says(tmp_path, share):
    more = (
        "virtual: {duration: 4 ms}\n"
        "flows:\n"
        "  - {name: drawn, from: h1, to: h2, packet_rate: 1e7,"
        f" size: {{64 B: {share}, 1500 B: 1}}}}\n"
        "  - {name: turns, from: h1, to: h2, packet_rate: 1e5, size: [100 B, 200 B, 300 B]}\n"
        "  - {name: periods, from: h2, to: h1, packet_rate: 1e6, on: 10 us, off: 30 us}\n"
        "  - {name: random, from: h2, to: h1, packet_rate: 1e7, on: 10 us, off: 30 us,"
        " periods: exponential, size: 64 B}\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 2, more))
    drawn, turns = flow(found, "drawn"), flow(found, "turns")
    assert drawn["sent"] == 40_000
    mean = (64 * share + 1500) / (share + 1)
    assert drawn["sent_bytes"] / drawn["sent"] == pytest.approx(mean, rel=0.02)
    assert (turns["sent"], turns["sent_bytes"]) == (400, 133 * 600 + 100)
    assert flow(found, "periods")["sent"] == 10 * 100
    assert 5_000 < flow(found, "random")["sent"] < 15_000


def test_packets_of_the_files_own_are_sent_as_they_are(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from scapy.all import Ether, IP, UDP, Raw\n"
        "def frames():\n"
        "    return [Ether() / IP(dst='10.0.0.2') / UDP() / Raw(bytes(n)) for n in (30, 100)]\n"
    )
    more = (
        "virtual: {duration: 100 us}\n"
        "flows:\n"
        "  - {name: a, from: h1, to: h2, packet_rate: 1e5, tag: true,"
        " packet: \"Ether(dst=h2.mac)/IP(dst=h2.ip, tos=2)/UDP(dport=7)/Raw(b'x' * 50)\"}\n"
        "  - {name: b, from: h1, packet_rate: 2e5, packets: 'mine.py:frames'}\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 2, more))
    a, b = flow(found, "a"), next(row for row in found["flows"] if row["flow"] == "b")
    assert (a["sent"], a["received"], a["sent_bytes"]) == (10, 10, 920)
    assert (b["sent"], b["sent_bytes"], b["received"], b["loss"]) == (
        20,
        10 * 72 + 10 * 142,
        None,
        None,
    )
    receiver = next(row for row in found["hosts"] if row["host"] == "h2")
    assert (receiver["received"], receiver["untagged"]) == (30, 20)


def test_the_control_plane_acts_at_its_times(tmp_path):
    more = (
        "virtual: {duration: 100 us, switch_latency: 0, steps: exact}\n"
        "flows: [{name: f, from: h1, to: h2, packet_rate: 1e6, size: 1250 B}]\n"
        "changes:\n"
        "  - {at: 20 us, link: [s1, h2], up: false}\n"
        "  - {at: 40 us, link: [s1, h2], up: true}\n"
        "  - {at: 60 us, on: s1, commands: [table_clear route, register_write deepest 5 77]}\n"
        "readings: [{register: 'deepest[5]', of: s1, every: 30 us}]\n"
    )
    run, found = run_text(tmp_path, star(MARKING, 2, more))
    causes = {row["cause"]: row["packets"] for row in found["drops"]}
    # Packet i is at the switch at i + 1.1 us, and 1.1 us later at its receiver: 18 to 38 are lost.
    assert causes == {"link down (egress)": 21, "dropped by the program (ingress)": 41}
    assert flow(found, "f")["received"] == 100 - 21 - 41
    assert [row["value"] for row in run.readings] == [0, 77, 77]
    assert [row["what"] for row in run.changes][:2] == ["down", "up"]


# -- hosts of one's own


def with_class(folder: Path, body: str) -> str:
    (folder / "host.py").write_text(
        f"class Own:\n    def __init__(self, host):\n        self.host = host\n{body}"
    )
    more = (
        "virtual: {duration: 100 us, switch_latency: 0, steps: exact}\n"
        "flows: [{name: f, from: h2, to: h1, packet_rate: 1e5, size: 1250 B}]\n"
    )
    return star(MARKING, 2, more, host={1: "class: 'host.py:Own'"})


def test_a_class_is_told_virtual_times_and_sends(tmp_path):
    text = with_class(
        tmp_path,
        "        self.times, self.timers = [], []\n"
        "    def start(self, now_ns):\n"
        "        self.host.set_timer(25_000)\n"
        "    def receive(self, now_ns, frame):\n"
        "        self.times.append(now_ns)\n"
        "    def timer(self, now_ns):\n"
        "        self.timers.append(now_ns)\n"
        "        self.host.set_timer(now_ns + 50_000)\n"
        "        own = bytes.fromhex(self.host.hosts['h2'].mac.replace(':', '')) + bytes(28)\n"
        "        for _ in range(2000):\n"
        "            self.host.send(own)\n",
    )
    run, found = run_text(tmp_path, text)
    own = run.network.classes["h1"]._object
    assert own.times == [2200 + 10_000 * number for number in range(10)]
    assert own.timers == [25_000, 75_000]
    sender = next(row for row in found["hosts"] if row["host"] == "h1")
    assert (sender["sent"], sender["sent_bytes"]) == (4000, 4000 * 34)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("    def receive(self, now_ns, frame):\n        return 1 // 0\n",
         r"host h1, host.py:Own: at 2200 ns: host.py:5: ZeroDivisionError"),
        ("    def start(self, now_ns):\n        self.host.send(bytes(3000))\n",
         r"host h1, host.py:Own: at 0 ns: .*a frame of 3000 B; 14 B to 2\d\d\d B fit"),
    ],
)  # fmt: skip
def test_an_error_of_a_class_names_its_place(tmp_path, body, words):
    with pytest.raises(RunError, match=words):
        run_text(tmp_path, with_class(tmp_path, body))


def test_results_that_are_no_json_are_an_error(tmp_path):
    body = "        self.seen = 0\n    def results(self):\n        return {'hosts': {1, 2}}\n"
    run, _ = run_text(tmp_path, with_class(tmp_path, body))
    with pytest.raises(RunError, match="host h1, host.py:Own: results: .*set is not JSON"):
        run.network.classes["h1"].results()


def test_a_frame_that_outgrows_its_room_is_an_error(tmp_path):
    text = LINE.replace("duration: 200 us", "duration: 10 us, longest_frame: 1250 B")
    (tmp_path / "collector.py").write_text(COLLECTOR)
    with pytest.raises(RunError, match="frames became longer than .* virtual.longest_frame"):
        run_text(tmp_path, text)


# -- whole commands


def whole(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "net.yaml"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "p4fabric", "run", str(path), *options],
        capture_output=True,
        text=True,
        cwd=folder,
    )


CHECKS = """
checks:
  - {flow: f-h1-h3, throughput: ">= 49 Gbit/s", loss: 0 %}
  - {port: s1-p3, queue: "<= 1000", drops: 0}
"""


def test_two_runs_write_the_same_bytes(tmp_path):
    (tmp_path / "collector.py").write_text(COLLECTOR)
    for options in ((), ("--pcap", "s1:3")):
        done = whole(tmp_path, LINE, *options)
        assert done.returncode == 0, done.stdout + done.stderr
    first, second = sorted((tmp_path / "results").iterdir(), key=lambda path: path.stat().st_mtime)
    names = sorted(path.name for path in first.iterdir() if path.is_file())
    assert "results.json" in names and "flows.csv" in names
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    capture = (second / "captures" / "s1-3.pcapng").read_bytes()
    assert len(capture) > 2400 * 1250


def test_checks_decide_the_exit_code(tmp_path):
    (tmp_path / "collector.py").write_text(COLLECTOR)
    done = whole(tmp_path, LINE + CHECKS, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [each["holds"] for each in told["checks"]] == [True] * 4
    done = whole(tmp_path, LINE + CHECKS.replace("1000", "10"))
    assert done.returncode == 1
    assert "FAILED  port s1-p3: queue <= 10" in done.stdout
    assert "1 of 4 conditions do not hold" in done.stderr
    *lines, where = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80 and where.startswith("results: ")


def test_check_builds_the_network_and_finds_what_is_wrong(tmp_path, capsys):
    (tmp_path / "collector.py").write_text(COLLECTOR)
    path = tmp_path / "net.yaml"
    path.write_text(LINE)
    assert main(["check", str(path)]) == 0
    assert "3 hosts, 2 switches" in capsys.readouterr().out
    path.write_text(LINE.replace("collector.py:Collector", "collector.py:Colector"))
    assert main(["check", str(path)]) == 2
    assert "collector.py has no Colector; did you mean Collector" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("readings: [{register: nothing, of: s1, at: 1 us}]\n", r"readings\[0\]: .*nothing"),
        ("readings: [{register: 'deepest[512]', of: s1, at: 1 us}]\n", r"readings\[0\]: .*511"),
        ("flows: [{from: h1, packet_rate: 1, packet: 'Ether('}]\n", "flow-0: packet: SyntaxError"),
        ("flows: [{from: h1, packet_rate: 1, packet: Nope()}]\n", "packet: NameError: .*Nope"),
        ("flows: [{from: h1, packet_rate: 1, packet: Ether(), tag: true}]\n",
         "packet 0 has 14 B; allowed: 30 B .*of which the tag takes 16"),
        ("flows: [{from: h1, packet_rate: 1, packets: 'none.py:x'}]\n", "a file; there is no"),
    ],
)  # fmt: skip
def test_what_only_the_network_shows_is_an_error_with_its_place(tmp_path, text, words):
    with pytest.raises(UserError, match=words):
        built(tmp_path, star(MARKING, 2, text))


def test_a_topology_of_the_tutorials_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    changes = {
        "table_entries": [
            {
                "table": "stations",
                "default_action": True,
                "action_name": "multicast",
                "action_params": {"group": 4},
            }
        ]
    }
    exercise(tmp_path, **changes)
    text = (tmp_path / "s1-runtime.json").read_text()
    (tmp_path / "s2-runtime.json").write_text(text)
    assert main(["import", "lab/topology.json", "--virtual"]) == 0
    assert main(["run", "pair.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    rows = [row for row in told["flows"] if row["host"] == row["to"]]
    assert [row["sent"] for row in rows] == [10, 10] and all(row["received"] for row in rows)


def test_a_host_answers_the_flows_that_it_is_told(tmp_path):
    more = (
        "virtual: {duration: 100 us}\n"
        "flows:\n"
        "  - {name: a, from: h1, to: h2, packet_rate: 1e5}\n"
        "  - {name: b, from: h1, to: h2, packet_rate: 1e5}\n"
    )
    text = star(MARKING, 2, more, host={2: "answer: {flows: [b]}"})
    _, found = run_text(tmp_path, text)
    assert [(row["flow"], row["what"]) for row in found["flows"]] == [
        ("a", "packets"),
        ("b", "packets"),
        ("b", "answers"),
    ]
    with pytest.raises(UserError, match=r"h2.answer.flows\[0\]: there is no flow c"):
        run_text(tmp_path, text.replace("[b]", "[c]"))


MIXED = """
virtual: {duration: 30 us}
flows:
  - {name: a, from: [h1, h3], to: h2, rate: 45 Gbit/s, size: {64 B: 1, 900 B: 1},
     gaps: exponential, on: 2 us, off: 1 us, periods: exponential}
  - {name: t, kind: tcp, from: h2, to: h1}
  - {name: b, from: h3, to: h1, packet_rate: 3e6, packet_burst: 5, ecn: ect1}
"""


def test_turns_of_hosts_and_switches_change_nothing(tmp_path, monkeypatch):
    text = star(MARKING, 3, MIXED, host={2: "answer: {delay: 300 ns}"})
    run, by_turns = run_text(tmp_path, text)
    assert run.network.nodes.world.state[0].to_switch_ns == 1000
    monkeypatch.setattr("p4fabric.netfile.virtual_network.set_turns", lambda *arguments: None)
    run, in_order = run_text(tmp_path, text)
    assert run.network.nodes.world.state[0].to_switch_ns == 0
    for table in ("flows", "ports", "hosts", "drops", "throughput"):
        assert by_turns[table] == in_order[table]
    assert sum(row["received"] for row in by_turns["flows"]) > 500


def test_plain_python_gives_the_same_bytes(tmp_path, monkeypatch):
    text = star(MARKING, 3, MIXED, host={2: "answer: {delay: 300 ns}"})
    for jit in ("0", "1"):
        monkeypatch.setenv("NUMBA_DISABLE_JIT", jit)
        done = whole(tmp_path, text, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
    first, second = (tmp_path / "results").iterdir()
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_an_answer_is_the_packet_with_its_ends_exchanged(tmp_path):
    body = """
        self.answers = []
    def start(self, now_ns):
        there = self.host.hosts["h2"]
        macs = [bytes.fromhex(each.replace(":", "")) for each in (there.mac, self.host.mac)]
        packet = Ether(dst=there.mac, src=self.host.mac) / IP(src=self.host.ip, dst=there.ip)
        self.sent = bytes(packet / UDP(sport=4000, dport=4001) / Raw(b"hello"))
        self.host.send(self.sent + self.host.tag(now_ns, 77))
    def receive(self, now_ns, frame):
        if frame[:6] == bytes.fromhex(self.host.mac.replace(":", "")):
            self.answers.append((now_ns, frame, self.host.read_tag(frame)))
"""
    text = with_class(tmp_path, body).replace(
        "h2: {ip: 10.0.0.2/24", "h2: {ip: 10.0.0.2/24, answer: {delay: 5 us}"
    )
    text = text.partition("flows:")[0]
    path = tmp_path / "host.py"
    path.write_text("from scapy.all import IP, UDP, Ether, Raw\n" + path.read_text())
    run, _ = run_text(tmp_path, text)
    own = run.network.classes["h1"]._object
    [(now_ns, frame, tag)] = own.answers
    assert tag == (77, 0) and 9000 < now_ns < 9100
    sent = own.sent
    assert frame[:12] == sent[6:12] + sent[:6]
    assert frame[26:38] == sent[30:34] + sent[26:30] + sent[36:38] + sent[34:36]
    assert frame[38:-16] == sent[38:] and frame[12:26] == sent[12:26]


def test_a_rate_that_no_gap_divides_is_exact(tmp_path):
    """A packet each 266 2/3 ns, and each 142 6/7 ns."""
    more = (
        "virtual: {duration: 10 ms}\n"
        "flows:\n"
        "  - {name: a, from: h1, to: h2, rate: 30 Gbit/s, size: 1000 B}\n"
        "  - {name: b, from: h2, to: h1, packet_rate: 7e6, size: 100 B}\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 2, more))
    assert flow(found, "a")["sent"] == 37_500 and flow(found, "b")["sent"] == 70_000


def test_what_a_queue_has_no_room_for_is_deflected(tmp_path):
    """Half of what a sender sends fits through the other one's link; the rest goes to a third."""
    more = (
        "virtual: {duration: 10 us}\n"
        "flows: [{name: f, from: h1, to: h2, rate: 100 Gbit/s, size: 125 B}]\n"
    )
    program = tmp_path / "deflecting.p4"
    text = L3_TNA.read_text()
    program.write_text(text.replace("= port;", "= port; manager.deflect_on_drop = 1;"))
    text = star(str(program), 3, more, params=", mac: '08:00:00:00:00:%02d'")
    text = text.replace(
        "[h2, s1-p2], bandwidth: 100 Gbit/s, delay: 1 us, queue: 100000",
        "[h2, s1-p2], bandwidth: 50 Gbit/s, delay: 1 us, queue: 10",
    )
    _, found = run_text(tmp_path, text)
    assert [row["cause"] for row in found["drops"]] == ["queue full (egress)"]
    deflecting = text.replace("      entries:", "      deflection: 3\n      entries:")
    _, found = run_text(tmp_path, deflecting)
    assert found["drops"] == []
    received = {row["host"]: row["received"] for row in found["flows"]}
    assert received == {"h2": 510, "h3": 490}
    with pytest.raises(UserError, match="s1.deflection: deflection to port 3, which only"):
        built(tmp_path, star(MARKING, 2, switch="deflection: 3"))


def test_what_leaves_a_port_in_loopback_mode_comes_back(tmp_path):
    more = (
        "virtual: {duration: 10 us}\n"
        "flows: [{name: f, from: h1, to: h2, packet_rate: 1e6, size: 100 B}]\n"
    )
    text = star(str(L3_TNA), 2, more, params=", mac: '08:00:00:00:00:%02d'")
    text = text.replace("params: {port: 2,", "params: {port: 9,")
    _, found = run_text(tmp_path, text)
    assert [row["cause"] for row in found["drops"]] == ["port does not exist"]
    looped = text.replace("      entries:", "      loopback: [9]\n      entries:")
    _, found = run_text(tmp_path, looped)
    [drops] = found["drops"]  # without end, until it is stopped
    assert drops["cause"] == "too many passes" and drops["packets"] == 10
    with pytest.raises(UserError, match=r"s1.loopback\[0\]: loopback mode of port 9, which only"):
        built(tmp_path, star(MARKING, 2, switch="loopback: [9]"))
