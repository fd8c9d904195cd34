"""Text about servers that wait for fragments."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from testbed.protocols import server_store
from testbed.simulate import waiting


def test_a_server_names_the_first_fragments_that_it_lacks():
    """With 40 workers, of which those with a bit have come; the store holds two iterations."""
    stage = np.full(8, server_store.PART)
    stage[[0, 2]] = server_store.PART + 1
    bitmap = np.full((8, 2), 0xFFFFFFFF, np.uint32)
    bitmap[1] = 0xFF, 0xFFFFFFFD
    bitmap[5, 0] = 0x7F
    config = SimpleNamespace(workers=40, fragments=4)
    iteration = np.array([6] * 4 + [7] * 4)
    # Rows in slots, of which the first has the last row.
    slots = {"stage": stage[::-1], "bitmap": bitmap[::-1], "iteration": iteration[::-1]}
    server = SimpleNamespace(config=config, row=np.arange(8)[::-1], **slots)
    lacks = "fragment 1 of iteration 6: 1; fragment 3 of iteration 6: ; fragment 0 of iteration 7: "
    assert waiting._server(server) == (
        f"6 fragments incomplete: workers missing: {lacks}, and 3 more"
    )
    stage[[3, 4, 6, 7]] = server_store.PART + 1
    assert waiting._server(SimpleNamespace(adder=server)) == (
        "2 fragments incomplete: workers missing: fragment 1 of iteration 6: 1; fragment 1 of"
        " iteration 7: 39"
    )
    stage[:] = server_store.PART + 1
    assert waiting._server(server) is None
