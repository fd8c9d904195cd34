"""Arrays of a program's own, summed in the network: what the ranks of a job do with numpy alone.

    sudo ina experiments/sum-arrays.yaml

Each rank draws the same random numbers for all ranks, so it knows every sum and checks it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from testbed import collective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--values", type=int, default=100_000, help="of each array")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--error", type=float, default=1e-6, help="largest of an average")
    options = parser.parse_args()
    with collective.join() as job:
        for number in range(options.rounds):
            random = np.random.default_rng(number)
            counts = random.integers(-(2**28), 2**28, (job.size, options.values)).astype(np.int32)
            gradients = random.normal(size=(job.size, options.values)).astype(np.float32)
            begin = time.monotonic()
            # Both are under way at a time; the front layer's fragments are the more urgent ones.
            handle = job.allreduce_async(counts[job.rank], layer=1)
            average = job.allreduce(gradients[job.rank], mean=True, layer=0)
            total = handle.wait()
            took_s = time.monotonic() - begin
            assert (total == counts.sum(axis=0, dtype=np.int32)).all(), "int32 sums are exact"
            error = np.abs(average - gradients.astype(np.float64).mean(axis=0)).max()
            assert error < options.error, error
            if job.rank == 0:
                megabytes = (counts[0].nbytes + gradients[0].nbytes) / 1e6
                print(f"round {number}: {megabytes / took_s:.2f} MB/s, error at most {error:.1e}")


if __name__ == "__main__":
    main()
