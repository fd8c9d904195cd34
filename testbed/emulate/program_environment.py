"""The environment of a program's processes: the caller's, the variables that `torchrun` would set,
and those of the experiment.

A process that makes the ranks of a server (`launch: servers`) gets what `torchrun` itself reads
(`PET_...`), so that `torchrun train.py` needs no arguments, and a list of what each of its ranks
would get (testbed/collective/own_rank.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.linux.ownership import user_behind
from p4fabric.emulate.source_address import LIBRARY, OWN_ADDRESS

from testbed.collective.client import BACKEND, RECORD, SOCKET, TIMEOUT_S, socket_name
from testbed.collective.measures import MEASURES
from testbed.collective.own_rank import RANKS
from testbed.collective.tally import COLLECTIVES
from testbed.paths import import_path

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.protocols.host_spec import HostSpec

MASTER_PORT = 29500  # as torchrun's default


@dataclass(frozen=True)
class Place:
    """A rank's place in its job. `node`: number of its server among the job's servers, by their
    first ranks; `local_rank`: its number among the job's ranks there."""

    rank: int
    ranks: int
    server: str
    node: int
    nodes: int
    local_rank: int
    local_ranks: int
    shared: bool  # True: the server has several hosts
    master: str  # IPv4 address of rank 0
    port: int  # there

    @staticmethod
    def of_all(topology: Topology, hosts: Sequence[str], master: str, jobs: int) -> list[Place]:
        """The places of a job's ranks. hosts: by rank. jobs: other jobs that have rank 0 on the
        same server."""
        servers: dict[str, list[str]] = {}
        for host in hosts:
            servers.setdefault(topology.server_of(host), []).append(host)
        nodes = [*servers]
        return [
            Place(
                rank=rank,
                ranks=len(hosts),
                server=server,
                node=nodes.index(server),
                nodes=len(nodes),
                local_rank=servers[server].index(host),
                local_ranks=len(servers[server]),
                shared=len(topology.servers.get(server, ())) > 1,
                master=master,
                port=MASTER_PORT + jobs,
            )
            for rank, host in enumerate(hosts)
            for server in [topology.server_of(host)]
        ]


def environment_of_rank(
    specs: Sequence[HostSpec],
    places: Sequence[Place],
    measures: Sequence[Path],
    collectives: Sequence[Path],
    timeout_ns: int,
    backend: str | None,
    own: Mapping[str, str],
) -> dict[str, str]:
    """Environment of the process of a rank. specs, places, measures, collectives: of one rank; the
    last two are files that it writes. own: the job's variables (its key `env`)."""
    ((spec, place, *files),) = zip(specs, places, measures, collectives, strict=True)
    return {
        **_of_all(spec, place, timeout_ns, backend, own),
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.ranks),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_ranks),
        "GROUP_RANK": str(place.node),
        "GROUP_WORLD_SIZE": str(place.nodes),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(place.rank),
        "ROLE_WORLD_SIZE": str(place.ranks),
        **_of_one(spec, *files),
    }


def environment_of_server(
    specs: Sequence[HostSpec],
    places: Sequence[Place],
    measures: Sequence[Path],
    collectives: Sequence[Path],
    timeout_ns: int,
    backend: str | None,
    own: Mapping[str, str],
) -> dict[str, str]:
    """Environment of a process that makes the ranks of a server. specs, places, measures,
    collectives: of each of them. own: the job's variables."""
    place = places[0]
    ranks = [_of_one(*each) for each in zip(specs, measures, collectives, strict=True)]
    return {
        **_of_all(specs[0], place, timeout_ns, backend, own),
        "PET_NNODES": str(place.nodes),
        "PET_NODE_RANK": str(place.node),
        "PET_NPROC_PER_NODE": str(place.local_ranks),
        "PET_MASTER_ADDR": place.master,
        "PET_MASTER_PORT": str(place.port),
        "GLOO_SOCKET_IFNAME": ranks[0]["GLOO_SOCKET_IFNAME"],
        RANKS: json.dumps(ranks),
    }


def _of_one(spec: HostSpec, measures: Path, collectives: Path) -> dict[str, str]:
    """Variables of each rank."""
    return {
        "GLOO_SOCKET_IFNAME": f"{spec.host}-eth0",
        OWN_ADDRESS: spec.address,
        SOCKET: socket_name(spec.job.number, spec.number),
        MEASURES: str(measures.absolute()),
        COLLECTIVES: str(collectives.absolute()),
    }


def _of_all(
    spec: HostSpec, place: Place, timeout_ns: int, backend: str | None, own: Mapping[str, str]
) -> dict[str, str]:
    """Variables of all processes of a server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    user = user_behind()
    if user is not None:
        with contextlib.suppress(KeyError):  # a user without an account
            account = pwd.getpwuid(user[0])
            kept |= {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
    wanted = kept.pop(RECORD, None)
    kept = {
        "OMP_NUM_THREADS": "1",  # as torchrun does where several ranks share a machine
        **kept,
        # Nobody answers questions about names, so a program need not wait long for an answer.
        "RES_OPTIONS": "timeout:1 attempts:1",
        **own,
    }
    return {
        **kept,
        **_recorded(wanted, spec.job.name),
        "NODE_RANK": str(place.node),
        "MASTER_ADDR": place.master,
        "MASTER_PORT": str(place.port),
        "PYTHONPATH": import_path(kept),
        TIMEOUT_S: f"{timeout_ns / 1e9:g}",
        **({"LD_PRELOAD": _preloaded(kept)} if place.shared else {}),
        **({BACKEND: backend} if backend else {}),
    }


def _preloaded(kept: Mapping[str, str]) -> str:
    """Libraries that a program on a server with several hosts starts with."""
    return " ".join(filter(None, [str(LIBRARY), kept.get("LD_PRELOAD")]))


def _recorded(wanted: str | None, job: str) -> dict[str, str]:
    """Environment that tells a rank of a job what to record. wanted: the message of the command
    `record`."""
    options = json.loads(wanted) if wanted else {}
    if options.pop("job", None) != job:
        return {}
    return {RECORD: json.dumps(options)}
