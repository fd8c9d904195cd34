"""Requests of TNA's programs: mirror copies, resubmission, digests, no destination."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.emit_architecture import Parts
from p4engine.frontend import ast
from p4engine.frontend.types import is_flexible, underlying, width_of

LONGEST_MIRROR = 64  # TNA_LONGEST_MIRROR of architecture.h
LONGEST_RESUBMIT = 8
DESTINATIONS = {"ucast_egress_port": "TNA_NO_PORT", "mcast_grp_a": "0", "mcast_grp_b": "0"}


class RequestEmitter:
    """Requests to the traffic manager and to the control plane. `functions` has the externs' C by
    their P4 names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.expressions, self.fields = parts.context, parts.expressions, parts.fields
        self.left = parts.left
        self.functions: dict[str, Callable[..., str | None]] = {
            "Mirror.emit": self._mirror,
            "Resubmit.emit": self._resubmit,
            "Digest.pack": self._digest,
            "invalidate": self._invalidate,
        }

    def _pack(self, call: ast.MethodCall, data: ast.Expr, longest: int) -> tuple[str, int]:
        """(C array, bytes) of a header that goes in front of a packet."""
        fields = self.fields.fields_of(data)
        bits = sum(width_of(type_) or 0 for _, type_ in fields)
        if (bits % 8 and not is_flexible(data.type)) or bits > 8 * longest:
            raise self.context.fatal(
                call.place,
                f"{call.extern.name}.emit takes whole bytes, {longest} at most, not {bits} bits",
            )
        return self.fields.pack(fields)[0], (bits + 7) // 8

    def _mirror(
        self, call: ast.MethodCall, session: ast.Expr, data: ast.Expr | None = None
    ) -> None:
        out = self.context.out
        number = self.expressions.small(session)
        name, size = ("", 0) if data is None else self._pack(call, data, LONGEST_MIRROR)
        if size:
            out.append(f"memcpy(P->base.req.mirror_header, {name}, {size});")
        out.append(f"P->base.req.mirror_length = {size};")
        out.append(f"P->base.req.mirror_session = (uint32_t){number};")
        out.append("P->base.req.mirror = 1;")

    def _resubmit(self, call: ast.MethodCall, data: ast.Expr | None = None) -> None:
        out = self.context.out
        out.append("P->base.req.resubmit_data = 0;")
        if data is not None:
            name, size = self._pack(call, data, LONGEST_RESUBMIT)
            for i in range(size):
                shift = 8 * (LONGEST_RESUBMIT - 1 - i)
                out.append(f"P->base.req.resubmit_data |= (uint64_t){name}[{i}] << {shift};")
        out.append("P->base.req.resubmit = 1;")

    def _digest(self, call: ast.MethodCall, data: ast.Expr) -> None:
        number = next(d.number for d in self.context.digests if d.call is call)
        array, count = self.fields.word_array(self.fields.fields_of(data))
        self.context.out.append(
            "if (I->config.digest) I->config.digest(I->config.user, &P->base,"
            f" 0, {number}, {array}, {count});"
        )

    def _invalidate(self, call: ast.ExternCall, field: ast.Expr) -> None:
        """Take a destination back that the program has set."""
        if (
            not isinstance(field, ast.Member)
            or str(underlying(field.base.type)) != "ingress_intrinsic_metadata_for_tm_t"
            or field.name not in DESTINATIONS
        ):
            raise self.context.fatal(
                call.place, f"invalidate is supported for {', '.join(DESTINATIONS)} only"
            )
        self.left.store(field, DESTINATIONS[field.name])
