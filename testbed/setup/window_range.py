"""The values that are tried of options to be tuned: the range of `window: best`, and what the
switch memory admits of a list.

A window below half the bandwidth-delay product leaves links idle half of the time, and far above it
windows only lengthen queues. So the range of `best` has the powers of two from half the product,
that of the job with the smallest, to eight times that of the largest, or 1,024 if that is more.
Where a job has slots of its own (SwitchML, static trees), a window of more fragments than slots is
one of all slots, so the range ends with these, also if they are no power of two. In a pool, where
others may go past the switch, it ends at the pool's aggregators, or at twice the largest product if
that is more.
"""

from __future__ import annotations

from p4fabric.base.errors import UserError

from testbed.setup.job_setups import Setup
from testbed.setup.timing import MAX_WINDOW, PRODUCTS, product_of
from testbed.systems.tuned_options import WINDOW, Tried, Tuning

PRODUCTS_AT_MOST = 8
USUAL_MOST = 1024


def tried_values(setup: Setup, tuning: Tuning) -> Tried:
    """The values of each option, from small to large. `setup`: of the experiment without them.
    Raises UserError if none is left of the windows."""
    found: Tried = {}
    slots = _slots(setup)
    for key, named in tuning.options.items():
        values = _best(setup, slots) if named is None else named
        if key == WINDOW and slots:
            values = tuple(each for each in values if each <= slots)
            if not values:
                raise UserError(
                    f"{tuning.file}: tune.{WINDOW}: found {', '.join(map(str, named or ()))}; the"
                    f" switch memory has slots for {slots} fragments of a job, and all of these"
                    " windows are larger. Add smaller ones, or take a larger memory"
                )
        found[key] = values
    return found


def _best(setup: Setup, slots: int) -> tuple[int, ...]:
    platform = setup.platform.full_size or setup.platform
    members = [*setup.jobs.values(), *setup.groups.values()]
    if not members:
        raise UserError(
            f"{setup.name}: window best: where jobs come and go, the bandwidth-delay product is not"
            " known before; name windows, such as tune: {window: [64, 128, 256]}"
        )
    own = [each for each in members if not each.refused] or members
    products = [product_of(each.platform.full_size or each.platform, each.group) for each in own]
    most = max(USUAL_MOST, PRODUCTS_AT_MOST * max(products))
    if slots:
        most = min(most, slots)
    elif platform.aggregators:
        most = min(most, max(platform.aggregators, PRODUCTS * max(products)))
    most = min(most, MAX_WINDOW)
    first = max(1, min(min(products) // 2, most)).bit_length() - 1
    powers = [2**power for power in range(first, most.bit_length())]
    return (*powers, slots) if powers[-1] < slots == most else tuple(powers)


def _slots(setup: Setup) -> int:
    """The most slots that a job has to itself, at full size; 0: there are none, or no limit. Jobs
    without a tree have none: hosts add up for them, with windows of their own."""
    parts = [job.group.slots for job in setup.jobs.values() if not job.refused]
    if not parts or not all(parts):
        return 0
    return int(max(part.slots for part in parts if part) / setup.platform.scale)
