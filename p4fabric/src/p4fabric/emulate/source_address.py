"""Connections of a rank's program leave from the rank's own address.

A program of a rank shares its network namespace with the other ranks of its server. Whoever opens a
connection without a `bind`, as gloo does, leaves the choice of an address to the kernel, which
knows of no ranks. So such programs are started with a small library (LD_PRELOAD), which binds a
socket to the rank's address (the environment variable `OWN_ADDRESS`) before it connects to a host
of the network.

The library lies in a file system of the server's mount namespace alone, and goes with it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from p4engine.backend.c_build import find_c_compiler

from p4fabric.base.errors import RunError
from p4fabric.emulate.run_records import DIRECTORY

OWN_ADDRESS = "P4FABRIC_ADDRESS"  # environment variable: IPv4 address of the process's rank
LIBRARY = DIRECTORY / "own_address.so"  # in the namespaces of servers with several hosts

_C = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

static void bind_to_own_address(int fd, const struct sockaddr *to, socklen_t size) {
    const char *own = getenv("P4FABRIC_ADDRESS");
    const struct sockaddr_in *target = (const struct sockaddr_in *)to;
    struct sockaddr_in from = {.sin_family = AF_INET}, now;
    socklen_t length = sizeof now;
    int yes = 1;
    if (!own || !to || size < sizeof *target || to->sa_family != AF_INET) return;
    if (ntohl(target->sin_addr.s_addr) >> 24 != 10) return;  /* no host of the network */
    if (inet_pton(AF_INET, own, &from.sin_addr) != 1) return;
    if (getsockname(fd, (struct sockaddr *)&now, &length) || now.sin_family != AF_INET) return;
    if (now.sin_addr.s_addr != htonl(INADDR_ANY) || now.sin_port) return;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    bind(fd, (struct sockaddr *)&from, sizeof from);
}

int connect(int fd, const struct sockaddr *to, socklen_t size) {
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    int kept = errno;
    bind_to_own_address(fd, to, size);
    errno = kept;
    return next(fd, to, size);
}
"""


def build_library(folder: Path) -> Path:
    """Compile the library in a folder; returns its path. Raises RunError."""
    source, library = folder / "own_address.c", folder / LIBRARY.name
    source.write_text(_C)
    compiler = find_c_compiler() or "cc"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunError("the C compiler cannot make a library for programs", done.stderr.strip())
    return library
