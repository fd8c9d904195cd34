"""A Dask cluster that runs points of a sweep: its workers are looked at before.

A worker must have the same testbed, since a point goes there as its experiment. Points on Mininet
need workers that are root. A worker that dies costs no point: Dask gives what it had to another.

Certificates for TLS come from Dask's own configuration, which its scheduler, workers and clients
share (docs/dask.md).
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from p4engine.p4runtime.certificates import is_local
from p4fabric.base.errors import UserError
from p4fabric.base.program import pip_install

from testbed.paths import DISTRIBUTIONS
from testbed.results import checkout

PACKAGES = (*DISTRIBUTIONS, "numba")
REMEDY = (
    "install all three packages there, of the same checkout: pip install ./p4engine ./p4fabric ."
)
ENCRYPTED = ("tls://", "wss://")
SETTINGS = {  # below distributed.comm.tls in Dask's configuration
    "ca-file": "DASK_DISTRIBUTED__COMM__TLS__CA_FILE",
    "client.cert": "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT",
}
CONNECT_TIMEOUT = "10s"
CLIENT_FILES = ("tls_ca_file", "tls_client_cert", "tls_client_key")  # in Dask's Security


@contextmanager
def connected(address: str) -> Iterator[tuple[Any, dict[str, dict[str, Any]]]]:
    """The client of the cluster whose scheduler has this address, and what `check_workers` says of
    its workers. Raises UserError."""
    try:
        from dask.distributed import Client
        from distributed.versions import VersionMismatchWarning
    except ImportError:
        raise UserError(
            f"--dask needs the package distributed: {pip_install()} distributed"
        ) from None
    if address.startswith(ENCRYPTED):
        _check_certificates(address)
    try:
        with warnings.catch_warnings():
            # A table of many lines; what matters here is compared below.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            client = Client(address, timeout=CONNECT_TIMEOUT)
    except (OSError, ValueError) as error:
        raise UserError(f"there is no Dask scheduler at {address}: {error}") from None
    with client:
        yield client, check_workers(client, address)


def exposure(address: str) -> str:
    """Reason why the scheduler at `address` is open to others than its users; "" if it is not, as
    far as the address tells."""
    if address.startswith((*ENCRYPTED, "inproc://")) or is_local(address.rpartition("://")[2]):
        return ""
    return (
        f"the Dask scheduler at {address} is asked without TLS: anybody who reaches it can run"
        " programs on its workers, and points and results can be read and changed on the way."
        " With an address tls://HOST:PORT and certificates (docs/dask.md), only who has one can"
    )


def _check_certificates(address: str) -> None:
    """Check that Dask's configuration fits `address`. Raises UserError."""
    import dask
    from distributed.security import Security

    for key, variable in SETTINGS.items():
        if not dask.config.get(f"distributed.comm.tls.{key}", None):
            raise UserError(
                f"{address} needs certificates: Dask's configuration has no"
                f" distributed.comm.tls.{key}; set it there, or {variable} to a file in PEM"
                " (docs/dask.md)"
            )
    security = Security()
    files = {name: getattr(security, name) for name in CLIENT_FILES if getattr(security, name)}
    for name, file in files.items():
        try:
            with open(file, "rb"):
                pass
        except OSError as error:
            raise UserError(f"{file}, Dask's {name}: {error.strerror}") from None
    try:
        security.get_connection_args("client")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise UserError(
            f"{address}: {', '.join(files.values())} are not an authority, a certificate and its"
            f" private key in PEM: {getattr(error, 'reason', None) or error}"
        ) from None


def check_workers(client: Any, address: str) -> dict[str, dict[str, Any]]:
    """Descriptions of the workers, by address. Raises UserError that names one that cannot run
    points."""
    found = client.run(describe, on_error="return")
    if not found:
        raise UserError(f"the Dask scheduler at {address} has no worker: start one, `dask worker`")
    here = describe()
    for worker, said in found.items():
        if isinstance(said, BaseException):
            # What a worker cannot even load comes as an exception that quotes the one there.
            lacks = re.search(r"No module named '[\w.]+'", str(said))
            why = f"lacks the testbed ({lacks[0]})" if lacks else f"cannot load the testbed: {said}"
            raise UserError(f"Dask worker {worker} {why}; {REMEDY}")
        for name in (*PACKAGES, "commit"):
            if said[name] != here[name] and None not in (said[name], here[name]):
                raise UserError(
                    f"Dask worker {worker} on {said['machine']} has {name} {said[name]}, this"
                    f" machine {here[name]}; {REMEDY}"
                )
    return found


def describe() -> dict[str, Any]:
    """Versions and rights of this machine, for comparison; called on workers."""
    import platform

    versions: dict[str, Any] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        **versions,
        "commit": checkout()["commit"],
        "machine": platform.node(),
        "root": os.geteuid() == 0,
    }


def root_workers(workers: dict[str, dict[str, Any]]) -> list[str]:
    """Workers of `check_workers` that may run points on Mininet, by their addresses. Raises
    UserError where there is none."""
    able = [worker for worker, said in workers.items() if said["root"]]
    if not able:
        raise UserError(
            "points on Mininet need workers that run as root, and no worker of this cluster does:"
            " start one with sudo on each machine"
        )
    return able
