"""A binary heap of timers, for machines with many deadlines.

An entry is an item number (a fragment, or a row of a server's store). Its due time is in an array
indexed by the item. An item has at most one entry. Items that are done stay in the heap until they
reach the top, which is cheaper than removing them from the middle.
"""

from __future__ import annotations

from p4fabric.simulate.jit import njit


@njit(cache=True)
def push(items, size, due, item):
    """Add `item`; returns the new size. `items` is int32, `due` int64 nanoseconds."""
    child = size
    when = due[item]
    while child > 0:
        parent = (child - 1) >> 1
        above = items[parent]
        if due[above] <= when:
            break
        items[child] = above
        child = parent
    items[child] = item
    return size + 1


@njit(cache=True)
def decrease_due(items, size, due, item, when):
    """Make an item of the heap due earlier, at `when`. Searches the heap, so only for rare
    events."""
    for place in range(size):
        if items[place] == item:
            due[item] = when
            push(items, place, due, item)
            return


@njit(cache=True)
def pop(items, size, due):
    """Take the earliest item, items[0], out; returns the new size."""
    size -= 1
    last = items[size]
    when = due[last]
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and due[items[child + 1]] < due[items[child]]:
            child += 1
        if due[items[child]] >= when:
            break
        items[parent] = items[child]
        parent = child
    if size > 0:
        items[parent] = last
    return size
