"""The C preprocessor, as far as P4 programs use it.

Includes, object- and function-like macros with # and ##, conditionals with integer expressions,
#error, #warning, #undef; #pragma and #line are skipped. Written here rather than run as `cpp` so
that no second program is needed and every token keeps the line and column in the file that the
author wrote: a token from a macro's body carries the place where the macro was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from p4engine.frontend.diagnostics import Diagnostics, Place
from p4engine.frontend.lexer import END, ID, NEWLINE, NUMBER, STRING, Token, tokenize
from p4engine.frontend.preprocessor.condition import Condition
from p4engine.frontend.preprocessor.files import Files
from p4engine.frontend.preprocessor.macros import MAX_TOKENS, Macro, MacroExpander, spell

# core.p4, and behind it the folders of the architectures with a file of declarations each.
BUILTIN_INCLUDE = Path(__file__).parents[2] / "architectures"
BUILTIN_FOLDERS = (BUILTIN_INCLUDE, *sorted({p.parent for p in BUILTIN_INCLUDE.glob("*/*.p4")}))
MAX_INCLUDE_DEPTH = 64


@dataclass(slots=True)
class Conditional:
    """An #if that is not closed yet."""

    place: Place
    active: bool  # this branch is compiled
    taken: bool  # so is this branch, or an earlier one
    in_else: bool = False


class Preprocessor:
    """Turns a file into one flat list of tokens without newlines and directives."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        include_dirs: tuple[Path, ...],
        confined_to: Path | None = None,
        files: Files | None = None,
    ) -> None:
        self.diagnostics = diagnostics
        self.files = files or Files()
        self.include_dirs = include_dirs
        self.confined_to = confined_to
        self.expander = MacroExpander(diagnostics)
        self.macros = self.expander.macros
        self.output: list[Token] = []
        self.files_read: list[Path] = []
        self._once: set[Path] = set()

    def define(self, name: str, text: str) -> None:
        """Define a macro, as -D name=text on a command line does."""
        number = self.diagnostics.add_file(f"<definition of {name}>", text)
        tokens = tokenize(text, number, self.diagnostics)
        self.macros[name] = Macro(name, None, tuple(t for t in tokens if t.kind != NEWLINE))

    def run(self, path: Path) -> list[Token]:
        """All tokens of the main file at `path` and of what it includes."""
        main = len(self.diagnostics.files)
        self._file(path, None, 0)
        last = self.output[-1].place if self.output else Place(main, 1, 1)
        self.output.append(Token(END, "end of file", last))
        return self.output

    # ---- files and directives ----

    def _file(self, path: Path, place: Place | None, depth: int) -> None:
        try:
            text = self.files.read(path).decode("utf-8-sig", errors="replace")
        except OSError as error:
            if place is None:
                self.diagnostics.add_file(str(path), "")
                raise self.diagnostics.fatal(
                    Place(-1, 0, 0), f"cannot read {path}: {error.strerror or error}"
                ) from None
            raise self.diagnostics.fatal(
                place, f"cannot read {path}: {error.strerror or error}"
            ) from None
        self.files_read.append(path)
        number = self.diagnostics.add_file(str(path), text)
        lines = self._split_lines(tokenize(text, number, self.diagnostics))
        open_ifs: list[Conditional] = []
        pending: list[Token] = []  # a run of ordinary lines: a macro call may span several
        for line in lines:
            active = all(entry.active for entry in open_ifs)
            if not (line and line[0].text == "#"):
                if active:
                    pending += line
                continue
            if active and pending:
                self._emit(pending)
                pending = []
            self._directive(line, open_ifs, active, path, depth)
        if pending:
            self._emit(pending)
        for entry in open_ifs:
            self.diagnostics.error(entry.place, "this condition has no #endif")

    @staticmethod
    def _split_lines(tokens: list[Token]) -> list[list[Token]]:
        lines: list[list[Token]] = []
        line: list[Token] = []
        for token in tokens:
            if token.kind == NEWLINE:
                lines.append(line)
                line = []
            else:
                line.append(token)
        return lines

    def _emit(self, tokens: list[Token]) -> None:
        if self.expander.concerns(tokens):
            tokens = self.expander.expand(tokens)
        self.output += tokens
        if len(self.output) > MAX_TOKENS:
            raise self.diagnostics.fatal(
                tokens[-1].place, f"more than {MAX_TOKENS} tokens after macro expansion"
            )

    def _directive(
        self,
        line: list[Token],
        open_ifs: list[Conditional],
        active: bool,
        path: Path,
        depth: int,
    ) -> None:
        if len(line) == 1:
            return
        name, rest, place = line[1].text, line[2:], line[1].place
        if name in ("if", "ifdef", "ifndef"):
            taken = False
            if active:
                if name == "if":
                    taken = self._condition(rest, place)
                elif not rest or rest[0].kind != ID:
                    self.diagnostics.error(place, f"#{name} needs a name")
                else:
                    taken = (rest[0].text in self.macros) == (name == "ifdef")
            open_ifs.append(Conditional(place, taken, taken))
        elif name in ("elif", "else", "endif"):
            if not open_ifs:
                self.diagnostics.error(place, f"#{name} without #if")
            elif name == "endif":
                open_ifs.pop()
            else:
                entry = open_ifs[-1]
                outer = all(e.active for e in open_ifs[:-1])
                if entry.in_else:
                    self.diagnostics.error(place, f"#{name} after #else")
                elif name == "else":
                    entry.active, entry.in_else = not entry.taken, True
                elif entry.taken or not outer:
                    entry.active = False
                else:
                    entry.active = entry.taken = self._condition(rest, place)
        elif not active:
            return
        elif name == "include":
            self._include(rest, place, path, depth)
        elif name == "define":
            self._define(rest, place)
        elif name == "undef":
            if rest and rest[0].kind == ID:
                self.macros.pop(rest[0].text, None)
            else:
                self.diagnostics.error(place, "#undef needs a name")
        elif name == "error":
            self.diagnostics.error(place, "#error " + spell(rest))
        elif name == "warning":
            self.diagnostics.warning(place, "#warning " + spell(rest))
        elif name == "pragma":
            if rest and rest[0].text == "once":
                self._once.add(self.files.real(path))
        elif name != "line" and line[1].kind != NUMBER:
            self.diagnostics.error(place, f"unknown preprocessor directive #{name}")

    def _include(self, rest: list[Token], place: Place, path: Path, depth: int) -> None:
        if rest and rest[0].kind == ID:
            rest = self.expander.expand(rest)
        if rest and rest[0].kind == STRING:
            name, quoted = rest[0].text[1:-1], True
        elif len(rest) >= 3 and rest[0].text == "<" and rest[-1].text == ">":
            name, quoted = spell(rest[1:-1]), False
        else:
            self.diagnostics.error(place, '#include needs "file" or <file>')
            return
        if depth >= MAX_INCLUDE_DEPTH:
            raise self.diagnostics.fatal(place, "includes are nested too deeply")
        # The built-in files come last, so that a folder of the user's can hold a newer v1model.p4.
        folders = [*self.include_dirs, *BUILTIN_FOLDERS]
        if quoted:
            folders.insert(0, path.parent)
        for folder in folders:
            candidate = folder / name
            if self._readable(candidate):
                if not self._once or self.files.real(candidate) not in self._once:
                    self._file(candidate, place, depth + 1)
                return
        raise self.diagnostics.fatal(
            place,
            f"cannot find the include file {name!r}; looked in "
            + ", ".join(
                "the built-in includes" if f == BUILTIN_INCLUDE else str(f)
                for f in folders
                if f not in BUILTIN_FOLDERS[1:]
            ),
        )

    def _readable(self, file: Path) -> bool:
        if self.confined_to is not None:
            inside = (self.files.real(self.confined_to), BUILTIN_INCLUDE)
            if not any(self.files.real(file).is_relative_to(folder) for folder in inside):
                return False
        return self.files.is_file(file)

    def _define(self, rest: list[Token], place: Place) -> None:
        if not rest or rest[0].kind != ID:
            self.diagnostics.error(place, "#define needs a name")
            return
        name, body, variadic = rest[0].text, rest[1:], False
        parameters: tuple[str, ...] | None = None
        if body and body[0].text == "(" and not body[0].spaced:
            names, i = [], 1
            while i < len(body) and body[i].text != ")":
                if body[i].kind == ID:
                    names.append(body[i].text)
                elif body[i].text == "...":
                    names.append("__VA_ARGS__")
                    variadic = True
                elif body[i].text != ",":
                    self.diagnostics.error(body[i].place, "bad parameter list of a macro")
                    return
                i += 1
            if i == len(body):
                self.diagnostics.error(place, "the parameter list of this macro is not closed")
                return
            parameters, body = tuple(names), body[i + 1 :]
        self.macros[name] = Macro(name, parameters, tuple(body), variadic)

    # ---- conditions ----

    def _condition(self, tokens: list[Token], place: Place) -> bool:
        if not tokens:
            self.diagnostics.error(place, "#if needs a condition")
            return False
        flat: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.text == "defined":
                j = i + 1
                closed = j < len(tokens) and tokens[j].text == "("
                j += closed
                if j >= len(tokens) or tokens[j].kind != ID:
                    self.diagnostics.error(token.place, "defined needs a name")
                    return False
                known = tokens[j].text in self.macros
                flat.append(Token(NUMBER, "1" if known else "0", token.place))
                i = j + 1 + closed
            else:
                flat.append(token)
                i += 1
        return bool(Condition(self.expander.expand(flat), self.diagnostics, place).value())


def preprocess(
    path: Path,
    defines: dict[str, str | int],
    include_dirs: tuple[Path, ...],
    diagnostics: Diagnostics,
    confined_to: Path | None = None,
    files: Files | None = None,
) -> tuple[list[Token], list[Path]]:
    """All tokens of the program, and the files that were read. confined_to: files are only read
    below this folder (and those that come with the compiler). files: keeps what was asked."""
    processor = Preprocessor(diagnostics, include_dirs, confined_to, files)
    for name in ("__p4engine__", "__TARGET_BMV2__"):  # the latter as p4c for BMv2 defines it
        processor.define(name, "1")
    for name, value in defines.items():
        processor.define(name, str(value))
    diagnostics.main = len(diagnostics.files)
    return processor.run(path), processor.files_read
