"""Path of a plan that a fragment takes."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import stripes
from testbed.protocols.host_spec import WorkerStripes


@pytest.mark.parametrize("ends", [(3, 10), (250, 251, 1000), (1, 2, 3)])
def test_every_stripe_has_its_share_all_the_time(ends):
    made = stripes.of_worker(WorkerStripes(ends, tuple(range(len(ends))), tuple(range(len(ends)))))
    of = np.array([stripes.stripe_of(made, fragment) for fragment in range(ends[-1])])
    sizes = np.diff([0, *ends])
    assert np.bincount(of).tolist() == sizes.tolist()
    for stripe, size in enumerate(sizes):
        so_far = np.cumsum(of == stripe)
        due = np.arange(1, ends[-1] + 1) * size / ends[-1]
        assert np.abs(so_far - due).max() <= max(2, ends[-1] / 100)


def test_two_stripes_are_told_apart_and_one_is_for_all():
    two = stripes.of_worker(WorkerStripes((1, 2), (5, 6), (7, 8)))
    assert sorted(stripes.stripe_of(two, fragment) for fragment in (0, 1)) == [0, 1]
    assert stripes.stripe_of(stripes.one_stripe(), 1234) == 0
