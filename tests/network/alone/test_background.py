"""Background flows on Mininet: real TCP and UDP beside a job whose values are all checked."""

from __future__ import annotations

import pytest

from tests.support.runs import finished, run

TEXT = """
name: background
topology: {kind: star, hosts: 7}
links: {bandwidth: 20 Mbit/s, delay: 500 us, queue: 60 packets}
system: {name: esa, window: 64}
memory: {aggregators: 128}
jobs: [{model: resnet50, workers: 2, iterations: 2, scale: 0.01, compute_scale: 1}]
background:
  - {name: bulk, kind: tcp, congestion_control: cubic, from: h5, to: h6}
  - {name: rate, kind: udp, from: h1, to: h7, rate: 2 Mbit/s}
  - {name: pulsed, kind: udp, from: h7, to: h5, rate: 4 Mbit/s, on: 100 ms, off: 100 ms}
  - {name: incast, kind: tcp, from: [h4, h5], to: h2, burst: 10 kB, every: 200 ms}
"""


def test_flows_carry_what_they_should_and_the_job_stays_exact(tmp_path):
    flows = finished(TEXT, tmp_path / "results").flows.set_index("name")
    length_ns = int(flows.ended_ns.iloc[0])
    assert list(flows.kind) == ["tcp", "udp", "udp", "tcp", "tcp"]
    bulk = flows.loc["bulk"]
    assert 0 < bulk.mean_bps < 20e6 and bulk.bytes > 10_000
    for name, share in (("rate", 1), ("pulsed", 0.5)):
        flow = flows.loc[name]
        rate = {"rate": 2e6, "pulsed": 4e6}[name]
        due = share * rate * length_ns / 1e9 / 8000
        assert abs(flow.packets_sent - due) <= 0.08 * due + 110
        assert flow.packets_received + flow.lost == flow.packets_sent
        assert flow.bytes == flow.packets_received * 958
    incast = flows.loc[["incast-0", "incast-1"]]
    assert (incast.bursts >= 1).all() and (incast.bytes >= 10_000 * incast.bursts).all()
    assert (incast.burst_mean_ns > 4_000_000).all()  # 10 kB take 4 ms at 20 Mbit/s


@pytest.mark.slow
@pytest.mark.parametrize("source", ["h6", "h1"])
def test_a_rate_that_the_machine_cannot_send_fails_the_run(source, tmp_path):
    """At its end, and long before that where the flow leaves a worker too little of its link."""
    path = tmp_path / "background.yaml"
    text = TEXT.replace("rate: 2 Mbit/s", "rate: 500 Gbit/s, packet: 160 B")
    path.write_text(text.replace("from: h1", f"from: {source}"))
    done = run(path, tmp_path / "results", "--no-report")
    assert done.returncode == 1
    assert f"background flow rate (udp, {source} to h7): it could send" in done.stderr
    assert "take a lower rate or larger packets" in done.stderr
