"""Functions that the forked processes of a run call: from a spawner's arguments to the part that
does the work.

Nothing is imported here that one of the two kinds of process would not need anyway: a switch
process never loads numba.
"""

from __future__ import annotations

import os
import pwd
import socket
import sys
from pathlib import Path


def host(arguments: dict, descriptors: list[int]) -> int:
    """A worker or a parameter server.

    arguments: {"spec" (HostSpec.to_json), "output", "row", "rows", "socket" (SocketSettings),
    "times" (null, or its place in the third descriptor)}. descriptors: its end of the control
    socket, the memory file of the board (testbed.hosts.progress_board), and perhaps that of times
    (testbed.hosts.shared_times).
    """
    from testbed.hosts.host_process import run_host
    from testbed.hosts.progress_board import open_board
    from testbed.hosts.shared_times import arrays
    from testbed.hosts.sockets import SocketSettings
    from testbed.protocols.host_spec import HostSpec

    control, board, *shared = descriptors
    spec = HostSpec.from_json(arguments["spec"])
    times = None
    if shared and arguments["times"] is not None:
        times = arrays(shared[0], arguments["times"]["size"], arguments["times"]["offset"], spec)
    table = open_board(board, arguments["rows"])
    with socket.socket(fileno=control) as channel:
        run_host(
            spec,
            Path(arguments["output"]),
            table[arguments["row"]],
            channel,
            settings=SocketSettings(*arguments["socket"]),
            times=times,
        )
    return 0


def bmv2_switch(arguments: dict, descriptors: list[int]) -> None:
    """A BMv2 switch: this process becomes simple_switch. arguments: command, namespace (a process
    in the switch's namespaces)."""
    from p4fabric.base.linux import kernel
    from p4fabric.base.linux.kernel import wake_promptly

    wake_promptly()
    # It looks at its interfaces in /sys, which is that of the mount namespace.
    kernel.enter_mounts(arguments["namespace"])
    command = arguments["command"]
    os.execvp(command[0], command)


def switch(arguments: dict, descriptors: list[int]) -> int:
    """A P4 switch. arguments: program, defines, include_dirs, compiled (the program's so_path),
    interfaces by port, control, seed, trains, queues (of each port)."""
    from p4engine.backend.build import compile_program, compiled_before
    from p4engine.process.switch_process import serve
    from p4engine.switch.packet_loop import LONGEST_TRAIN
    from p4fabric.base.linux.kernel import wake_promptly

    wake_promptly()
    # The runner has compiled it; the cache may have lost it when a switch starts again.
    compiled = compiled_before(Path(arguments["compiled"])) or compile_program(
        arguments["program"], arguments["defines"], arguments["include_dirs"]
    )
    return serve(
        compiled,
        {int(port): name for port, name in arguments["interfaces"].items()},
        arguments["control"],
        seed=arguments["seed"],
        trains=LONGEST_TRAIN if arguments["trains"] else 0,
        priority_queues=arguments["queues"],
    )


def program(arguments: dict, descriptors: list[int]) -> None:
    """A rank of a job's program, or the process that makes those of a server: this process's child
    becomes it. arguments: command, environment, folder, user ([uid, gid] of the user as whom it
    runs, or null), node (a process in its namespaces), number (of its rank)."""
    from p4fabric.base.linux import kernel, pid_namespace

    kernel.enter_node(arguments["node"])
    pid_namespace.go_on_inside(arguments["number"])  # so that what it starts ends with it
    parent = os.getppid()
    os.setsid()
    if arguments["user"] is not None:
        uid, gid = arguments["user"]
        try:
            os.initgroups(pwd.getpwuid(uid).pw_name, gid)
        except KeyError:  # a user without an account has no other groups
            os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        kernel.die_with_parent(parent)  # again, since a change of the user undoes it
    os.chdir(arguments["folder"])
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    command = arguments["command"]
    try:
        os.execvpe(command[0], command, arguments["environment"])
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")
