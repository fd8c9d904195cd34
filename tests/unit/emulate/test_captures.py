"""The end of captures: as long as they write what has passed, they are waited for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from p4fabric.base.captured_ports import CapturedPort
from p4fabric.base.errors import RunError

from testbed.emulate.captures import Captures


@pytest.mark.parametrize("behind", [0, 3])
def test_captures_are_waited_for_while_their_files_grow(tmp_path, behind):
    ports = [CapturedPort("s1", number, f"h{number}") for number in (1, 2)]
    files = [tmp_path / each.file_name for each in ports]
    for file in files:
        file.write_bytes(b"header")
    waits = []

    def wait_ended(processes, timeout, what):
        waits.append(timeout)
        if len(waits) <= behind:
            files[1].write_bytes(files[1].read_bytes() + b"more")
        if len(waits) <= behind or stuck:
            raise RunError(f"{what} took longer than {timeout} s")

    process = SimpleNamespace(code=0, log_tail=lambda: "")
    nodes = SimpleNamespace(signal=lambda *_: None, wait_ended=wait_ended)
    for stuck in (False, True):
        waits.clear()
        captures = Captures(ports, SimpleNamespace(nodes=nodes), tmp_path, None)
        captures._processes = [process, process]
        if stuck:
            with pytest.raises(RunError, match="end of the captures took longer than 30 s"):
                captures.__exit__(None)
        else:
            captures.__exit__(None)
        assert waits == [30] * (behind + 1)
