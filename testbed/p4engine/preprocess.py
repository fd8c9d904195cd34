"""The C preprocessor, as far as P4 programs use it.

Includes, object- and function-like macros with # and ##, conditionals with integer expressions,
#error, #warning, #undef; #pragma and #line are skipped. Written here rather than run as `cpp` so
that no second program is needed and every token keeps the line and column in the file that the
author wrote: a token from a macro's body carries the place where the macro was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .diagnostics import Diagnostics, Place
from .lexer import END, ID, NEWLINE, NUMBER, OP, STRING, Token, parse_number, tokenize

BUILTIN_INCLUDE = Path(__file__).parent / "include"
MAX_INCLUDE_DEPTH = 64
MAX_TOKENS = 4_000_000


@dataclass(frozen=True)
class Macro:
    """`parameters` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: tuple[Token, ...]
    variadic: bool = False


class Preprocessor:
    """Turns a file into one flat list of tokens without newlines and directives."""

    def __init__(self, diagnostics: Diagnostics, include_dirs: tuple[Path, ...]):
        self.diagnostics = diagnostics
        self.include_dirs = include_dirs
        self.macros: dict[str, Macro] = {}
        self.output: list[Token] = []
        self.files_read: list[Path] = []
        self._once: set[Path] = set()

    def define(self, name: str, text: str) -> None:
        """As -D name=text on a command line."""
        number = self.diagnostics.add_file(f"<definition of {name}>", text)
        tokens = tokenize(text, number, self.diagnostics)
        self.macros[name] = Macro(name, None, tuple(t for t in tokens if t.kind != NEWLINE))

    def run(self, path: Path) -> list[Token]:
        self._file(path, None, 0)
        last = self.output[-1].place if self.output else Place(0, 1, 1)
        self.output.append(Token(END, "end of file", last))
        return self.output

    # ---- files and directives ----

    def _file(self, path: Path, place: Place | None, depth: int) -> None:
        try:
            text = path.read_bytes().decode("utf-8", errors="replace")
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
        # One entry per open #if: [place, this branch is active, some branch was taken, seen #else]
        open_ifs: list[list] = []
        pending: list[Token] = []  # a run of ordinary lines: a macro call may span several
        for line in lines:
            active = all(entry[1] for entry in open_ifs)
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
            self.diagnostics.error(entry[0], "this condition has no #endif")

    @staticmethod
    def _split_lines(tokens: list[Token]) -> list[list[Token]]:
        lines, line = [], []
        for token in tokens:
            if token.kind == NEWLINE:
                lines.append(line)
                line = []
            else:
                line.append(token)
        return lines

    def _emit(self, tokens: list[Token]) -> None:
        macros = self.macros
        if any(t.text in macros for t in tokens if t.kind == ID) or any(
            t.text in ("__LINE__", "__FILE__") for t in tokens
        ):
            tokens = self._expand(tokens, frozenset())
        self.output += tokens
        if len(self.output) > MAX_TOKENS:
            raise self.diagnostics.fatal(
                tokens[-1].place, f"more than {MAX_TOKENS} tokens after macro expansion"
            )

    def _directive(
        self, line: list[Token], open_ifs: list[list], active: bool, path: Path, depth: int
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
            open_ifs.append([place, taken, taken, False])
        elif name in ("elif", "else", "endif"):
            if not open_ifs:
                self.diagnostics.error(place, f"#{name} without #if")
            elif name == "endif":
                open_ifs.pop()
            else:
                entry = open_ifs[-1]
                outer = all(e[1] for e in open_ifs[:-1])
                if entry[3]:
                    self.diagnostics.error(place, f"#{name} after #else")
                elif name == "else":
                    entry[1], entry[3] = not entry[2], True
                elif entry[2] or not outer:
                    entry[1] = False
                else:
                    entry[1] = entry[2] = self._condition(rest, place)
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
            self.diagnostics.error(place, "#error " + self._spell(rest))
        elif name == "warning":
            self.diagnostics.warning(place, "#warning " + self._spell(rest))
        elif name == "pragma":
            if rest and rest[0].text == "once":
                self._once.add(path.resolve())
        elif name != "line" and line[1].kind != NUMBER:
            self.diagnostics.error(place, f"unknown preprocessor directive #{name}")

    def _include(self, rest: list[Token], place: Place, path: Path, depth: int) -> None:
        if rest and rest[0].kind == ID:
            rest = self._expand(rest, frozenset())
        if rest and rest[0].kind == STRING:
            name, quoted = rest[0].text[1:-1], True
        elif len(rest) >= 3 and rest[0].text == "<" and rest[-1].text == ">":
            name, quoted = self._spell(rest[1:-1]), False
        else:
            self.diagnostics.error(place, '#include needs "file" or <file>')
            return
        if depth >= MAX_INCLUDE_DEPTH:
            raise self.diagnostics.fatal(place, "includes are nested too deeply")
        folders = [path.parent] if quoted else []
        folders += [BUILTIN_INCLUDE, *self.include_dirs] if not quoted else [*self.include_dirs]
        folders += [] if not quoted else [BUILTIN_INCLUDE]
        for folder in folders:
            candidate = folder / name
            if candidate.is_file():
                if candidate.resolve() not in self._once:
                    self._file(candidate, place, depth + 1)
                return
        raise self.diagnostics.fatal(
            place,
            f"cannot find the include file {name!r}; looked in "
            + ", ".join(
                "the built-in includes" if f == BUILTIN_INCLUDE else str(f) for f in folders
            ),
        )

    def _define(self, rest: list[Token], place: Place) -> None:
        if not rest or rest[0].kind != ID:
            self.diagnostics.error(place, "#define needs a name")
            return
        name, body, parameters, variadic = rest[0].text, rest[1:], None, False
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

    @staticmethod
    def _spell(tokens: list[Token]) -> str:
        text = ""
        for token in tokens:
            text += (" " if token.spaced and text else "") + token.text
        return text

    # ---- macro expansion ----

    def _expand(self, tokens: list[Token], hidden: frozenset[str]) -> list[Token]:
        """Expand all macros; `hidden` are those being expanded, which stay as they are."""
        out: list[Token] = []
        i, n = 0, len(tokens)
        while i < n:
            token = tokens[i]
            i += 1
            if token.kind != ID:
                out.append(token)
                continue
            if token.text == "__LINE__":
                out.append(Token(NUMBER, str(token.place.line), token.place, token.spaced))
                continue
            if token.text == "__FILE__":
                name = self.diagnostics.files[token.place.file]
                out.append(Token(STRING, f'"{name}"', token.place, token.spaced))
                continue
            macro = self.macros.get(token.text)
            if macro is None or token.text in hidden:
                out.append(token)
                continue
            inside = hidden | {token.text}
            if macro.parameters is None:
                body = self._paste([t._replace(place=token.place) for t in macro.body])
                replaced = self._expand(body, inside)
            else:
                if i >= n or tokens[i].text != "(":
                    out.append(token)
                    continue
                arguments, i = self._arguments(tokens, i, token.place)
                replaced = self._expand(
                    self._substitute(macro, arguments, token.place, hidden), inside
                )
            # A function-like macro's name may come out of an expansion and take its arguments from
            # what follows; that is rare enough to re-scan only then.
            if (
                replaced
                and i < n
                and tokens[i].text == "("
                and replaced[-1].kind == ID
                and replaced[-1].text not in inside
                and (m := self.macros.get(replaced[-1].text))
                and m.parameters is not None
            ):
                arguments, i = self._arguments(tokens, i, token.place)
                replaced = replaced[:-1] + self._expand(
                    self._substitute(m, arguments, token.place, hidden), inside | {m.name}
                )
            out += replaced
            if len(out) > MAX_TOKENS:
                raise self.diagnostics.fatal(token.place, "macro expansion does not end")
        return out

    def _arguments(
        self, tokens: list[Token], i: int, place: Place
    ) -> tuple[list[list[Token]], int]:
        """The arguments of a call whose "(" is tokens[i], and the index behind its ")"."""
        arguments: list[list[Token]] = [[]]
        depth = 0
        while i < len(tokens):
            token = tokens[i]
            i += 1
            if token.text in "([{" and token.kind == OP:
                depth += 1
                if depth == 1:
                    continue
            elif token.text in ")]}" and token.kind == OP:
                depth -= 1
                if depth == 0:
                    return arguments, i
            elif token.text == "," and depth == 1:
                arguments.append([])
                continue
            arguments[-1].append(token)
        raise self.diagnostics.fatal(place, "the arguments of this macro are not closed")

    def _substitute(
        self, macro: Macro, arguments: list[list[Token]], place: Place, hidden: frozenset[str]
    ) -> list[Token]:
        parameters = macro.parameters or ()
        if macro.variadic and len(arguments) >= len(parameters):
            fixed = len(parameters) - 1
            tail: list[Token] = []
            for k, argument in enumerate(arguments[fixed:]):
                tail += ([Token(OP, ",", place)] if k else []) + argument
            arguments = arguments[:fixed] + [tail]
        if not parameters and arguments == [[]]:
            arguments = []
        if len(arguments) != len(parameters):
            self.diagnostics.error(
                place,
                f"macro {macro.name} takes {len(parameters)} arguments, {len(arguments)} given",
            )
            return []
        given = dict(zip(parameters, arguments, strict=True))
        expanded: dict[str, list[Token]] = {}
        out: list[Token] = []
        body = macro.body
        for k, token in enumerate(body):
            if token.text == "#" and k + 1 < len(body) and body[k + 1].text in given:
                continue
            if token.text in given and token.kind == ID:
                if k and body[k - 1].text == "#":
                    text = self._spell(given[token.text]).replace("\\", "\\\\").replace('"', '\\"')
                    out.append(Token(STRING, f'"{text}"', place, True))
                    continue
                pasted = (k and body[k - 1].text == "##") or (
                    k + 1 < len(body) and body[k + 1].text == "##"
                )
                if pasted:
                    tokens = given[token.text] or [Token(OP, "", place)]
                else:
                    if token.text not in expanded:
                        expanded[token.text] = self._expand(given[token.text], hidden)
                    tokens = expanded[token.text]
                out += [t._replace(place=place) for t in tokens]
            else:
                out.append(token._replace(place=place))
        return self._paste(out)

    def _paste(self, tokens: list[Token]) -> list[Token]:
        if not any(t.text in ("##", "") for t in tokens):
            return tokens
        out: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.text == "##" and out and i + 1 < len(tokens):
                text = out[-1].text + tokens[i + 1].text
                place, spaced = out[-1].place, out[-1].spaced
                out.pop()
                kind = (
                    ID
                    if text[:1].isalpha() or text[:1] == "_"
                    else NUMBER
                    if text[:1].isdigit()
                    else OP
                )
                out.append(Token(kind, text, place, spaced))
                i += 2
                continue
            out.append(token)
            i += 1
        return [t for t in out if t.text]

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
        return bool(_Condition(self._expand(flat, frozenset()), self.diagnostics, place).value())


class _Condition:
    """Evaluates an integer expression over tokens by precedence climbing."""

    LEVELS = (
        ("||",),
        ("&&",),
        ("|",),
        ("^",),
        ("&",),
        ("==", "!="),
        ("<", ">", "<=", ">="),
        ("<<", ">>"),
        ("+", "-"),
        ("*", "/", "%"),
    )

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics, place: Place):
        self.tokens, self.diagnostics, self.place, self.i = [], diagnostics, place, 0
        for token in tokens:  # join > >
            if token.text == ">" and self.tokens and self.tokens[-1] == ">" and not token.spaced:
                self.tokens[-1] = ">>"
            else:
                self.tokens.append(token.text)

    def value(self) -> int:
        result = self._ternary()
        if self.i < len(self.tokens):
            self.diagnostics.error(self.place, f"unexpected {self.tokens[self.i]!r} in a condition")
        return result

    def _peek(self) -> str:
        return self.tokens[self.i] if self.i < len(self.tokens) else ""

    def _ternary(self) -> int:
        condition = self._level(0)
        if self._peek() != "?":
            return condition
        self.i += 1
        yes = self._ternary()
        if self._peek() != ":":
            self.diagnostics.error(self.place, "':' is missing in a condition")
            return 0
        self.i += 1
        no = self._ternary()
        return yes if condition else no

    def _level(self, level: int) -> int:
        if level == len(self.LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self._peek() in self.LEVELS[level]:
            op = self._peek()
            self.i += 1
            right = self._level(level + 1)
            left = self._apply(op, left, right)
        return left

    def _apply(self, op: str, a: int, b: int) -> int:
        if op in "/%" and b == 0:
            self.diagnostics.error(self.place, "division by zero in a condition")
            return 0
        if op in ("<<", ">>") and not 0 <= b < 4096:
            self.diagnostics.error(self.place, "bad shift in a condition")
            return 0
        return {
            "||": lambda: int(bool(a or b)),
            "&&": lambda: int(bool(a and b)),
            "|": lambda: a | b,
            "^": lambda: a ^ b,
            "&": lambda: a & b,
            "==": lambda: int(a == b),
            "!=": lambda: int(a != b),
            "<": lambda: int(a < b),
            ">": lambda: int(a > b),
            "<=": lambda: int(a <= b),
            ">=": lambda: int(a >= b),
            "<<": lambda: a << b,
            ">>": lambda: a >> b,
            "+": lambda: a + b,
            "-": lambda: a - b,
            "*": lambda: a * b,
            "/": lambda: int(a / b),
            "%": lambda: a - b * int(a / b),
        }[op]()

    def _unary(self) -> int:
        text = self._peek()
        self.i += 1
        if text == "!":
            return int(not self._unary())
        if text == "-":
            return -self._unary()
        if text == "+":
            return self._unary()
        if text == "~":
            return ~self._unary()
        if text == "(":
            result = self._ternary()
            if self._peek() != ")":
                self.diagnostics.error(self.place, "')' is missing in a condition")
            self.i += 1
            return result
        if text[:1].isdigit():
            number = parse_number(text) or parse_number(text.rstrip("uUlL"))
            if number is None:
                self.diagnostics.error(self.place, f"bad number {text!r} in a condition")
                return 0
            return number[0]
        if text == "true":
            return 1
        if text[:1].isalpha() or text[:1] == "_":
            return 0  # as in C: a name that is no macro
        self.diagnostics.error(self.place, f"unexpected {text or 'end'!r} in a condition")
        return 0


def preprocess(
    path: Path,
    defines: dict[str, str | int],
    include_dirs: tuple[Path, ...],
    diagnostics: Diagnostics,
) -> tuple[list[Token], list[Path]]:
    """All tokens of the program, and the files that were read."""
    processor = Preprocessor(diagnostics, include_dirs)
    processor.define("__p4engine__", "1")
    for name, value in defines.items():
        processor.define(name, str(value))
    diagnostics.main = len(diagnostics.files)
    return processor.run(path), processor.files_read
