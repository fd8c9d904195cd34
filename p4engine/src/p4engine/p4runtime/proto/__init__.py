"""The protobuf messages of P4Runtime: modules that were generated, and the pool that they live in.

Made on 2026-11-22 by tools/make_protobuf.py, with protoc of grpcio-tools 1.60.1, from the
definitions in the repository p4lang/p4runtime at commit ab29f3c of 2026-06-13 (folder proto: p4/v1,
p4/config/v1, google/rpc; Apache-2.0), which are those of the Python package p4runtime 1.6.0. The
server follows version 1.4.1 of the specification; what later ones add to a message is known here,
so that a request with it is refused.

Messages are registered in a descriptor pool of their own (pool.py), not in protobuf's default one:
there, another copy of the same definitions (a controller's in the same process, for instance
finsy's) would be an error.
"""

from p4engine.frontend.diagnostics import Diagnostic, P4Error

try:
    import google.protobuf as _  # noqa: F401
except ImportError as error:
    message = f"P4Info needs protobuf: pip install 'p4engine[p4runtime]' ({error})"
    raise P4Error([Diagnostic("error", message, "", 0, 0, "")]) from None
