"""P4Runtime over TLS: with the certificates of a test's own authority, made by openssl."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from p4engine.frontend.diagnostics import P4Error
from p4engine.p4runtime.certificates import certificates_of, exposure, is_local
from p4engine.p4runtime.device import Device
from p4engine.p4runtime.p4info import p4info
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.service import Service
from p4engine.switch.library import Switch
from p4engine_testing.controller import PROGRAM

from p4engine import compile_program

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
CALL = "/p4.v1.P4Runtime/Capabilities"
WAIT_S = 20


def made(folder: Path, name: str, signed_by: str | None = None) -> None:
    """NAME.pem and NAME.key: a certificate for localhost; an authority without `signed_by`."""
    call = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    call += ["-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key"]
    call += ["-out", f"{name}.pem"]
    if signed_by is not None:
        call += ["-CA", f"{signed_by}.pem", "-CAkey", f"{signed_by}.key"]
        call += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        call += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(call, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("certificates")
    for name, signed_by in (
        ("authority", None),
        ("others", None),
        ("switch", "authority"),
        ("controller", "authority"),
        ("stranger", "others"),
    ):
        made(path, name, signed_by)
    return path


def options(folder: Path, **files: str) -> argparse.Namespace:
    names = ("cert", "key", "clients")
    return argparse.Namespace(
        **{f"p4runtime_{n}": str(folder / files[n]) if n in files else None for n in names}
    )


@pytest.fixture(scope="module")
def switch():
    return Switch(compile_program(PROGRAM), ports=[1, 2])


@pytest.fixture
def port(folder, switch, request):
    """Of a server that has these files."""
    certificates = certificates_of(options(folder, **request.param))
    device = Device(switch, p4info(PROGRAM), contextlib.nullcontext)
    service = Service(device, "127.0.0.1:0", certificates=certificates)
    yield service.port
    service.close()


def capabilities(port: int, folder: Path, client: str | None, roots: str = "authority.pem") -> str:
    """The server's version of P4Runtime, or the code of what went wrong."""
    texts = [None, None]
    if client is not None:
        texts = [(folder / f"{client}.{end}").read_bytes() for end in ("key", "pem")]
    credentials = grpc.ssl_channel_credentials((folder / roots).read_bytes(), *texts)
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        return _ask(channel)


def _ask(channel: grpc.Channel) -> str:
    call = channel.unary_unary(
        CALL,
        p4runtime_pb2.CapabilitiesRequest.SerializeToString,
        p4runtime_pb2.CapabilitiesResponse.FromString,
    )
    try:
        answer = call(p4runtime_pb2.CapabilitiesRequest(), timeout=WAIT_S)
    except grpc.RpcError as error:
        return error.code().name
    return answer.p4runtime_api_version


TLS = {"cert": "switch.pem", "key": "switch.key"}


@pytest.mark.parametrize("port", [TLS], indirect=True)
def test_a_controller_knows_the_switch_and_nothing_is_in_the_clear(port, folder):
    assert capabilities(port, folder, None).startswith("1.")
    assert capabilities(port, folder, None, roots="others.pem") == "UNAVAILABLE"
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        assert _ask(channel) == "UNAVAILABLE"


@pytest.mark.parametrize("port", [TLS | {"clients": "authority.pem"}], indirect=True)
def test_only_controllers_whose_certificate_is_trusted(port, folder):
    assert capabilities(port, folder, "controller").startswith("1.")
    assert capabilities(port, folder, "stranger") == "UNAVAILABLE"
    assert capabilities(port, folder, None) == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"cert": "switch.pem"}, "needs --p4runtime-key, too"),
        ({"clients": "authority.pem"}, "needs --p4runtime-cert, too"),
        ({"cert": "switch.pem", "key": "nowhere.key"}, "nowhere.key: No such file"),
        (
            {"cert": "switch.pem", "key": "stranger.key"},
            "are not a certificate and its private key",
        ),
        (TLS | {"clients": "switch.key"}, "has no certificates in PEM"),
    ],
)
def test_files_that_do_not_fit_are_named(folder, files, message):
    with pytest.raises(P4Error, match=message):
        certificates_of(options(folder, **files))


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1:9559", True),
        ("127.8.0.1:1", True),
        ("[::1]:9559", True),
        ("localhost:9559", True),
        ("unix:/run/switch", True),
        ("0.0.0.0:9559", False),
        ("[::]:9559", False),
        ("10.0.0.1:9559", False),
        ("switch.example:9559", False),
    ],
)
def test_an_address_that_others_reach_is_warned_of(folder, address, local):
    assert is_local(address) == local
    assert (exposure(address, None) == "") == local
    with_tls = certificates_of(options(folder, **TLS))
    assert (exposure(address, with_tls) == "") == local
    trusted = certificates_of(options(folder, **TLS, clients="authority.pem"))
    assert exposure(address, trusted) == ""
