"""The page of all claims: one row for each, made of the pages where they stand.

Readers who check the project's claims need them in one place. Authors of a result need
one place to write it to. So a claim stands in its own section of a page (`PAGES`), and this page is
made when the site is built. A section makes a claim by these paragraphs:

    ## NAME
    Claim: a sentence.
        the command that checks it
    Minutes on 2 cores: a sentence.
    Result: a sentence. Or a table, and then a paragraph that begins with "So".
    Tolerance: a sentence. Where a section has none, that before the page's first section holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PAGES = ("figures.md", "experiments.md")
PAGE = "claims.md"
PARTS = ("claim", "command", "minutes", "outcome", "tolerance")
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_COMMAND = re.compile(r"^ {4}((?:sudo )?ina (?:figure|sweep) [^\n#]*)", re.MULTILINE)
# A sentence ends with a stop before a capital, or with its paragraph.
_SENTENCE = r"(.+?)\.(?=\s+[A-Z]|\s*$)"


@dataclass(frozen=True)
class Claim:
    """One row: where the claim stands (page and section), and its PARTS, "" where missing."""

    page: str
    name: str
    claim: str
    command: str
    minutes: str
    outcome: str
    tolerance: str

    @property
    def missing(self) -> list[str]:
        """Parts that its section does not have."""
        return [part for part in PARTS if not getattr(self, part)]


def claims(page: str, text: str) -> list[Claim]:
    """The claims of a page, in its order."""
    head, *rest = _HEADING.split(text)
    common = _sentence_after(head, "Tolerance:")
    found = []
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        claim = _sentence_after(section, "Claim:")
        if not claim:
            continue
        command = _COMMAND.search(section)
        found.append(
            Claim(
                page,
                name.strip(),
                claim,
                command.group(1).strip() if command else "",
                _sentence_after(section, "Minutes on 2 cores:"),
                _sentence_after(section, "So")
                or _sentence_after(section, "Result:", anywhere=True),
                _sentence_after(section, "Tolerance:") or common,
            )
        )
    return found


def _sentence_after(text: str, begin: str, anywhere: bool = False) -> str:
    """The sentence behind `begin` at the head of a paragraph (or anywhere), on one line; "" where
    there is none."""
    for paragraph in re.split(r"\n\s*\n", text):
        words = " ".join(paragraph.split())
        place = words.find(begin) if anywhere else 0 if words.startswith(f"{begin} ") else -1
        sentence = re.match(_SENTENCE, words[place + len(begin) :].strip()) if place >= 0 else None
        if sentence:
            return sentence.group(1)[:1].upper() + sentence.group(1)[1:]
    return ""


def page(found: list[Claim]) -> str:
    """The page in Markdown."""
    lines = [
        "# Claims",
        "",
        "Claims to show or to refute, the command that checks each, how many minutes it",
        "takes on two cores, the result, and how far your own result may differ. Each row",
        "is made of the section that it links to, where the numbers and their intervals are.",
        "",
        "| where | claim | command | minutes | result | tolerance |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        cells = [
            f"[{each.name}]({each.page}#{_anchor(each.name)})",
            each.claim,
            f"`{each.command}`",
            each.minutes,
            each.outcome,
            each.tolerance,
        ]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([*lines, ""])


def _anchor(name: str) -> str:
    """As MkDocs makes it of a heading."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
