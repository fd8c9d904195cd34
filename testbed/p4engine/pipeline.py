"""One instance of a compiled program, with its control plane by names.

A thin layer over the C functions of p4rt.h: it finds objects by their P4 names, turns numbers
into the words that cross the border, and turns statuses into errors that name the object.
Packets go through the traffic manager (library.Switch); `Pipeline.process` runs the bare stages
and is meant for tests and timing.

Match values, one per key: exact and optional take a number (optional: None for any); lpm takes
(value, prefix length) or "10.0.0.0/8"; ternary takes (value, mask), a number for all bits, or
None for any; range takes (low, high) or a number. Numbers may be int, bytes (big-endian), or
text: decimal, 0x..., an IPv4, IPv6 or MAC address.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any

from .diagnostics import Diagnostic, P4Error

STATUS = {
    -1: "there is no such object",
    -2: "there is no such entry",
    -3: "an entry with this match exists already",
    -4: "it is full",
    -5: "there is no such action",
    -6: "the index is out of range",
    -7: "a value does not fit its width, or a range is empty",
    -8: "it is constant in the program",
    -9: "no memory",
    -10: "this kind of entry does not belong here",
    -11: "it is still in use",
}
ALL_ONES = 2**64 - 1


class ControlError(P4Error):
    """A control-plane call that cannot be carried out; nothing was changed by it."""

    def __init__(self, message: str):
        super().__init__([Diagnostic("error", message, "", 0, 0, "")])

    def __str__(self) -> str:
        return self.diagnostics[0].message


class _Rates(ctypes.Structure):
    _fields_ = [("rate", c_double * 2), ("burst", c_double * 2), ("set", c_uint32)]


class _Count(ctypes.Structure):
    _fields_ = [("packets", c_uint64), ("bytes", c_uint64)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("seed", c_uint64),
        ("user", c_void_p),
        ("log", c_void_p),
        ("digest", c_void_p),
        ("trace", c_void_p),
    ]


_LOG = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, ctypes.c_char_p)
_WORDS = POINTER(c_uint64)
_SIGNATURES = {
    "p4_create": (c_void_p, [POINTER(_Config)]),
    "p4_destroy": (None, [c_void_p]),
    "p4_set_hooks": (None, [c_void_p, POINTER(_Config)]),
    "p4_table_add": (c_int64, [c_void_p, c_uint32, _WORDS, c_int32, c_uint32, _WORDS]),
    "p4_table_add_indirect": (c_int64, [c_void_p, c_uint32, _WORDS, c_int32, c_int, c_uint32]),
    "p4_table_modify": (c_int, [c_void_p, c_uint32, c_int64, c_uint32, _WORDS]),
    "p4_table_modify_indirect": (c_int, [c_void_p, c_uint32, c_int64, c_int, c_uint32]),
    "p4_table_delete": (c_int, [c_void_p, c_uint32, c_int64]),
    "p4_table_clear": (c_int, [c_void_p, c_uint32]),
    "p4_table_set_default": (c_int, [c_void_p, c_uint32, c_uint32, _WORDS]),
    "p4_table_set_default_indirect": (c_int, [c_void_p, c_uint32, c_int, c_uint32]),
    "p4_table_reset_default": (c_int, [c_void_p, c_uint32]),
    "p4_table_count": (c_int64, [c_void_p, c_uint32]),
    "p4_table_next": (c_int64, [c_void_p, c_uint32, c_int64]),
    "p4_table_get": (
        c_int,
        [
            c_void_p,
            c_uint32,
            c_int64,
            _WORDS,
            POINTER(c_int32),
            POINTER(c_uint32),
            POINTER(c_uint32),
            _WORDS,
        ],
    ),
    "p4_table_find": (c_int64, [c_void_p, c_uint32, _WORDS, c_int32]),
    "p4_profile_add_member": (c_int64, [c_void_p, c_uint32, c_uint32, _WORDS]),
    "p4_profile_modify_member": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32, _WORDS]),
    "p4_profile_delete_member": (c_int, [c_void_p, c_uint32, c_uint32]),
    "p4_profile_add_group": (c_int64, [c_void_p, c_uint32]),
    "p4_profile_delete_group": (c_int, [c_void_p, c_uint32, c_uint32]),
    "p4_profile_group_add": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "p4_profile_group_remove": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32]),
    "p4_register_read": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, _WORDS]),
    "p4_register_write": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, _WORDS]),
    "p4_register_fill": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, _WORDS]),
    "p4_counter_read": (c_int, [c_void_p, c_uint32, c_uint64, c_uint64, POINTER(_Count)]),
    "p4_counter_write": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(_Count)]),
    "p4_counter_reset": (c_int, [c_void_p, c_uint32]),
    "p4_direct_counter_read": (c_int, [c_void_p, c_uint32, c_int64, POINTER(_Count)]),
    "p4_direct_counter_write": (c_int, [c_void_p, c_uint32, c_int64, POINTER(_Count)]),
    "p4_direct_counter_reset": (c_int, [c_void_p, c_uint32]),
    "p4_meter_set": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(_Rates)]),
    "p4_meter_set_all": (c_int, [c_void_p, c_uint32, POINTER(_Rates)]),
    "p4_meter_get": (c_int, [c_void_p, c_uint32, c_uint64, POINTER(_Rates)]),
    "p4_direct_meter_set": (c_int, [c_void_p, c_uint32, c_int64, POINTER(_Rates)]),
    "p4_direct_meter_get": (c_int, [c_void_p, c_uint32, c_int64, POINTER(_Rates)]),
    "p4_value_set_add": (c_int, [c_void_p, c_uint32, _WORDS]),
    "p4_value_set_clear": (c_int, [c_void_p, c_uint32]),
}


def word_count(width: int) -> int:
    """64-bit words of a value of `width` bits."""
    return (width + 63) // 64 or 1


def number(value: Any, width: int, what: str, signed: bool = False) -> int:
    """A value in any accepted spelling as an unsigned number of `width` bits."""
    if isinstance(value, bool):
        result = int(value)
    elif isinstance(value, bytes | bytearray):
        result = int.from_bytes(value, "big")
    elif isinstance(value, str):
        result = _parse(value, what)
    elif hasattr(value, "__index__"):
        result = value.__index__()
    else:
        raise ControlError(f"{what}: {value!r} is not a number")
    low = -(1 << (width - 1)) if signed and width else 0
    if not low <= result < 1 << width:
        raise ControlError(f"{what}: {value!r} does not fit into {width} bits")
    return result & ((1 << width) - 1)


def _parse(text: str, what: str) -> int:
    import ipaddress

    clean = text.strip()
    try:
        if clean.lower() in ("true", "false"):
            return int(clean.lower() == "true")
        if clean.count(":") == 5 and "::" not in clean:
            return int(clean.replace(":", ""), 16)
        if clean.count(".") == 3 or ":" in clean:
            return int(ipaddress.ip_address(clean))
        return int(clean, 0)
    except ValueError:
        raise ControlError(f"{what}: {text!r} is not a number or an address") from None


def to_words(value: int, width: int) -> list[int]:
    return [value >> (64 * i) & ALL_ONES for i in range(word_count(width))]


def from_words(words: Sequence[int], width: int) -> int:
    return sum(w << (64 * i) for i, w in enumerate(words[: word_count(width)]))


class _Limits(dict):
    """width -> what its values are below if they fit into one word, else 0."""

    def __missing__(self, width: int) -> int:
        made = self[width] = 1 << width if width <= 64 else 0
        return made


SMALL = _Limits()
_ARRAYS = [c_uint64 * max(1, n) for n in range(17)]


def _array(words: Sequence[int]) -> Any:
    n = len(words)
    return (_ARRAYS[n] if n < 17 else c_uint64 * n)(*words)


class Pipeline:
    """An instance of `compiled`. `lib` is its ctypes library, `handle` its `p4_instance *`."""

    def __init__(self, compiled: Any, seed: int = 0):
        self.compiled = compiled
        self.info: dict = compiled.info
        self.handle: int | None = None
        self.lib = ctypes.CDLL(str(compiled.so_path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments
        self._config = _Config(seed=seed % 2**64)
        self._found: dict[tuple, dict] = {}  # what names were found to mean
        self._hooks: dict[str, Any] = {}
        self.handle = self.lib.p4_create(ctypes.byref(self._config))
        if not self.handle:
            raise ControlError("no memory for the program's tables and registers")

    def close(self) -> None:
        if self.handle:
            self.lib.p4_destroy(self.handle)
            self.handle = None

    def __del__(self) -> None:
        self.close()

    def on_log(self, function: Any) -> None:
        """Call function(text) for log_msg and failed asserts."""

        def hook(_user: Any, _packet: Any, text: bytes) -> None:
            function(text.decode(errors="replace"))

        self._set_hook("log", _LOG(hook))

    def on_trace(self, function: Any) -> None:
        """Call function(ingress_port, text) for every event of a traced build; None: no more."""

        def hook(_user: Any, packet: int, text: bytes) -> None:
            function(c_uint32.from_address(packet).value, text.decode())

        self._set_hook("trace", None if function is None else _LOG(hook))

    def _set_hook(self, name: str, made: Any) -> None:
        setattr(self._config, name, None if made is None else ctypes.cast(made, c_void_p))
        self.lib.p4_set_hooks(self.handle, ctypes.byref(self._config))
        if made is not None:  # ctypes does not keep it; the old one may be running now
            self._hooks[name] = made

    # ---- objects by name ----

    def find(self, kind: str, name: str) -> dict:
        """The object of info[kind] called `name`, in full or by an unambiguous suffix."""
        found = self._found.get((kind, name))
        if found is None:
            found = self._found[kind, name] = self._search(kind, name)
        return found

    def _search(self, kind: str, name: str) -> dict:
        objects = self.info[kind]
        exact = [o for o in objects if o["name"] == name]
        if exact:
            return exact[0]
        close = [o for o in objects if o["name"].endswith("." + name)]
        singular = kind[:-1].replace("_", " ")
        if len(close) == 1:
            return close[0]
        if close:
            names = ", ".join(o["name"] for o in close)
            raise ControlError(f"{singular} {name!r} is ambiguous: {names}")
        names = ", ".join(o["name"] for o in objects) or "none"
        raise ControlError(f"there is no {singular} {name!r}; the program has {names}")

    def _action(self, table: dict, name: str) -> dict:
        found = self._found.get((table["id"], name))
        if found is None:
            found = self._found[table["id"], name] = self._search_action(table, name)
        return found

    @staticmethod
    def _search_action(table: dict, name: str) -> dict:
        actions = table["actions"]
        for candidates in (
            [a for a in actions if a["name"] == name],
            [a for a in actions if a["name"].endswith("." + name)],
        ):
            if len(candidates) == 1:
                return candidates[0]
        names = ", ".join(a["name"] for a in actions) or "none"
        raise ControlError(f"table {table['name']} has no action {name!r}; it has {names}")

    def _check(self, status: int, what: str) -> int:
        if status < 0:
            raise ControlError(f"{what}: {STATUS.get(status, f'status {status}')}")
        return status

    # ---- tables ----

    def _match(self, table: dict, match: Sequence[Any]) -> list[int]:
        keys = [k for k in table["keys"] if k["kind"] != "selector"]
        if isinstance(match, str | bytes) or not isinstance(match, Sequence):
            raise ControlError(
                f"table {table['name']}: the match must be a list, one value per key"
            )
        if len(match) != len(keys):
            raise ControlError(
                f"table {table['name']} has {len(keys)} keys, {len(match)} values given"
            )
        words: list[int] = []
        for key, value in zip(keys, match, strict=True):
            if type(value) is int and key["kind"] == "exact" and 0 <= value < SMALL[key["width"]]:
                words.append(value)  # most entries of large tables
                continue
            words += self._match_key(key, value, f"table {table['name']}, key {key['name']}")
        return words

    @staticmethod
    def _match_key(key: dict, value: Any, what: str) -> list[int]:
        width, kind = key["width"], key["kind"]
        ones = (1 << width) - 1
        pair = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
        if pair and len(value) != 2:
            raise ControlError(f"{what}: expected a pair, not {value!r}")
        if kind == "lpm":
            if isinstance(value, str) and "/" in value:
                value, pair = value.rsplit("/", 1), True
            if value is None:
                value, pair = (0, 0), True
            base, length = value if pair else (value, width)
            size = number(length, 32, what)
            if size > width:
                raise ControlError(f"{what}: the prefix length is at most {width}, not {size}")
            return [*to_words(number(base, width, what), width), size]
        if kind == "ternary":
            if isinstance(value, str) and "&&&" in value:
                value, pair = value.split("&&&"), True
            if value is None:
                value, pair = (0, 0), True
            base, mask = value if pair else (value, ones)
            bits = number(mask, width, what)
            return [*to_words(number(base, width, what) & bits, width), *to_words(bits, width)]
        if kind == "range":
            if isinstance(value, str) and "->" in value:
                value, pair = value.split("->"), True
            if value is None:
                value, pair = (0, ones), True
            low, high = value if pair else (value, value)
            return [
                *to_words(number(low, width, what), width),
                *to_words(number(high, width, what), width),
            ]
        if kind == "optional":
            used = value is not None
            return [*to_words(number(value, width, what) if used else 0, width), int(used)]
        if pair or value is None:
            raise ControlError(f"{what}: an exact key takes one value, not {value!r}")
        return to_words(number(value, width, what), width)

    @staticmethod
    def _params(action: dict, params: Sequence[Any]) -> list[int]:
        expected = action["params"]
        if isinstance(params, dict):
            unknown = set(params) - {p["name"] for p in expected}
            if unknown:
                raise ControlError(f"action {action['name']} has no parameter {min(unknown)!r}")
            missing = [p["name"] for p in expected if p["name"] not in params]
            if missing:
                raise ControlError(f"action {action['name']} needs a value for {missing[0]!r}")
            params = [params[p["name"]] for p in expected]
        if len(params) != len(expected):
            names = ", ".join(p["name"] for p in expected) or "nothing"
            raise ControlError(
                f"action {action['name']} takes {len(expected)} parameters ({names}),"
                f" {len(params)} given"
            )
        words: list[int] = []
        for p, value in zip(expected, params, strict=True):
            if type(value) is int and 0 <= value < SMALL[p["width"]]:
                words.append(value)
                continue
            what = f"action {action['name']}, parameter {p['name']}"
            words += to_words(number(value, p["width"], what), p["width"])
        return words

    def _priority(self, table: dict, priority: int | None) -> int:
        ordered = any(k["kind"] in ("ternary", "range", "optional") for k in table["keys"])
        if ordered and priority is None:
            raise ControlError(f"table {table['name']}: its entries need a priority (lower wins)")
        value = 0 if priority is None else int(priority)
        if not -(2**31) <= value < 2**31:
            raise ControlError(f"table {table['name']}: the priority {value} is too large")
        return value

    def table_add(
        self,
        table: str,
        action: str,
        match: Sequence[Any],
        params: Sequence[Any] = (),
        priority: int | None = None,
    ) -> int:
        """Add an entry; returns its handle. `priority`: the lower number wins."""
        t = self.find("tables", table)
        a = self._action(t, action)
        if a["default_only"]:
            raise ControlError(f"action {a['name']} is only for the default of {t['name']}")
        status = self.lib.p4_table_add(
            self.handle,
            t["id"],
            _array(self._match(t, match)),
            self._priority(t, priority),
            a["id"],
            _array(self._params(a, params)),
        )
        return self._check(status, f"table {t['name']}")

    def table_add_indirect(
        self,
        table: str,
        match: Sequence[Any],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int | None = None,
    ) -> int:
        """Add an entry that points to a member or group of the table's action profile."""
        t = self.find("tables", table)
        status = self.lib.p4_table_add_indirect(
            self.handle,
            t["id"],
            _array(self._match(t, match)),
            self._priority(t, priority),
            int(group is not None),
            group if group is not None else member or 0,
        )
        return self._check(status, f"table {t['name']}")

    def table_modify(
        self, table: str, handle: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        t = self.find("tables", table)
        a = self._action(t, action)
        status = self.lib.p4_table_modify(
            self.handle, t["id"], handle, a["id"], _array(self._params(a, params))
        )
        self._check(status, f"table {t['name']}, entry {handle}")

    def table_delete(self, table: str, handle: int) -> None:
        t = self.find("tables", table)
        status = self.lib.p4_table_delete(self.handle, t["id"], handle)
        self._check(status, f"table {t['name']}, entry {handle}")

    def table_clear(self, table: str) -> None:
        t = self.find("tables", table)
        self._check(self.lib.p4_table_clear(self.handle, t["id"]), f"table {t['name']}")

    def table_set_default(self, table: str, action: str, params: Sequence[Any] = ()) -> None:
        t = self.find("tables", table)
        a = self._action(t, action)
        status = self.lib.p4_table_set_default(
            self.handle, t["id"], a["id"], _array(self._params(a, params))
        )
        self._check(status, f"table {t['name']}, default action")

    def table_set_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        t = self.find("tables", table)
        status = self.lib.p4_table_set_default_indirect(
            self.handle,
            t["id"],
            int(group is not None),
            group if group is not None else member or 0,
        )
        self._check(status, f"table {t['name']}, default action")

    def table_reset_default(self, table: str) -> None:
        t = self.find("tables", table)
        status = self.lib.p4_table_reset_default(self.handle, t["id"])
        self._check(status, f"table {t['name']}, default action")

    def table_count(self, table: str) -> int:
        return self.lib.p4_table_count(self.handle, self.find("tables", table)["id"])

    def table_find(self, table: str, match: Sequence[Any], priority: int | None = None) -> int:
        """The handle of the entry with exactly this match."""
        t = self.find("tables", table)
        status = self.lib.p4_table_find(
            self.handle, t["id"], _array(self._match(t, match)), self._priority(t, priority)
        )
        return self._check(status, f"table {t['name']}")

    def table_dump(self, table: str) -> list[dict]:
        """All entries, then the default (handle -1): handle, match, priority, action, params or
        member/group."""
        t = self.find("tables", table)
        entries = []
        handle = self.lib.p4_table_next(self.handle, t["id"], -1)
        while handle >= 0:
            entries.append(self._entry(t, handle))
            handle = self.lib.p4_table_next(self.handle, t["id"], handle)
        if t["actions"]:
            entries.append(self._entry(t, -1))
        return entries

    def _entry(self, t: dict, handle: int) -> dict:
        keys = [k for k in t["keys"] if k["kind"] != "selector"]
        match = (c_uint64 * (2 * sum(word_count(k["width"]) for k in keys) + 1))()
        longest = max(
            (sum(word_count(p["width"]) for p in a["params"]) for a in t["actions"]), default=0
        )
        params = (c_uint64 * (longest + 1))()
        priority, target, which = c_int32(), c_uint32(), c_uint32()
        self.lib.p4_table_get(
            self.handle,
            t["id"],
            handle,
            match,
            ctypes.byref(priority),
            ctypes.byref(target),
            ctypes.byref(which),
            params,
        )
        entry: dict[str, Any] = {"handle": handle, "match": None, "priority": priority.value}
        if handle >= 0:
            entry["match"] = self._decode(keys, list(match))
        if target.value:
            entry["member" if target.value == 1 else "group"] = which.value
            return entry
        action = t["actions"][which.value]
        values, at = [], 0
        for p in action["params"]:
            values.append(from_words(params[at : at + word_count(p["width"])], p["width"]))
            at += word_count(p["width"])
        entry["action"], entry["params"] = action["name"], values
        return entry

    @staticmethod
    def _decode(keys: list[dict], words: list[int]) -> list[Any]:
        result: list[Any] = []
        at = 0
        for k in keys:
            n = word_count(k["width"])
            value = from_words(words[at : at + n], k["width"])
            at += n
            if k["kind"] == "lpm":
                result.append((value, words[at]))
                at += 1
            elif k["kind"] in ("ternary", "range"):
                result.append((value, from_words(words[at : at + n], k["width"])))
                at += n
            elif k["kind"] == "optional":
                result.append(value if words[at] else None)
                at += 1
            else:
                result.append(value)
        return result

    # ---- action profiles ----

    def _profile_action(self, profile: dict, action: str) -> dict:
        for t in self.info["tables"]:
            if t["profile"] == profile["id"]:
                return self._action(t, action)
        raise ControlError(f"no table uses the action profile {profile['name']}")

    def member_add(self, profile: str, action: str, params: Sequence[Any] = ()) -> int:
        p = self.find("profiles", profile)
        a = self._profile_action(p, action)
        status = self.lib.p4_profile_add_member(
            self.handle, p["id"], a["id"], _array(self._params(a, params))
        )
        return self._check(status, f"action profile {p['name']}")

    def member_modify(
        self, profile: str, member: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        p = self.find("profiles", profile)
        a = self._profile_action(p, action)
        status = self.lib.p4_profile_modify_member(
            self.handle, p["id"], member, a["id"], _array(self._params(a, params))
        )
        self._check(status, f"action profile {p['name']}, member {member}")

    def member_delete(self, profile: str, member: int) -> None:
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_delete_member(self.handle, p["id"], member)
        self._check(status, f"action profile {p['name']}, member {member}")

    def group_add(self, profile: str, members: Sequence[int] = ()) -> int:
        p = self.find("profiles", profile)
        what = f"action profile {p['name']}"
        group = self._check(self.lib.p4_profile_add_group(self.handle, p["id"]), what)
        for member in members:
            self.group_add_member(profile, group, member)
        return group

    def group_delete(self, profile: str, group: int) -> None:
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_delete_group(self.handle, p["id"], group)
        self._check(status, f"action profile {p['name']}, group {group}")

    def group_add_member(self, profile: str, group: int, member: int) -> None:
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_group_add(self.handle, p["id"], group, member)
        self._check(status, f"action profile {p['name']}, group {group}, member {member}")

    def group_remove_member(self, profile: str, group: int, member: int) -> None:
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_group_remove(self.handle, p["id"], group, member)
        self._check(status, f"action profile {p['name']}, group {group}, member {member}")

    # ---- registers ----

    def register_read(self, name: str, start: int = 0, count: int | None = None) -> list[int]:
        """Elements start .. start + count; int<W> registers give signed numbers."""
        r = self.find("registers", name)
        start, count = self._range(r, start, count)
        n = word_count(r["width"])
        words = (c_uint64 * max(1, n * count))()
        status = self.lib.p4_register_read(self.handle, r["id"], start, count, words)
        self._check(status, f"register {r['name']}")
        values = (
            list(words[:count])
            if n == 1
            else [from_words(words[i * n : i * n + n], r["width"]) for i in range(count)]
        )
        if r["signed"]:
            half, full = 1 << (r["width"] - 1), 1 << r["width"]
            values = [v - full if v >= half else v for v in values]
        return values

    @staticmethod
    def _range(r: dict, start: int, count: int | None) -> tuple[int, int]:
        if count is None:
            count = r["size"] - start
        if start < 0 or count < 0 or start + count > r["size"]:
            raise ControlError(
                f"{r['name']} has elements 0 to {r['size'] - 1};"
                f" {start} to {start + count - 1} asked"
            )
        return start, count

    def register_write(self, name: str, index: Any, values: Any) -> None:
        """Write one element (int), or elements start..stop (pair or range) with one value or a
        list."""
        r = self.find("registers", name)
        what = f"register {r['name']}"
        if isinstance(index, range):
            if index.step != 1:
                raise ControlError(f"{what}: a range of step 1 is needed")
            index = (index.start, index.stop)
        if isinstance(index, int):
            many = isinstance(values, Sequence) and not isinstance(values, str | bytes)
            many = many or (hasattr(values, "tolist") and getattr(values, "ndim", 0) > 0)
            start, stop = index, index + (len(values) if many else 1)
        else:
            start, stop = index
        start, count = self._range(r, start, stop - start)
        if hasattr(values, "tolist"):
            values = values.tolist()
        width, signed = r["width"], r["signed"]
        if isinstance(values, Sequence) and not isinstance(values, str | bytes):
            if len(values) != count:
                raise ControlError(f"{what}: {count} elements, but {len(values)} values")
            words: list[int] = []
            for value in values:
                words += to_words(number(value, width, what, signed), width)
            status = self.lib.p4_register_write(self.handle, r["id"], start, count, _array(words))
        else:
            words = to_words(number(values, width, what, signed), width)
            status = self.lib.p4_register_fill(self.handle, r["id"], start, count, _array(words))
        self._check(status, what)

    def register_reset(self, name: str) -> None:
        """All elements to 0."""
        r = self.find("registers", name)
        self.register_write(name, (0, r["size"]), 0)

    # ---- counters and meters ----

    def _direct(self, kind: str, name: str) -> dict | None:
        """The table whose direct counter or meter is called `name`, or which is called so
        itself."""
        owners = [t for t in self.info["tables"] if t[kind]]
        for t in owners:
            if name in (t[kind], t["name"]):
                return t
        close = [
            t for t in owners if t[kind].endswith("." + name) or t["name"].endswith("." + name)
        ]
        return close[0] if len(close) == 1 else None

    def counter_read(self, name: str, index: int = 0) -> dict[str, int]:
        """{"packets", "bytes"} of one element; for a direct counter `index` is the entry's
        handle."""
        value = _Count()
        table = self._direct("direct_counter", name)
        if table is not None:
            status = self.lib.p4_direct_counter_read(
                self.handle, table["id"], index, ctypes.byref(value)
            )
        else:
            c = self.find("counters", name)
            if index < 0:
                raise ControlError(f"counter {name}[{index}]: the index is out of range")
            status = self.lib.p4_counter_read(self.handle, c["id"], index, 1, ctypes.byref(value))
        self._check(status, f"counter {name}[{index}]")
        return {"packets": value.packets, "bytes": value.bytes}

    def counter_write(self, name: str, index: int, packets: int = 0, bytes: int = 0) -> None:
        value = _Count(packets, bytes)
        table = self._direct("direct_counter", name)
        if table is not None:
            status = self.lib.p4_direct_counter_write(
                self.handle, table["id"], index, ctypes.byref(value)
            )
        else:
            c = self.find("counters", name)
            status = self.lib.p4_counter_write(self.handle, c["id"], index, ctypes.byref(value))
        self._check(status, f"counter {name}[{index}]")

    def counter_reset(self, name: str) -> None:
        table = self._direct("direct_counter", name)
        if table is not None:
            status = self.lib.p4_direct_counter_reset(self.handle, table["id"])
        else:
            status = self.lib.p4_counter_reset(self.handle, self.find("counters", name)["id"])
        self._check(status, f"counter {name}")

    def meter_set(self, name: str, index: int | None, rates: Sequence[tuple[float, float]]) -> None:
        """rates: [(committed per microsecond, burst), (peak per microsecond, burst)]; index None:
        all."""
        if len(rates) != 2:
            raise ControlError(f"meter {name}: two rates are needed, committed and peak")
        value = _Rates()
        for i, (rate, burst) in enumerate(rates):
            if not (rate >= 0 and burst >= 0):
                raise ControlError(f"meter {name}: rates and bursts cannot be negative")
            value.rate[i], value.burst[i] = rate, burst
        table = self._direct("direct_meter", name)
        if table is not None:
            status = self.lib.p4_direct_meter_set(
                self.handle, table["id"], -1 if index is None else index, ctypes.byref(value)
            )
        else:
            m = self.find("meters", name)
            if index is None:
                status = self.lib.p4_meter_set_all(self.handle, m["id"], ctypes.byref(value))
            else:
                status = self.lib.p4_meter_set(self.handle, m["id"], index, ctypes.byref(value))
        self._check(status, f"meter {name}[{index}]")

    def meter_get(self, name: str, index: int) -> list[tuple[float, float]] | None:
        """The two (rate, burst), or None if the meter was never set."""
        value = _Rates()
        table = self._direct("direct_meter", name)
        if table is not None:
            status = self.lib.p4_direct_meter_get(
                self.handle, table["id"], index, ctypes.byref(value)
            )
        else:
            m = self.find("meters", name)
            status = self.lib.p4_meter_get(self.handle, m["id"], index, ctypes.byref(value))
        self._check(status, f"meter {name}[{index}]")
        if not value.set:
            return None
        return [(value.rate[0], value.burst[0]), (value.rate[1], value.burst[1])]

    # ---- value sets ----

    def value_set_add(self, name: str, match: Sequence[Any]) -> None:
        """Add a member: one number, (value, mask) or None per field."""
        v = self.find("value_sets", name)
        if len(match) != len(v["widths"]):
            raise ControlError(f"value_set {v['name']} has {len(v['widths'])} fields")
        words: list[int] = []
        for width, value in zip(v["widths"], match, strict=True):
            key = {"width": width, "kind": "ternary"}
            words += self._match_key(key, value, f"value_set {v['name']}")
        status = self.lib.p4_value_set_add(self.handle, v["id"], _array(words))
        self._check(status, f"value_set {v['name']}")

    def value_set_clear(self, name: str) -> None:
        self.lib.p4_value_set_clear(self.handle, self.find("value_sets", name)["id"])
