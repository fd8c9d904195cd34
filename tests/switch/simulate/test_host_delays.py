"""The delay of hosts in a whole run: from each frame's arrival on the wire to its handling.

The hosts and the loop run as plain Python here, so that every call of the loop's function can be
written down. `tests/unit/simulate/test_host_delays.py` measures the function over more frames."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.support.paths import ROOT

SCRIPT = """
import json
from p4fabric.simulate import loop
from tests.support.experiments import experiment
from tests.support.virtual import run_virtual
text = '''
name: delays
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 5 Gbit/s, delay: 1 us}
system: {name: esa, window: 256}
memory: {aggregators: 512}
values_per_packet: 4
virtual: {%s}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.0001, compute_scale: 0}
'''
found = {}
handling_ns = loop._handling_ns
def record(row, arrival_ns):
    handled_ns = handling_ns(row, arrival_ns)
    found.setdefault(int(row.stream), []).append((int(arrival_ns), int(handled_ns)))
    return handled_ns
loop._handling_ns = record
(job,) = run_virtual(experiment(text))["jobs"]
assert job["exact"]
print(json.dumps(list(found.values())))
"""


def delays(virtual: str) -> list[np.ndarray]:
    """Delays of each host: arrivals and delays of its frames in ns, int64[2, frames]."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT % virtual],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    hosts = [np.array(pairs).T for pairs in json.loads(done.stdout)]
    return [np.array([arrived, handled - arrived]) for arrived, handled in hosts]


def correlation(hosts: list[np.ndarray], lag_ns: int) -> float:
    """Correlation of the delays of frames with those of the first frames that arrive `lag_ns`
    later."""
    pairs = []
    for arrived, delay in hosts:
        later = np.searchsorted(arrived, arrived + lag_ns)
        known = later < arrived.size
        pairs.append(np.array([delay[known], delay[later[known]]]))
    return float(np.corrcoef(np.concatenate(pairs, axis=1))[0, 1])


@pytest.mark.slow
def test_a_run_has_the_delays_that_its_keys_say():
    """Range 0.5 to 3 us, mean 1.75, deviation 0.72, for 10 us each; here for 2 us, so that a short
    run has many of them. Order adds spread^2 / (24 x 2 us) = 0.13 us to the mean."""
    keys = "worker_jitter_time: 2 us, server_jitter_time: 2 us"
    hosts = delays(keys)
    assert len(hosts) == 3 and min(host.shape[1] for host in hosts) > 1000
    found = np.concatenate([delay for _, delay in hosts])
    assert found.min() >= 500 and found.max() <= 3000
    assert found.mean() == pytest.approx(1880, abs=150)
    assert found.std() == pytest.approx(690, abs=80)
    near, far = correlation(hosts, 500), correlation(hosts, 4000)
    assert near > 0.6 and abs(far) < 0.25, (near, far)
