"""Requests of a program to the switch around it: drops, clones, further passes, digests,
messages."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.backend.c_text import c_string
from p4engine.backend.emit_architecture import Parts
from p4engine.frontend import ast
from p4engine.frontend.types import width_of
from p4engine.middle.instantiate import known_number
from p4engine.middle.layout import words

FIELD_LIST_OF_CALL = 1 << 16  # numbers of lists that clone3 and its like make up
DROP_PORT = 511


class RequestEmitter:
    """Requests to the traffic manager and to the control plane. `functions` has the externs' C by
    their P4 names."""

    def __init__(self, parts: Parts) -> None:
        self.context, self.left = parts.context, parts.left
        self.expressions, self.fields = parts.expressions, parts.fields
        self.call_lists: list[tuple[str, ...]] = []  # C paths, from FIELD_LIST_OF_CALL on
        self.functions: dict[str, Callable[..., str | None]] = {
            "mark_to_drop": self._mark_to_drop,
            "clone": self._clone,
            "clone3": self._clone_with_data,
            "clone_preserving_field_list": self._clone_with_list,
            "resubmit": self._resubmit,
            "resubmit_preserving_field_list": self._resubmit_with_list,
            "recirculate": self._recirculate,
            "recirculate_preserving_field_list": self._recirculate_with_list,
            "truncate": self._truncate,
            "digest": self._digest,
            "assert": self._assert,
            "assume": self._assert,
            "log_msg": self._log_msg,
        }

    # ---- to the traffic manager ----

    def _mark_to_drop(self, call: ast.ExternCall, standard: ast.Expr | None = None) -> None:
        name = self.left.left(standard) if standard is not None else "P->base.std"
        self.context.out.append(f"{name}.egress_spec = {DROP_PORT};")
        self.context.out.append(f"{name}.mcast_grp = 0;")

    def _field_list(self, e: ast.Expr) -> int:
        return known_number(self.expressions.known(e))

    def _list_of_call(self, data: ast.Expr | None) -> int:
        """A field list from the explicit fields of clone3, resubmit(data), recirculate(data)."""
        if data is None:
            return -1
        fields = [text for text, _ in self.fields.fields_of(data)]
        paths = tuple(text for text in fields if text.startswith(("P->m.", "P->h.")))
        if not paths:
            return -1
        if paths not in self.call_lists:
            self.call_lists.append(paths)
        return FIELD_LIST_OF_CALL + self.call_lists.index(paths)

    def _request_clone(self, session: ast.Expr, fields: int) -> None:
        number = self.expressions.small(session)
        self.context.out.append(f"P->base.req.clone_session = (uint32_t){number};")
        self.context.out.append(f"P->base.req.clone_fields = {fields};")
        self.context.out.append("P->base.req.clone = 1;")

    def _clone(self, call: ast.ExternCall, kind: ast.Expr, session: ast.Expr) -> None:
        self._request_clone(session, -1)

    def _clone_with_data(
        self, call: ast.ExternCall, kind: ast.Expr, session: ast.Expr, data: ast.Expr
    ) -> None:
        self._request_clone(session, self._list_of_call(data))

    def _clone_with_list(
        self, call: ast.ExternCall, kind: ast.Expr, session: ast.Expr, index: ast.Expr
    ) -> None:
        self._request_clone(session, self._field_list(index))

    def _request_pass(self, name: str, fields: int) -> None:
        self.context.out.append(f"P->base.req.{name}_fields = {fields};")
        self.context.out.append(f"P->base.req.{name} = 1;")

    def _resubmit(self, call: ast.ExternCall, data: ast.Expr) -> None:
        self._request_pass("resubmit", self._list_of_call(data))

    def _recirculate(self, call: ast.ExternCall, data: ast.Expr) -> None:
        self._request_pass("recirculate", self._list_of_call(data))

    def _resubmit_with_list(self, call: ast.ExternCall, index: ast.Expr) -> None:
        self._request_pass("resubmit", self._field_list(index))

    def _recirculate_with_list(self, call: ast.ExternCall, index: ast.Expr) -> None:
        self._request_pass("recirculate", self._field_list(index))

    def _truncate(self, call: ast.ExternCall, length: ast.Expr) -> None:
        limit = self.context.temp_c("uint32_t", f"(uint32_t){self.expressions.small(length)}")
        self.context.out.append(
            f"if (!P->base.req.truncate || {limit} < P->base.req.truncate) "
            f"P->base.req.truncate = {limit};"
        )

    # ---- to the control plane ----

    def _digest(self, call: ast.ExternCall, receiver: ast.Expr, data: ast.Expr) -> None:
        number = next(d.number for d in self.context.digests if d.call is call)
        array, count = self.fields.word_array(self.fields.fields_of(data))
        self.context.out.append(
            f"if (I->config.digest) I->config.digest(I->config.user, &P->base,"
            f" (uint32_t){self.expressions.small(receiver)}, {number}, {array}, {count});"
        )

    # ---- to the author of the program ----

    def _assert(self, call: ast.ExternCall, check: ast.Expr) -> None:
        context = self.context
        file = context.diagnostics.files[call.place.file].rsplit("/", 1)[-1]
        text = c_string(f"{file}:{call.place.line}: {call.decl.name} failed")
        leave = context.goto(context.frame.exit_label or "reject")
        condition = self.expressions.value(check)
        context.out.append(f"if (!({condition})) {{ p4_failed(I, &P->base, {text}); {leave} }}")

    def _log_msg(
        self, call: ast.ExternCall, message: ast.Expr, data: ast.Expr | None = None
    ) -> None:
        context = self.context
        text = self.expressions.known(message)
        assert isinstance(text, str), "log_msg takes a string"
        fields = self.fields.fields_of(data) if data is not None else []
        array, _ = self.fields.word_array(fields)
        widths = ", ".join(str(words(width_of(t) or 1) or 1) for _, t in fields) or "0"
        name = context.fresh("widths")
        context.out.append(f"static const uint8_t {name}[] = {{ {widths} }};")
        context.out.append(
            f"p4_log(I, &P->base, {c_string(text)}, {array}, {name}, {len(fields)});"
        )
