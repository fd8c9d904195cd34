"""A process that becomes a rank of a program: its user, groups, folder and input."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from p4fabric.base.linux import kernel, pid_namespace

from testbed.emulate import child_processes

TELL = (
    "import json, os, sys; print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(),"
    " os.getcwd(), os.getsid(0) == os.getpid(), sys.stdin.read(), dict(os.environ)]))"
)
NOBODY, NO_ACCOUNT = 65534, 54321


def become(folder: Path, **changed) -> tuple[int, str]:
    """Exit code of a child that becomes a program, and what it has said."""
    command = [sys.executable, "-I", "-c", TELL]
    arguments = {"command": command, "environment": {"A": "1"}, "folder": "/", "user": None}
    said = folder / "said"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            kernel.enter_node = lambda pid: None
            pid_namespace.go_on_inside = lambda number: None
            output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            if os.geteuid() == 0:
                os.setgroups([0, 4, 24])
            child_processes.program({**arguments, "node": 1, "number": 0, **changed}, [])
        except SystemExit as ended:
            os.write(1, str(ended.code).encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_text()


def test_a_program_runs_as_its_caller_in_a_session_of_its_own(tmp_path):
    code, said = become(tmp_path)
    uids, gids, _, folder, leads, given, environment = json.loads(said)
    assert (code, uids, gids) == (0, 3 * [os.getuid()], 3 * [os.getgid()])
    assert (folder, leads, given, environment["A"]) == ("/", True, "", "1")
    assert "HOME" not in environment


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it becomes another user")
@pytest.mark.parametrize("user, groups", [(NOBODY, [NOBODY]), (NO_ACCOUNT, [])])
def test_a_program_has_the_groups_of_its_user_alone(tmp_path, user, groups):
    code, said = become(tmp_path, user=[user, user])
    uids, gids, found, *_ = json.loads(said)
    assert (code, uids, gids) == (0, 3 * [user], 3 * [user])
    assert found == groups


def test_a_program_that_cannot_be_run_is_named(tmp_path):
    code, said = become(tmp_path, command=["no-such-program"])
    assert code == 1 and said == "no-such-program cannot be run: No such file or directory"
