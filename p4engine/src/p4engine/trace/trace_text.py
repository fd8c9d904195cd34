"""Events of a trace as text: what ran, with its line in the source, and what came of it.

    parser MyParser: 64 bytes on port 1
      state start
       31  packet.extract(hdr.ethernet);
           hdr.ethernet, bytes 0 to 13
             dstAddr    00:00:00:00:00:01
             etherType  2048 (0x800)
       32  transition select(hdr.ethernet.etherType) {
           hdr.ethernet.etherType = 2048 (0x800)

One `rich.text.Text` per line, so that a terminal gets colours and a file plain text.
"""

from __future__ import annotations

from typing import Any

from rich.text import Text

from p4engine.program_info import ProgramInfo
from p4engine.trace.events import Event, Shown, Site
from p4engine.values.numbers import ip_text, mac_text

DROP_PORT = 511
INSTANCE_TYPES = {
    1: "clone of ingress",
    2: "clone of egress",
    4: "recirculated",
    5: "replica",
    6: "resubmitted",
}
MANY_FIELDS = 16  # more are packed into rows
ROW = 88  # characters of a packed row
INDENT = "           "


def show_value(value: int, shown: Shown, info: ProgramInfo) -> str:
    """A number as its type suggests."""
    width = shown.get("width", 64)
    if "names" in shown:
        names = shown["names"]
        return str(names[value]) if value < len(names) else str(value)
    if shown.get("error"):
        errors = info.errors
        return f"error.{errors[value]}" if value < len(errors) else str(value)
    if "enum" in shown and str(value) in shown["enum"]:
        return str(shown["enum"][str(value)])
    if shown.get("signed") and width and value >> (width - 1):
        value -= 1 << width
        return str(value)
    if width == 48 and value:  # an address or a time: nobody but the author knows
        address = mac_text(value)
        return address if value >> 40 else f"{address} ({value})"
    if width == 32 and value >= 1 << 24:
        return f"0x{value:08x} ({ip_text(value)})"
    if value < 10:
        return str(value)
    return f"{value} (0x{value:x})" if width <= 64 else f"0x{value:x}"


class Printer:
    """Makes lines of events; remembers which source line it printed last."""

    def __init__(self, info: ProgramInfo) -> None:
        self.info = info
        self.last: tuple[Any, ...] | None = None
        self.arrives = False
        self.program = info.program

    def lines(self, event: Event) -> list[Text]:
        """The lines of one event, without line ends."""
        method = getattr(self, "_" + event.kind, None)
        return method(event) if method is not None else self._source(event)

    # ---- parts of lines ----

    def _source(self, event: Event) -> list[Text]:
        """The source line, unless it was just printed."""
        site = event.site
        here = (site.get("file"), site.get("line"))
        if here == self.last or not site.get("line"):
            return []
        self.last = here
        made = Text(f"{self._place(site):>7}  ", "cyan")
        made.append(site["source"], "dim")
        return [made]

    def _place(self, site: Site) -> str:
        """The line; with the file's name if it is not the program's own."""
        name = str(site.get("file", "")).rsplit("/", 1)[-1]
        line = site.get("line", 0)
        return str(line) if name == self.program else f"  {name}:{line}"

    def _result(self, event: Event, text: Text | str, style: str = "") -> list[Text]:
        made = Text(INDENT)
        made.append(text, style) if isinstance(text, str) else made.append_text(text)
        return [*self._source(event), made]

    def _value(self, event: Event, at: int) -> str:
        return show_value(event.values[at], event.site["values"][at], self.info)

    def _named(self, event: Event, names: list[str], first: int = 0) -> str:
        return ", ".join(f"{n} = {self._value(event, first + i)}" for i, n in enumerate(names))

    def _header(self, event: Event) -> list[Text]:
        last = event.offset + len(event.data) - 1
        title = Text(INDENT)
        title.append(event.what(), "bold green")
        title.append(f", bytes {event.offset} to {last}", "dim")
        made = [title]
        fields = [(n, show_value(v, s, self.info)) for n, v, _, _, s in event.fields()]
        if len(fields) <= MANY_FIELDS:
            longest = max((len(n) for n, _ in fields), default=0)
            made += [Text(f"{INDENT}  {n:<{longest}}  {v}") for n, v in fields]
            return made
        row = ""
        for name, value in fields:
            item = f"{name}={value}"
            if row and len(row) + len(item) > ROW:
                made.append(Text(f"{INDENT}  {row}"))
                row = ""
            row += ("  " if row else "") + item
        made.append(Text(f"{INDENT}  {row}"))
        return made

    # ---- stages ----

    def _packet(self, event: Event) -> list[Text]:
        self.arrives = True
        return []

    def _begin(self, event: Event) -> list[Text]:
        self.last = None
        stage, block, v = event.site["stage"], event.site["block"], event.values
        if stage in ("verify", "update"):
            return []
        if stage == "parser":
            how = INSTANCE_TYPES.get(v[2]) if self.arrives else "again for a clone"
            self.arrives = False
            note = f": {v[1]} bytes on port {v[0]}" + (f", {how}" if how else "")
        elif stage == "egress parser":
            note = f": {v[1]} bytes to port {v[0]}"
        elif stage == "egress":
            how = INSTANCE_TYPES.get(v[2])
            note = f": to port {v[0]}" + (f", copy {v[1]}" if v[1] else "")
            note += f", {how}" if how else ""
        else:
            note = ""
        made = Text(f"{stage} ", "bold magenta")
        made.append(block, "bold")
        made.append(note)
        return [made]

    def _end(self, event: Event) -> list[Text]:
        self.last = None
        v = event.values
        if event.site["stage"].endswith("deparser"):
            total = v[0] + v[1]
            text = f"{v[0]} bytes of headers, {v[1]} bytes of payload"
            if v[2] and v[2] < total:
                text += f", truncated to {v[2]} bytes"
            return [Text(f"    {text}", "bold")]
        spec, group, clone, session, resubmit, recirculate, _, failed = v
        ingress = event.site["stage"] == "ingress"
        notes = []
        if clone:
            notes.append(f"clone to mirror session {session}")
        if failed:
            notes.append("dropped: an assertion failed")
        elif ingress and resubmit:
            notes.append("resubmit")
        elif ingress and group:
            notes.append(f"to multicast group {group}")
        elif spec == DROP_PORT:
            notes.append("dropped")
        elif ingress:
            notes.append(f"to port {spec}")
        elif recirculate:
            notes.append("recirculate")
        style = "bold red" if "dropped" in "".join(notes) else "bold yellow"
        return [Text(f"    {', '.join(notes)}", style)] if notes else []

    # ---- steps ----

    def _state(self, event: Event) -> list[Text]:
        self.last = (event.site.get("file"), event.site.get("line"))
        return [Text(f"{self._place(event.site):>7}  state {event.site['name']}", "bold cyan")]

    def _extract(self, event: Event) -> list[Text]:
        return [*self._source(event), *self._header(event)]

    def _emit(self, event: Event) -> list[Text]:
        return [*self._source(event), *self._header(event)]

    def _select(self, event: Event) -> list[Text]:
        names = event.site["names"]
        return self._result(event, self._named(event, names[: len(event.values)]))

    def _parser_error(self, event: Event) -> list[Text]:
        return self._result(event, f"error.{event.site['name']}: the parser rejects", "bold red")

    def _verify(self, event: Event) -> list[Text]:
        return self._result(event, f"{self._value(event, 0)}: the parser rejects", "bold red")

    def _if(self, event: Event) -> list[Text]:
        return self._result(event, self._value(event, 0), "green" if event.values[0] else "yellow")

    def _assign(self, event: Event) -> list[Text]:
        return self._result(event, f"{event.site['what']} = {self._value(event, 0)}")

    def _table(self, event: Event) -> list[Text]:
        keys = event.site["keys"]
        hit, run, handle = event.values[len(keys) :]
        text = Text(event.site["name"], "bold")
        for at, (name, kind) in enumerate(keys):
            text.append(", " if at else ": ")
            text.append(f"{name} = {self._value(event, at)}")
            text.append(f" {kind}", "dim")
        lines = self._result(event, text)
        if not hit:
            lines.append(Text(INDENT + "miss, the default action", "yellow"))
        elif handle < 1 << 32:
            lines.append(Text(f"{INDENT}hit, entry {handle}", "green"))
        else:
            lines.append(Text(INDENT + "hit", "green"))
        return lines

    def _action(self, event: Event) -> list[Text]:
        text = Text("action ")
        text.append(event.site["name"], "bold")
        text.append(f"({self._named(event, event.site['names'])})")
        source = self._source(event) if event.site.get("direct") else []
        return [*source, Text(INDENT).append_text(text)]

    def _enter(self, event: Event) -> list[Text]:
        return self._result(event, f"enter {event.site['name']}", "bold")

    def _extern(self, event: Event) -> list[Text]:
        names = event.site["names"]
        results = set(event.site["results"]) | {"checksum_error"}
        given = [i for i, n in enumerate(names) if n not in results]
        got = [i for i, n in enumerate(names) if n in results]
        text = Text(event.site["name"], "bold")
        inside = ", ".join(f"{names[i]} = {self._value(event, i)}" for i in given)
        text.append(f"({inside})")
        if names[:1] == ["condition"] and not event.values[0]:
            text.append(" does nothing", "dim")
        elif got:
            text.append(" gives ")
            text.append(", ".join(f"{names[i]} = {self._value(event, i)}" for i in got), "bold")
        return self._result(event, text)
