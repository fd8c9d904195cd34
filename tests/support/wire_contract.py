"""What may be on a wire: one row for each kind of packet and who has made it.

A row says of each field what it may be, in words of VOCABULARY. `tests/support/wire_tap.py` holds
packets against the rows, and the table in docs/wire.md is made from them:

    python -m tests.support.wire_contract

The rows are written from the text of docs/wire.md and the header's comments. They say what a packet
may be, not what a switch or a host does with it: they know nothing of aggregators and timers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from testbed.protocols import wire

POOLS = ("esa", "atp", "a2tp", "grid")
SERVERS = (*POOLS, "ps")
SLOTS = ("switchml", "tree")
ANY = ()

GRADIENTS = (wire.GRADIENT, wire.GRADIENT_ZEROS)
RESULTS = (wire.RESULT, wire.RESULT_ZEROS)
RESULTS_ONE = (wire.RESULT_ONE, wire.RESULT_ONE_ZEROS)

FLAGS = {
    "partial": wire.PARTIAL,
    "collision": wire.COLLISION,
    "resend": wire.RESEND,
    "ecn": wire.ECN,
    "overflow": wire.OVERFLOW,
    "reminded": wire.REMINDED,
    "over_rate": wire.OVER_RATE,
    "float": wire.FLOAT,
    "short": wire.SHORT,
    "round": wire.ROUND,
    "for_one": wire.FOR_ONE,
    "from_one": wire.FROM_ONE,
    "again": wire.AGAIN,
    "contended": wire.CONTENDED,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """`flags`: those that may be set besides ecn; "+" before one: it must be set. The other fields
    are words of VOCABULARY."""

    packet: str  # its name
    kinds: tuple[int, ...]
    maker: str  # whose address is the IPv4 source: worker, server or switch
    systems: tuple[str, ...]  # ANY: all
    to: str  # whose address is the destination
    flags: str
    priority: str
    node: str = "0"
    fragment: str = "of the job"
    index: str
    extra: str
    sender: str
    exponents: str = "by flag"
    bitmap: str


# A packet has the first row that fits its kind, its maker, the system and the flags with "+".
ROWS = (
    Row(
        packet="kept result",
        kinds=GRADIENTS,
        maker="worker",
        systems=SERVERS,
        to="server",
        flags="+partial +resend short",
        priority="1",
        index="0",
        extra="0",
        sender="maker",
        exponents="0",
        bitmap="all",
    ),
    Row(
        packet="gradient",
        kinds=GRADIENTS,
        maker="worker",
        systems=SERVERS,
        to="server, switch",
        flags="resend reminded float short round for_one from_one collision over_rate",
        priority="1 to 255",
        node="aggregating",
        index="of the fragment",
        extra="tag or share",
        sender="maker",
        bitmap="sender",
    ),
    Row(
        packet="gradient",
        kinds=GRADIENTS,
        maker="worker",
        systems=SLOTS,
        to="switch",
        flags="resend short round for_one from_one",
        priority="1",
        node="tree",
        index="slot and set",
        extra="0",
        sender="maker",
        exponents="block",
        bitmap="sender",
    ),
    Row(
        packet="partial, reminded",
        kinds=GRADIENTS,
        maker="switch",
        systems=POOLS,
        to="server, switch",
        flags="+partial +reminded overflow round short",
        priority="255",
        node="maker",
        index="of the fragment",
        extra="tag, share or announced",
        sender="server",
        exponents="0",
        bitmap="some",
    ),
    Row(
        packet="partial, evicted",
        kinds=GRADIENTS,
        maker="switch",
        systems=POOLS,
        to="server, switch",
        flags="+partial overflow round short",
        priority="1 to 255",
        node="aggregating",
        index="of the fragment",
        extra="tag or share",
        sender="a worker",
        exponents="any",
        bitmap="some",
    ),
    Row(
        packet="sum, taken along",
        kinds=GRADIENTS,
        maker="switch",
        systems=POOLS,
        to="server, switch",
        flags="+resend reminded overflow round short for_one from_one",
        priority="1 to 255",
        node="aggregating",
        index="of the fragment",
        extra="tag or share",
        sender="in the bitmap",
        bitmap="some",
    ),
    Row(
        packet="sum",
        kinds=GRADIENTS,
        maker="switch",
        systems=POOLS,
        to="server, switch",
        flags="overflow round short for_one from_one collision over_rate",
        priority="1 to 255",
        node="aggregating",
        index="of the fragment",
        extra="tag or share",
        sender="in the bitmap",
        bitmap="two or more",
    ),
    Row(
        packet="sum",
        kinds=GRADIENTS,
        maker="switch",
        systems=SLOTS,
        to="switch",
        flags="resend overflow round short for_one from_one",
        priority="1",
        node="tree",
        index="slot and set",
        extra="0",
        sender="in the bitmap",
        exponents="block",
        bitmap="some",
    ),
    Row(
        packet="result",
        kinds=RESULTS,
        maker="server",
        systems=SERVERS,
        to="worker, switch",
        flags="overflow float resend reminded short for_one from_one contended",
        priority="255",
        index="of the fragment",
        extra="previous or announced",
        sender="server",
        bitmap="all",
    ),
    Row(
        packet="result",
        kinds=RESULTS,
        maker="switch",
        systems=POOLS,
        to="worker, server, switch",
        flags="short",
        priority="1 to 255",
        index="of the fragment",
        extra="0 or the index",
        sender="in the bitmap",
        bitmap="all",
    ),
    Row(
        packet="result",
        kinds=RESULTS,
        maker="switch",
        systems=SLOTS,
        to="worker, switch",
        flags="resend overflow short for_one from_one",
        priority="1",
        node="tree",
        index="slot and set",
        extra="0",
        sender="in the bitmap",
        exponents="block",
        bitmap="all",
    ),
    Row(
        packet="result_one",
        kinds=RESULTS_ONE,
        maker="server",
        systems=SERVERS,
        to="worker",
        flags="overflow float resend reminded short for_one from_one",
        priority="255",
        index="of the position",
        extra="0 or announced",
        sender="server",
        bitmap="all",
    ),
    Row(
        packet="result_one",
        kinds=RESULTS_ONE,
        maker="switch",
        systems=SLOTS,
        to="sender",
        flags="+resend overflow short for_one from_one",
        priority="1",
        node="tree",
        index="slot and set",
        extra="0",
        sender="in the bitmap",
        exponents="block",
        bitmap="all",
    ),
    Row(
        packet="result_one",
        kinds=RESULTS_ONE,
        maker="worker",
        systems=("tree",),
        to="another worker",
        flags="resend overflow short for_one from_one",
        priority="1",
        node="tree",
        index="slot and set",
        extra="0",
        sender="in the bitmap",
        exponents="block",
        bitmap="all",
    ),
    Row(
        packet="reminder",
        kinds=(wire.REMINDER,),
        maker="server",
        systems=POOLS,
        to="node",
        flags="",
        priority="255",
        node="destination",
        index="of the fragment",
        extra="0 or announced",
        sender="server",
        exponents="0",
        bitmap="0",
    ),
    Row(
        packet="reminder_empty",
        kinds=(wire.REMINDER_EMPTY,),
        maker="switch",
        systems=POOLS,
        to="server, switch",
        flags="",
        priority="255",
        node="maker",
        index="of the fragment",
        extra="0 or announced",
        sender="server",
        exponents="0",
        bitmap="0",
    ),
    Row(
        packet="ask",
        kinds=(wire.ASK,),
        maker="server",
        systems=SERVERS,
        to="worker in the bitmap",
        flags="float again",
        priority="255",
        index="of the position",
        extra="0 or announced",
        sender="server",
        exponents="0",
        bitmap="one",
    ),
    Row(
        packet="ask",
        kinds=(wire.ASK,),
        maker="worker",
        systems=("tree",),
        to="another worker",
        flags="",
        priority="1",
        index="0",
        extra="0",
        sender="maker",
        exponents="0",
        bitmap="sender",
    ),
    Row(
        packet="control",
        kinds=(wire.CONTROL,),
        maker="worker",
        systems=ANY,
        to="another worker",
        flags="resend overflow from_one",
        priority="255",
        fragment="any",
        index="any",
        extra="any",
        sender="maker",
        exponents="0",
        bitmap="by extra",
    ),
    Row(
        packet="collided",
        kinds=(wire.COLLIDED,),
        maker="switch",
        systems=("grid",),
        to="sender",
        flags="+collision round for_one from_one",
        priority="1 to 255",
        node="maker",
        index="of the fragment",
        extra="tag or share",
        sender="in the bitmap",
        bitmap="sender",
    ),
)

# What the words mean that do not say it themselves.
VOCABULARY = {
    "maker": "the number of the worker or switch whose address is the source",
    "server": "of *to*: a host that is a server of the job, and with several servers that of the"
    " fragment; of *sender*: 0x4000",
    "sender": "the worker with the sender's number: of *to* its host, of *bitmap* its bit alone",
    "worker in the bitmap": "the host of the one worker that the bitmap names",
    "another worker": "the host of a worker of the job that is not the source",
    "aggregating": "in GRID the number of a switch, or 0xFFFF; else 0",
    "tree": "in `tree` the number of a tree of the job, else 0",
    "of the job": "at most the last number that the job can have",
    "of the fragment": "less than the number of aggregators, and the same in all packets of the"
    " fragment that say so (results of ATP may be late); in A2TP also 0xFFFFFFFF; with a plain"
    " PS 0",
    "of the position": "the same, but of the fragment's window position, which may have moved on",
    "slot and set": "the slot of the chunk, chunk modulo slots (in `tree` its place in its tree),"
    " and in the top bit its set, chunk / slots modulo sets",
    "tag or share": "in GRID 16 bits; in A2TP 0 to 65536; else 0",
    "tag, share or announced": "the same; in ATP what the reminder had",
    "0 or announced": "with window positions an index, else 0",
    "0 or the index": "with window positions the packet's index, else 0",
    "previous or announced": "with window positions an index; else at most 1 + the last number",
    "a worker": "less than the number of workers of any job",
    "in the bitmap": "a worker in the bitmap",
    "by flag": "with *for_one* or *from_one* the number of a worker of the job, else 0",
    "block": "the same; if the job's values are recorded, the exponents of its block",
    "some": "workers of the job, at least one",
    "two or more": "workers of the job, at least two",
    "one": "one worker of the job",
    "all": "all workers of the job",
    "by extra": "of an acknowledgement (extra 0) the last 32 bits alone; of a transfer 0; of an"
    " algorithm of hosts workers of the job: with the flag *from_one* one, of a sum that goes up"
    " the sender and perhaps others, of a whole one all",
}

COLUMNS = tuple(field.name for field in fields(Row) if field.name not in ("kinds", "systems"))


def table() -> str:
    """The rows and the words as docs/wire.md has them."""
    names = {POOLS: "pools", SERVERS: "pools, ps", SLOTS: "switchml, tree", ANY: "all"}
    lines = [
        "| " + " | ".join(("packet", "systems", *COLUMNS[1:])) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for row in ROWS:
        cells = [row.packet, names.get(row.systems) or ", ".join(row.systems)]
        cells += [getattr(row, name) for name in COLUMNS[1:]]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| word | meaning |", "|---|---|"]
    lines += [f"| {word} | {meaning} |" for word, meaning in VOCABULARY.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
