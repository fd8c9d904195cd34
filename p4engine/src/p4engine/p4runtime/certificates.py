"""Access to P4Runtime: the switch's certificate, and those of the controllers that it trusts.

Without certificates there is no encryption, and anybody who can open the address can program the
switch. That is no more than what a local user can do anyway as long as the address is the machine's
own. Elsewhere it is everybody's switch, which `exposure` says.

With a certificate the connection is encrypted, and controllers know the switch. With certificate
authorities for clients, a controller must have a certificate that one of them has signed.
"""

from __future__ import annotations

import argparse
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p4engine.frontend.diagnostics import Diagnostic, P4Error

LOCAL_NAMES = ("localhost", "ip6-localhost")


@dataclass(frozen=True)
class Certificates:
    """PEM texts: the switch's certificate chain with its private key, and the certificates of the
    authorities whose clients may connect; None: any client may."""

    chain: bytes
    key: bytes
    clients: bytes | None = None

    def credentials(self) -> Any:
        """Credentials for gRPC's server."""
        import grpc

        return grpc.ssl_server_credentials(
            [(self.key, self.chain)],
            root_certificates=self.clients,
            require_client_auth=self.clients is not None,
        )


def certificates_of(arguments: argparse.Namespace) -> Certificates | None:
    """Certificates from the options of a switch's command; None without.

    Raises P4Error: an option is missing, or a file cannot be read, is no PEM, or the key is not the
    certificate's."""
    cert, key, clients = (
        getattr(arguments, f"p4runtime_{name}", None) for name in ("cert", "key", "clients")
    )
    if cert is None and key is None and clients is None:
        return None
    if cert is None or key is None:
        missing = "--p4runtime-cert" if cert is None else "--p4runtime-key"
        raise _error(f"TLS for P4Runtime needs {missing}, too")
    texts = [_read(path) for path in (cert, key, *([clients] if clients else []))]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password="")  # else it would ask the terminal
    except (ssl.SSLError, ValueError) as error:
        raise _error(
            f"{cert} and {key} are not a certificate and its private key in PEM without a"
            f" password: {_reason(error)}"
        ) from None
    if clients is not None:
        try:
            context.load_verify_locations(clients)
        except ssl.SSLError as error:
            raise _error(f"{clients} has no certificates in PEM: {_reason(error)}") from None
    return Certificates(*texts)


def exposure(address: str, certificates: Certificates | None) -> str:
    """Reason why an address (as `full_address` makes it) is open to others than this machine's
    users; "" if it is not."""
    if is_local(address) or (certificates is not None and certificates.clients is not None):
        return ""
    needed = "--p4runtime-clients"
    if certificates is None:
        needed = "--p4runtime-cert, --p4runtime-key and --p4runtime-clients"
    return (
        f"P4Runtime listens at {address}, not only on this machine: anybody who reaches it can"
        f" program the switch. With {needed}, only controllers that you trust can"
    )


def is_local(address: str) -> bool:
    """True if only this machine (or, of a network namespace, what is in it) reaches an address."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _error(f"{path}: {error.strerror}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


def _error(message: str) -> P4Error:
    return P4Error([Diagnostic("error", message, "", 0, 0, "")])
