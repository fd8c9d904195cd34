"""Wrong solutions that look right in short tests: each must cost points, with every seed. Each is
the teacher's solution with a piece replaced."""

from __future__ import annotations

from testbed.labs._teacher import Mistake


def _wrong(file: str, name: str, *edits: str) -> Mistake:
    pairs = tuple(zip(edits[::2], edits[1::2], strict=True))
    return Mistake(name, "", pairs, frozenset(), file)


_MAKE_RESULT = "        hdr.ethernet.source = meta.mac;\n        hdr.ip.source = meta.ip;\n"
_AGAIN = "                    take_values();\n                    make_result();\n"
_KIND = "        hdr.agg.kind = RESULT;\n"
_NARROW = "hdr.agg.number < meta.number", "(bit<16>) hdr.agg.number < (bit<16>) meta.number"
_SIGNED = "hdr.agg.number < meta.number", "(int<32>) hdr.agg.number < (int<32>) meta.number"
_RESULT = (
    "                       hdr.agg.number == meta.number &&\n                       ((meta.state"
)


def _shard(name: str, *edits: str) -> Mistake:
    return _wrong("shard.p4", name, *edits)


def _gather(name: str, *edits: str) -> Mistake:
    return _wrong("gather.py", name, *edits)


def _experts(name: str, *edits: str) -> Mistake:
    return _wrong("experts.p4", name, *edits)


def _tree(name: str, *edits: str) -> Mistake:
    return _wrong("tree.p4", name, *edits)


def _window(name: str, *edits: str) -> Mistake:
    return _wrong("window.py", name, *edits)


_TTL = "        hdr.ip.ttl = hdr.ip.ttl - 1;\n"
_UPDATE = """        update_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.identification,
              hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.source,
              hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
"""
_VALID = "hdr.ip.isValid() && hdr.ip.ttl > 1"
_MULTICAST = "                standard.mcast_grp = meta.group;\n                if (mine == 1) {"
_GROUP = "                standard.mcast_grp = meta.group;\n"
_TAKEN_ALONG = (
    "                    hdr.agg.bitmap = meta.merged;\n                    meta.state = EMPTY;\n"
)
_MARK = "            hdr.ip.ecn = ECN_MARK;\n            if (hdr.agg.isValid()) {\n"
WRONG = {
    "lab1_forwarding": [
        _wrong(
            "forward.p4",
            "the checksum does not carry",
            *(_UPDATE, "", _TTL, f"{_TTL}        hdr.ip.checksum = hdr.ip.checksum + 0x0100;\n"),
        ),
        _wrong("forward.p4", "the checksum leaves the flags out", "hdr.ip.flags, hdr", "3w0, hdr"),
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
            "rounds of 15 bits",
            *("hdr.sum.worker = 255;", "hdr.sum.worker = 255; hdr.sum.round[15:15] = 0;"),
        ),
        _wrong(
            "aggregation.p4",
            "a value saturates",
            "hdr.sum.v2 = hdr.sum.v2 + old;",
            "hdr.sum.v2 = (bit<32>) ((int<32>) hdr.sum.v2 |+| (int<32>) old);",
        ),
    ],
    "lab3_pool": [
        _wrong("pool.p4", "a count of four bits", "n = n + 1;", "n = (n + 1) & 0xf;"),
        _wrong(
            "pool.p4",
            "job 0 is none",
            "hdr.agg.slot < SLOTS &&",
            "hdr.agg.slot < SLOTS && hdr.agg.job != 0 &&",
        ),
    ],
    "lab5_sharing": [
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
            "results lose their flags",
            *(
                _MULTICAST,
                _MULTICAST.replace(_GROUP, f"{_GROUP}                hdr.agg.flags = 0;\n"),
            ),
        ),
        _wrong(
            "sharing.p4",
            "a sum that is taken along stays",
            _TAKEN_ALONG,
            "                    hdr.agg.bitmap = meta.merged;\n"
            "                    meta.bitmap = meta.merged;\n",
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
            "NOTHING loses its flags",
            *("hdr.agg.kind = NOTHING;", "hdr.agg.kind = NOTHING; hdr.agg.flags = 0;"),
        ),
        _wrong(
            "preemption.p4",
            "255 evicts 255",
            "hdr.agg.priority > meta.priority)",
            "(hdr.agg.priority > meta.priority || hdr.agg.priority == 255))",
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
            "a copy's answer has the sender's bitmap and addresses",
            _AGAIN,
            "                    take_values();\n                    hdr.agg.kind = RESULT;\n",
        ),
        _shard("results lose the priority", _KIND, f"{_KIND}        hdr.agg.priority = 0;\n"),
        _shard(
            "receipts have a flag",
            "        hdr.agg.kind = RECEIPT;\n",
            "        hdr.agg.kind = RECEIPT;\n        hdr.agg.flags = hdr.agg.flags | RESEND;\n",
        ),
        _shard("numbers are compared in 16 bits", *_NARROW),
        _shard(
            "numbers are compared with a sign",
            *_SIGNED,
            "hdr.agg.number > meta.number",
            "(int<32>) hdr.agg.number > (int<32>) meta.number",
        ),
        _shard(
            "numbers have 31 bits",
            "set_number.write(meta.own, meta.number);",
            "set_number.write(meta.own, meta.number & 0x7fffffff);",
        ),
        _shard(
            "slots have 12 bits",
            "(hdr.agg.slot & 0x7fff) < SLOTS",
            "(hdr.agg.slot & 0xfff) < SLOTS",
            "(bit<32>) (hdr.agg.slot & 0x7fff)",
            "(bit<32>) (hdr.agg.slot & 0xfff)",
        ),
        _shard(
            "receipts of others are passed on",
            "hdr.agg.kind == REMINDER",
            "(hdr.agg.kind == REMINDER || hdr.agg.kind == RECEIPT)",
        ),
        _shard(
            "data needs a slot",
            "hdr.agg.kind == DATA && hdr.values.isValid() &&",
            "hdr.agg.kind == DATA && hdr.values.isValid() && (hdr.agg.slot & 0x7fff) < SLOTS &&",
        ),
        _shard(
            "data takes its owner out of a set",
            "                standard.mcast_grp = meta.group;\n            } else if",
            "                find_set();\n"
            "                set_bitmap.write(meta.own, meta.bitmap & ~hdr.agg.bitmap);\n"
            "                standard.mcast_grp = meta.group;\n            } else if",
        ),
        _shard(
            "a hop less in a copy's answer",
            _AGAIN,
            f"{_AGAIN}                    hdr.ip.ttl = hdr.ip.ttl - 1;\n",
        ),
        _shard(
            "what is cut off leaves the other set",
            "                drop();\n            }\n        } else {",
            "                if (hdr.agg.kind == GRADIENT) { find_set(); join(); }\n"
            "                drop();\n            }\n        } else {",
        ),
        _shard(
            "requests of whoever is not the owner alone",
            "hdr.agg.kind == REMINDER",
            "hdr.agg.kind == REMINDER && hdr.agg.bitmap != 0x80000000",
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
        _gather(
            "a new request is the last",
            "self.wanted[number] = self.wanted.get(number, 0)",
            "self.wanted[number] = self.wanted.pop(number, 0)",
        ),
    ],
    "lab17_experts": [
        _experts(
            "tokens without a slot from anybody",
            "hdr.values.isValid() &&\n                standard.ingress_port == meta.home",
            "hdr.values.isValid() && (hdr.agg.slot >= SLOTS ||\n"
            "                standard.ingress_port == meta.home)",
        ),
        _experts("results have the sender's addresses", _MAKE_RESULT, ""),
        _experts("numbers are compared in 16 bits", *_NARROW),
        _experts("numbers are compared with a sign", *_SIGNED),
        _experts(
            "numbers have 31 bits",
            "slot_number.write(meta.slot, hdr.agg.number);",
            "slot_number.write(meta.slot, hdr.agg.number & 0x7fffffff);",
        ),
        _experts("results have flags", _KIND, f"{_KIND}        hdr.agg.flags = PARTIAL;\n"),
        _experts("results lose the worker", _KIND, f"{_KIND}        hdr.agg.worker = 0;\n"),
        _experts(
            "a token that is cut off claims a slot",
            "hdr.agg.kind == DATA && hdr.values.isValid()",
            "hdr.agg.kind == DATA && (hdr.values.isValid() || hdr.agg.slot < SLOTS)",
        ),
        _experts(
            "an answer that is cut off counts",
            "(hdr.agg.kind == GRADIENT && hdr.values.isValid())",
            "(hdr.agg.kind == GRADIENT && (hdr.values.isValid() || hdr.agg.slot < SLOTS))",
        ),
        _experts(
            "reminders count as answers",
            "                       hdr.agg.kind == NOTHING)",
            "                       hdr.agg.kind == NOTHING || hdr.agg.kind == REMINDER)",
        ),
        _experts(
            "slots have 15 bits",
            "            if (hdr.agg.slot < SLOTS) {",
            "            hdr.agg.slot = hdr.agg.slot & 0x7fff;\n"
            "            if (hdr.agg.slot < SLOTS) {",
        ),
        _experts(
            "tokens without a slot lose the priority",
            "                } else if (meta.wanted == 0",
            "                    hdr.agg.priority = 0;\n"
            "                } else if (meta.wanted == 0",
        ),
        _experts(
            "an answer's number is compared in 24 bits",
            "hdr.agg.number == meta.number &&",
            "(bit<24>) hdr.agg.number == (bit<24>) meta.number &&",
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
        _tree("just below half is a tie", "(rest == 0x800000 &&", "(rest >= 0x7fff00 &&"),
        _tree(
            "numbers have 31 bits",
            "set_number.write(meta.set, meta.number);",
            "set_number.write(meta.set, meta.number & 0x7fffffff);",
        ),
        _tree(
            "numbers are compared with a sign",
            "hdr.agg.number >= meta.number",
            "(int<32>) hdr.agg.number >= (int<32>) meta.number",
        ),
        _tree(
            "shifts have five bits",
            "size >> (hdr.agg.priority - exponent)",
            "size >> ((hdr.agg.priority - exponent) & 31)",
        ),
        _tree(
            "sums keep other flags",
            "        hdr.agg.flags = flags;\n",
            "        hdr.agg.flags = (hdr.agg.flags & 0xf0) | flags;\n",
        ),
        _tree(
            "results keep other flags",
            "        hdr.agg.flags = 0;\n",
            "        hdr.agg.flags = hdr.agg.flags & ECN;\n",
        ),
        _tree(
            "a flag beside PARTIAL hides it",
            "(hdr.agg.flags & PARTIAL) == 0",
            "(hdr.agg.flags & (PARTIAL | ECN)) != PARTIAL",
        ),
        _tree(
            "sums have the sender's addresses",
            "        standard.egress_spec = meta.parent;\n        from_here();",
            "        standard.egress_spec = meta.parent;",
        ),
        _tree(
            "results have the sender's addresses",
            "        hdr.agg.bitmap = meta.everyone;\n        from_here();",
            "        hdr.agg.bitmap = meta.everyone;",
        ),
        _tree(
            "reminders have the sender's addresses",
            "        standard.mcast_grp = meta.group;\n        from_here();",
            "        standard.mcast_grp = meta.group;",
        ),
        _tree(
            "an older result is taken",
            _RESULT,
            _RESULT.replace("==", "<="),
        ),
        _tree(
            "a result's number is compared in 16 bits",
            _RESULT,
            _RESULT.replace("hdr", "(bit<16>) hdr").replace("meta.n", "(bit<16>) meta.n"),
        ),
        _tree(
            "slots have 14 bits",
            "(hdr.agg.slot & 0x7fff) < SLOTS",
            "(hdr.agg.slot & 0x3fff) < SLOTS",
            "(bit<32>) (hdr.agg.slot & 0x7fff)",
            "(bit<32>) (hdr.agg.slot & 0x3fff)",
        ),
        _tree(
            "results that are cut off are taken",
            "hdr.agg.kind == RESULT && hdr.values.isValid()",
            "hdr.agg.kind == RESULT",
        ),
    ],
}
