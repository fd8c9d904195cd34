"""Wrong solutions that look right: teachers' ones with pieces replaced. All must cost points."""

from __future__ import annotations

from functools import partial

from labs._teacher import Mistake


def _wrong(file: str, name: str, *edits: str) -> Mistake:
    pairs = tuple(zip(edits[::2], edits[1::2], strict=True))
    return Mistake(name, "", pairs, frozenset(), file)


_AGAIN = "                    take_values();\n                    make_result();\n"
_RESULT = (
    "                       hdr.agg.number == meta.number &&\n                       ((meta.state"
)


_shard = partial(_wrong, "shard.p4")
_gather = partial(_wrong, "gather.py")
_experts = partial(_wrong, "experts.p4")
_tree = partial(_wrong, "tree.p4")
_adder = partial(_wrong, "adder.p4")
_floats = partial(_wrong, "floats.p4")
_server = partial(_wrong, "server.py")
_window = partial(_wrong, "window.py")
_ELSE = "        } else {\n            drop();\n        }\n    }\n}\n\ncontrol {}Egress"


def _hidden(control: str, more: str) -> tuple[str, str]:
    """An edit: what a program does with a packet of an unknown job before it drops it."""
    old = _ELSE.replace("{}", control)
    return old, old.replace("drop();", f"{more}\n            drop();", 1)


_EMPTIED = (
    "                    hdr.agg.flags = hdr.agg.flags | PARTIAL;\n                    meta.state"
)
_REQUEST = "hdr.agg.kind == REMINDER) {\n                standard.egress_spec = meta.owner;"
_OWNED = (
    "                       standard.ingress_port == meta.owner) {\n"
    "                standard.mcast_grp = meta.group;"
)
_IN_SET = """
                if ((hdr.agg.slot & 0x7fff) < SLOTS) {
                    find_set();
                    if (hdr.agg.number == meta.number) { %s }
                }"""
_HOME = "            if (hdr.agg.kind == DATA && hdr.values.isValid() &&\n"
_NOT_HOME = """            if (hdr.agg.kind == DATA && hdr.values.isValid() &&
                hdr.agg.slot < SLOTS && standard.ingress_port != meta.home &&
                (meta.wanted == 0 || hdr.agg.number > meta.number)) {
                claim();
                drop();
            } else"""
_FOUND = "        if number not in self.shard:\n"
_SENT = "        if number in self.fragments[: self.sent] and"
_TTL = "        hdr.ip.ttl = hdr.ip.ttl - 1;\n"
_UPDATE = """        update_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.identification,
              hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.source,
              hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
"""
_VALID = "hdr.ip.isValid() && hdr.ip.ttl > 1"
_MULTICAST = "                standard.mcast_grp = meta.group;\n                if (mine == 1) {"
_MARK = "            hdr.ip.ecn = ECN_MARK;\n            if (hdr.agg.isValid()) {\n"
WRONG = {
    "lab1_forwarding": [
        _wrong(
            "forward.p4",
            "the checksum does not carry",
            *(_UPDATE, "", _TTL, f"{_TTL}        hdr.ip.checksum = hdr.ip.checksum + 0x0100;\n"),
        ),
        _wrong("forward.p4", "DF is lost", _TTL, f"{_TTL}        hdr.ip.flags = 0;\n"),
        _wrong("forward.p4", "UDP alone", _VALID, f"{_VALID} && hdr.ip.protocol == 17"),
        _wrong(
            "forward.p4",
            "other ethertypes are IPv4, too",
            *("ETHERTYPE_IPV4: parse_ip;", "ETHERTYPE_IPV4 &&& 0xff7f: parse_ip;"),
        ),
    ],
    "lab2_aggregation": [
        _wrong("aggregation.p4", "a kind of 7 bits", "hdr.sum.kind ==", "(hdr.sum.kind & 127) =="),
        _wrong("aggregation.p4", "a count of 7 bits", "n = n + 1;", "n = (n + 1) & 127;"),
        _wrong(
            "aggregation.p4",
            "a value saturates",
            "hdr.sum.v2 = hdr.sum.v2 + old;",
            "hdr.sum.v2 = (bit<32>) ((int<32>) hdr.sum.v2 |+| (int<32>) old);",
        ),
    ],
    "lab3_pool": [
        _wrong("pool.p4", "a count of four bits", "n = n + 1;", "n = (n + 1) & 0xf;"),
    ],
    "lab5_sharing": [
        _wrong("sharing.p4", "DATA is a gradient", "hdr.agg.kind != DATA && ", ""),
        _wrong(
            "sharing.p4",
            "a result frees the job's slot, whatever is in it",
            *(
                _MULTICAST,
                _MULTICAST.replace("mine == 1", "inside == 1 && meta.job == hdr.agg.job"),
            ),
        ),
        _wrong(
            "sharing.p4",
            "a result frees a complete sum alone",
            *(_MULTICAST, _MULTICAST.replace("mine == 1", "mine == 1 && meta.state == HELD")),
        ),
        _wrong(
            "sharing.p4",
            "outside of the pool, COLLISION replaces other flags",
            "            } else if (inside == 0) {\n"
            "                hdr.agg.flags = hdr.agg.flags | COLLISION;",
            "            } else if (inside == 0) {\n                hdr.agg.flags = COLLISION;",
        ),
    ],
    "lab6_preemption": [
        _wrong(
            "preemption.p4",
            "a job never evicts its own fragments",
            "hdr.agg.priority > meta.priority",
            "meta.job != hdr.agg.job && hdr.agg.priority > meta.priority",
        ),
        _wrong(
            "preemption.p4",
            "a gradient that is added raises the priority",
            "                meta.bitmap = meta.merged;\n",
            "                meta.bitmap = meta.merged;\n"
            "                if (hdr.agg.priority > meta.priority) {\n"
            "                    meta.priority = hdr.agg.priority;\n                }\n",
        ),
        _wrong(
            "preemption.p4",
            "the answer to a reminder has priority 0",
            *(_EMPTIED, f"                    hdr.agg.priority = 0;\n{_EMPTIED}"),
        ),
        _wrong(
            "preemption.p4",
            "RESEND passes by",
            "            } else if (inside == 0) {\n",
            "            } else if ((hdr.agg.flags & RESEND) != 0) {\n                leaves = 1;\n"
            "            } else if (inside == 0) {\n",
        ),
        _wrong(
            "preemption.p4",
            "priorities are halved without preemption",
            "                if (meta.preemption == 1) {\n",
            "                if (meta.preemption <= 1) {\n",
        ),
        _wrong(
            "preemption.p4",
            "255 evicts 255",
            "hdr.agg.priority > meta.priority)",
            "(hdr.agg.priority > meta.priority || hdr.agg.priority == 255))",
        ),
    ],
    "lab7_numbers": [
        _wrong(
            "quantise.py",
            "a product of 24 bits",
            *("values.astype(np.float64) * scale", "values * np.float32(scale)"),
        ),
    ],
    "lab11_worker": [
        _wrong("worker.py", "2 ms at first", "FIRST_NS = 1_000_000 ", "FIRST_NS = 2_000_000 "),
    ],
    "lab14_interoperation": [
        _wrong("host.py", "a carry is lost", "    while total >> 16:\n", "    if total >> 16:\n"),
        _wrong(
            "host.py",
            "timeouts up to 128 ms",
            " MOST_NS = 1_000_000, 64",
            " MOST_NS = 1_000_000, 128",
        ),
    ],
    "lab15_training": [
        _wrong(
            "quantise.py",
            "a room that is one less",
            *("(2 ** (bits - 1) - 1) // workers", "2 ** (bits - 1) // workers - 1"),
        ),
    ],
    "lab8_congestion": [
        _wrong(
            "congestion.p4",
            "queues of eight bits",
            "standard.enq_qdepth >= threshold",
            "(bit<8>) standard.enq_qdepth >= (bit<8>) threshold",
        ),
        _wrong(
            "congestion.p4",
            "only packets with agg are marked",
            *(
                _MARK,
                "            if (hdr.agg.isValid()) {\n                hdr.ip.ecn = ECN_MARK;\n",
            ),
        ),
        _wrong(
            "congestion.p4",
            "only ECN-capable packets are marked",
            *("enq_qdepth >= threshold)", "enq_qdepth >= threshold && hdr.ip.ecn != 0)"),
        ),
        _window(
            "within a halved window nothing grows",
            *(
                "        else:\n            self.size",
                "        elif fragment > self.until:\n            self.size",
            ),
        ),
        _window(
            "a mark within a halved window is a result like any other",
            *(
                "        if ecn:\n            if fragment > self.until:",
                "        if ecn and fragment > self.until:\n            if True:",
            ),
        ),
    ],
    "lab16_sharding": [
        _shard(
            "kinds of three bits",
            *("(hdr.agg.kind == REMINDER)", "((hdr.agg.kind & 7) == REMINDER)"),
        ),
        _shard(
            "a request takes its asker out of a set",
            _REQUEST,
            _REQUEST + _IN_SET % "set_bitmap.write(meta.own, meta.bitmap & ~hdr.agg.bitmap);",
        ),
        _shard("data replaces a set's values", _OWNED, _OWNED + _IN_SET % "store_values();"),
        _shard(
            "no receivers are all",
            *(
                "hdr.agg.kind == DATA && (hdr.agg",
                "hdr.agg.kind == DATA && hdr.agg.bitmap != 0 && (hdr.agg",
            ),
        ),
        _shard(
            "a gradient of an unknown job is added",
            *_hidden(
                "Shard",
                "if (hdr.agg.kind == GRADIENT && hdr.values.isValid() &&\n"
                "                (hdr.agg.slot & 0x7fff) < SLOTS) {\n                find_set();\n"
                "                if (hdr.agg.number == meta.number && meta.state == FILLING &&\n"
                "                    (meta.bitmap & hdr.agg.bitmap) == 0) {\n"
                "                    add_values();\n                    join();\n"
                "                    set_bitmap.write(meta.own, meta.bitmap);\n"
                "                }\n            }",
            ),
        ),
        _gather("numbers of 31 bits", _FOUND, f"{_FOUND[:-2]} or number >> 31:\n"),
        _gather("fragment 0 is none", _FOUND, _FOUND.replace("if", "if not number or")),
        _gather("nobody asks for fragment 0", _SENT, _SENT.replace("if", "if number and")),
        _gather(
            "the highest bit is nobody's",
            _SENT,
            f"        bitmap &= 0x7FFFFFFF\n{_SENT}",
        ),
        _shard(
            "a copy's answer has the sender's bitmap and addresses",
            _AGAIN,
            "                    take_values();\n                    hdr.agg.kind = RESULT;\n",
        ),
        _shard(
            "data takes its owner out of a set",
            "                standard.mcast_grp = meta.group;\n            } else if",
            "                find_set();\n"
            "                set_bitmap.write(meta.own, meta.bitmap & ~hdr.agg.bitmap);\n"
            "                standard.mcast_grp = meta.group;\n            } else if",
        ),
        _shard(
            "what is cut off leaves the other set",
            "                drop();\n            }\n        } else {",
            "                if (hdr.agg.kind == GRADIENT) { find_set(); join(); }\n"
            "                drop();\n            }\n        } else {",
        ),
        _shard(
            "an older fragment takes a set that all have left",
            "} else if (hdr.agg.number < meta.number ||",
            "} else if ((meta.bitmap != 0 && hdr.agg.number < meta.number) ||",
        ),
        _shard(
            "a newer fragment needs a sum that is complete",
            "if (hdr.agg.number > meta.number || meta.bitmap == 0) {",
            "if ((hdr.agg.number > meta.number && meta.state == COMPLETE) || meta.bitmap == 0) {",
        ),
        _gather(
            "a number in a gap is a sign of life",
            _FOUND,
            f"{_FOUND}            if min(self.shard) < number < max(self.shard):\n"
            "                self.last = [now_ns for _ in self.last]\n",
        ),
        _gather(
            "a shard of which nothing comes is not asked for",
            "self.last = [0] * len(shards)",
            "self.last = [1 << 60] * len(shards)",
            "default=None)\n\n\nclass",
            "default=None) if min([*silent, *self.due.values()], default=0) < 1 << 59 else None"
            "\n\n\nclass",
        ),
        _gather(
            "numbers in a gap count as the shard before",
            "        if number not in self.shard:\n            return\n"
            "        shard = self.shard[number]\n",
            "        below = [n for n in self.shard if n <= number]\n"
            "        if not below:\n            return\n"
            "        shard = self.shard[max(below)]\n",
        ),
        _gather("waits up to 128 ms", "64_000_000", "128_000_000"),
        _gather(
            "a copy of what has come is no sign of life",
            "        self.last[shard] = now_ns\n        self.missing",
            "        self.last[shard] = now_ns if number in self.missing else self.last[shard]\n"
            "        self.missing",
        ),
        _gather(
            "an answer forgets who else asks for later fragments",
            "return number, self.wanted.pop(number)",
            "return number, [self.wanted.pop(number), self.wanted.clear()][0]",
        ),
        _gather(
            "the smallest is answered first",
            "next(iter(self.wanted))",
            "min(self.wanted)",
        ),
    ],
    "lab17_experts": [
        _experts(
            "kinds of three bits",
            *("hdr.agg.kind == NOTHING) {", "(hdr.agg.kind & 7) == NOTHING) {"),
        ),
        _experts(
            "sixteen slots",
            *("meta.slot = (bit<32>) hdr.agg.slot;", "meta.slot = (bit<32>) (hdr.agg.slot & 0xf);"),
        ),
        _experts("a token from a wrong port takes a slot", _HOME, f"{_NOT_HOME}{_HOME[11:]}"),
        _experts(
            "a token of an unknown job takes a slot",
            *_hidden(
                "Expert",
                "if (hdr.agg.kind == DATA && hdr.values.isValid() && hdr.agg.slot < SLOTS) {\n"
                "                find_slot();\n"
                "                if (hdr.agg.number > meta.number) { claim(); }\n            }",
            ),
        ),
        _experts(
            "the slot's worker counts, too",
            "register<bit<32>>(SLOTS) slot_seen;",
            "register<bit<32>>(SLOTS) slot_seen;\n    register<bit<16>>(SLOTS) slot_worker;",
            "slot_seen.write(meta.slot, 0);",
            "slot_seen.write(meta.slot, 0);\n        slot_worker.write(meta.slot, hdr.agg.worker);",
            "                    standard.egress_spec = meta.home;\n                } else if (",
            "                    standard.egress_spec = meta.home;\n"
            "                } else if (lives == hdr.agg.worker && ",
            "                       hdr.agg.kind == NOTHING) {\n",
            "                       hdr.agg.kind == NOTHING) {\n                bit<16> lives;\n"
            "                slot_worker.read(lives, meta.slot);\n",
        ),
        _experts(
            "a token again names its experts",
            "hdr.agg.bitmap = meta.wanted & ~meta.seen;",
            "hdr.agg.bitmap = hdr.agg.bitmap & ~meta.seen;",
        ),
        _experts(
            "older numbers have a sign",
            "else if (hdr.agg.number < meta.number)",
            "else if ((int<32>) hdr.agg.number < (int<32>) meta.number)",
        ),
        _experts(
            "tokens without a slot from anybody",
            "hdr.values.isValid() &&\n                standard.ingress_port == meta.home",
            "hdr.values.isValid() && (hdr.agg.slot >= SLOTS ||\n"
            "                standard.ingress_port == meta.home)",
        ),
        _experts(
            "a token that is cut off claims a slot",
            "hdr.agg.kind == DATA && hdr.values.isValid()",
            "hdr.agg.kind == DATA && (hdr.values.isValid() || hdr.agg.slot < SLOTS)",
        ),
        _experts(
            "any port may ask again",
            "                standard.ingress_port == meta.home",
            "                (standard.ingress_port == meta.home || hdr.agg.number == meta.number)",
        ),
        _experts(
            "an answer's ttl in the result of a token again",
            "                    take_values();\n                    make_result();",
            "                    take_values();\n                    make_result();\n"
            "                    hdr.ip.ttl = 64;",
        ),
    ],
    "lab18_trees": [
        _tree(
            "kinds of three bits",
            *("(hdr.agg.kind == REMINDER &&", "((hdr.agg.kind & 7) == REMINDER &&"),
        ),
        _tree(
            "a gradient of an unknown job is added",
            *_hidden(
                "Tree",
                "if (hdr.agg.kind == GRADIENT && hdr.values.isValid() &&\n"
                "                (hdr.agg.slot & 0x7fff) < SLOTS) {\n                find_set();\n"
                "                if (meta.state == FILLING && hdr.agg.number == meta.number &&\n"
                "                    (meta.bitmap & hdr.agg.bitmap) == 0) {\n"
                "                    if ((hdr.agg.flags & PARTIAL) == 0) { EACH_VALUE(TO_FIXED) }\n"
                "                    if (meta.bitmap != 0) { add_values(); }\n"
                "                    meta.bitmap = meta.bitmap | hdr.agg.bitmap;\n"
                "                    store_values();\n                    write_set();\n"
                "                }\n            }",
            ),
        ),
        _tree(
            "a free root takes a result",
            *("(meta.state == FILLING && meta.parent", "(meta.state < SENT && meta.parent"),
        ),
        _tree(
            "numbers without their lowest bit",
            "                       hdr.agg.number == meta.number && meta.state >= SENT",
            "                       (hdr.agg.number ^ meta.number) < 2 && meta.state >= SENT",
        ),
        _tree(
            "a carry of the rounding is lost",
            *("(((exponent - 1) << 7) + size) |", "(exponent << 7) | (size & 0x7f) |"),
        ),
        _tree(
            "one base for all fragments",
            "    action drop() {",
            "    register<bit<8>>(1) first_base;\n    action drop() {",
            "            find_set();\n",
            "            find_set();\n            bit<8> base;\n"
            "            first_base.read(base, 0);\n"
            "            if (base == 0) { base = hdr.agg.priority; first_base.write(0, base); }\n"
            "            hdr.agg.priority = base;\n",
        ),
        _tree(
            "a reminder has other flags and bits",
            "        hdr.agg.kind = REMINDER;\n",
            "        hdr.agg.kind = REMINDER;\n        hdr.agg.flags = 0;\n"
            "        hdr.agg.bitmap = meta.everyone;\n",
        ),
        _tree(
            "sums have 31 bits",
            "#define STORE_VALUE(n) value_##n.write(meta.set, hdr.values.v##n);",
            "#define STORE_VALUE(n) value_##n.write(meta.set, \\\n"
            "            (bit<32>) (int<32>) (int<31>) (bit<31>) hdr.values.v##n);",
        ),
        _tree(
            "just above half is a tie",
            "(rest > 0x800000 || (rest == 0x800000 &&",
            "(rest > 0x8000ff || (rest >= 0x800000 &&",
        ),
        _tree(
            "a sum that has been sent waits for its result",
            "if (meta.state == FREE || hdr.agg.number > meta.number) {",
            "if (meta.state == FREE || (hdr.agg.number > meta.number && meta.state != SENT)) {",
        ),
        _tree("a tie has 16 bits", "rest = size & 0xffffff;", "rest = size & 0xffff00;"),
        _tree(
            "a root that is done takes results again",
            "(meta.state == FILLING && meta.parent == 0)",
            "((meta.state == FILLING || meta.state == DONE) && meta.parent == 0)",
        ),
        _tree("just below half is a tie", "(rest == 0x800000 &&", "(rest >= 0x7fff00 &&"),
        _tree(
            "a flag beside PARTIAL hides it",
            "(hdr.agg.flags & PARTIAL) == 0",
            "(hdr.agg.flags & (PARTIAL | ECN)) != PARTIAL",
        ),
        _tree(
            "an older result is taken",
            _RESULT,
            _RESULT.replace("==", "<="),
        ),
    ],
    "lab19_floats": [
        _adder("minus zeros make zero", "sign = a & b & SIGN;", "sign = 0;"),
        _adder("a NaN stays as it is", "            sum = NAN;", "            sum = a;"),
        _adder(
            "infinities of different sign make the first",
            *("large > INFINITY || (large == INFINITY && b == (a ^ SIGN))", "large > INFINITY"),
        ),
        _adder(
            "a negative NaN is a number",
            "if (large > INFINITY ||",
            "if ((a > INFINITY && a < SIGN) ||",
        ),
        _adder(
            "the largest number is the end",
            "            if (near > INFINITY) {\n                near = INFINITY;",
            "            if (near >= INFINITY) {\n                near = 0x7f7f;",
        ),
        _adder(
            "subnormal numbers are halved",
            "if (exponent == 0) { exponent = 1; } else",
            "if (exponent != 0)",
        ),
        _adder("shifts of five bits", "(exponent - lower);", "(exponent - lower & 31);"),
        _adder(
            "the larger exponent is the larger number",
            "if ((a & ~SIGN) < (b & ~SIGN)) {",
            "if (a[14:7] < b[14:7]) {",
        ),
        _adder("just above half is a tie", "rest > 0x800000 ||", "rest > 0x8000ff ||"),
        _adder(
            "a carry is lost",
            "                near = near + 1;",
            "                near[6:0] = near[6:0] + 1;",
        ),
        _floats(
            "large sums lose their last bits",
            "        sum_##n = (bit<32>) (int<32>) units;                        \\\n",
            "        sum_##n = (bit<32>) (int<32>) units;                        \\\n"
            "        if (sum_##n > 0xffffff && sum_##n < 0x80000000) {           \\\n"
            "            sum_##n = sum_##n & 0xffffff00; }                       \\\n",
        ),
        _floats(
            "the last value decides what fits",
            "        int<64> units = 0;                                          \\\n",
            "        int<64> units = 0; meta.fits = 1;                           \\\n",
        ),
        _floats(
            "what does not fit is stored",
            "                        meta.state = SPILLED;\n",
            "                        meta.state = SPILLED;\n"
            "                        store_sums();\n                        take_values();\n",
        ),
        _floats(
            "a copy spills",
            "                } else if (meta.state == FILLING) {\n                    drop();",
            "                } else if (meta.state == FILLING) {\n"
            "                    meta.fits = 1;\n                    read_sums();\n"
            "                    EACH_VALUE(ADD_UNITS)\n"
            "                    if (meta.exact == 1 && meta.fits == 0) { meta.state = SPILLED; }\n"
            "                    drop();",
        ),
        _floats("OVERFLOW replaces other flags", "hdr.agg.flags | OVERFLOW", "OVERFLOW"),
        _floats(
            "what is passed on comes from the switch",
            "hdr.agg.flags | OVERFLOW;",
            "hdr.agg.flags | OVERFLOW;\n                    hdr.ip.source = meta.ip;",
        ),
        _floats(
            "a filling set takes a result", "meta.state == SPILLED &&", "meta.state != DONE &&"
        ),
        _floats(
            "an older result is taken",
            "hdr.agg.number == meta.number && standard",
            "hdr.agg.number <= meta.number && standard",
        ),
        _floats("infinity is a large number", "if (exponent == 255 || units", "if (units"),
        _floats("the smallest int32 does not fit", "if (left > 24)", "if (left > 23)"),
        _floats(
            "a set that has spilled stays spilled",
            "                    meta.state = FILLING;\n",
            "                    if (meta.state != SPILLED) { meta.state = FILLING; }\n",
        ),
        _floats(
            "numbers in order go to the server, too",
            "                    } else if (meta.bitmap == 0) {\n",
            "                    } else if (hdr.values.v00[14:7] == 0xff) {\n"
            "                        meta.fits = 0;\n"
            "                    } else if (meta.bitmap == 0) {\n",
        ),
        _floats(
            "a gradient of an unknown job is added",
            *_hidden(
                "Float",
                "if (hdr.agg.kind == GRADIENT && hdr.values.isValid() &&\n"
                "                (hdr.agg.slot & 0x7fff) < SLOTS) {\n                find_set();\n"
                "                if (meta.state == FILLING && hdr.agg.number == meta.number &&\n"
                "                    (meta.bitmap & hdr.agg.bitmap) == 0) {\n"
                "                    meta.bitmap = meta.bitmap | hdr.agg.bitmap;\n"
                "                    write_set();\n                }\n            }",
            ),
        ),
        _server(
            "math.fsum",
            "    units = sum(_units(code) for code in codes)\n",
            "    import math\n\n"
            "    exact = math.fsum(math.ldexp(_units(code), -133) for code in codes)\n"
            "    units = int(math.ldexp(exact, 133)) if math.isfinite(exact) else 1 << 300\n",
        ),
        _server(
            "a zero has the sign of the last number",
            "(units < 0) << 15",
            "((units or _units(codes[-1]) or -(codes[-1] >> 15)) < 0) << 15",
        ),
        _server(
            "the last infinity is the sum",
            "if special in ({INFINITY}, {INFINITY | SIGN}) else NAN",
            "if NAN not in special else NAN",
        ),
        _server(
            "the largest number is the end",
            "min((cut << 7) + high, INFINITY)",
            "min((cut << 7) + high, INFINITY - 1)",
        ),
        _server(
            "answers once",
            "            return None\n",
            "            return None\n        if number in self.done:\n"
            "            return None\n        self.done.add(number)\n",
            "        self.sent:",
            "        self.done: set[int] = set()\n        self.sent:",
        ),
        _server(
            "one fragment at a time",
            "self.sent.setdefault(number, {})",
            "self.sent.setdefault(number & 7, {})",
        ),
        _server(
            "a later copy counts",
            "fragment.setdefault(bitmap, values)",
            "fragment[bitmap] = [v + 1 for v in values] if bitmap in fragment else values",
        ),
    ],
}
