"""Settings of MkDocs beyond mkdocs.yml: pages from outside docs/, and links to the sources.

The pages are written to be read in the checkout, so they link to each other and to source files by
their places there. The site has the README, DEVELOPERS.md, the pages of p4engine and p4fabric and
the labs' hand-outs as pages too, and a page for each source file that a page links to; links are
changed to match. A link or an anchor that leads nowhere is reported by MkDocs, and `strict` makes
an error of it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import claims
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# Pages by their places in the checkout -> in the site. Those in docs/ keep their names.
OUTSIDE = {"README.md": "index.md", "DEVELOPERS.md": "developers.md"}
LANGUAGES = {
    ".py": "python",
    ".p4": "c",
    ".lua": "lua",
    ".yaml": "yaml",
    ".sh": "sh",
    ".csv": "text",
}
INDEX = "docs/README.md"  # of the checkout; the site has its navigation
LONGEST_SOURCE = 400_000  # characters
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_OUTSIDE_LINK = re.compile(r"[a-z]+:|#|/")


def places() -> dict[str, str]:
    """Place in the site of each page, by its place in the checkout."""
    found = dict(OUTSIDE)
    found |= {f"docs/{path.name}": path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    found |= {f"{name}/README.md": f"{name}/index.md" for name in ("p4engine", "p4fabric")}
    found |= {
        f"{house}/docs/{path.name}": f"{house}/{path.name}"
        for house in ("p4engine", "p4fabric")
        for path in sorted((ROOT / house / "docs").glob("*.md"))
    }
    found["labs/README.md"] = "labs/index.md"
    found |= {
        f"labs/{path.name}": f"labs/{path.name.lower()}"
        for path in sorted((ROOT / "labs").glob("*.md"))
        if path.name != "README.md"
    }
    for path in sorted((ROOT / "labs").glob("lab*/*.md")):
        found[f"labs/{path.parent.name}/{path.name}"] = (
            f"labs/{path.parent.name}/{path.name.lower()}"
        )
    found.pop(INDEX, None)
    return {place: page for place, page in found.items() if (ROOT / place).is_file()}


def on_config(config: Any) -> Any:
    """Pages that the navigation does not name come last in it."""
    named = set(_leaves(config["nav"]))
    labs = [page for page in places().values() if page.startswith("labs/")]
    rest = [page for page in places().values() if page not in named and page not in labs]
    config["nav"].append({"Labs": labs})
    if rest:
        config["nav"].append({"More": rest})
    return config


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [leaf for entry in entries for leaf in _leaves(entry)]


def on_files(files: Files, *, config: Any) -> Files:
    """Adds the pages from outside docs/, and those of the source files that are linked to."""
    pages = places()
    sources: set[str] = set()
    for place, page in pages.items():
        text, linked = with_site_links(
            (ROOT / place).read_text(encoding="utf-8"), place, page, pages
        )
        sources |= linked
        old = files.get_file_from_path(page)
        if old is not None:
            files.remove(old)
        files.append(File.generated(config, page, content=text))
    for place in sorted(sources):
        if Path(place).suffix in (".png", ".svg"):
            continue
        files.append(File.generated(config, source_page(place), content=source_text(place)))
    files.append(File.generated(config, claims.PAGE, content=claims.page(all_claims())))
    style = File.generated(config, "code.css", content=_code_style())
    files.append(style)
    return files


def all_claims() -> list[claims.Claim]:
    """Those of all pages that make claims."""
    return [
        claim
        for page in claims.PAGES
        for claim in claims.claims(page, (ROOT / "docs" / page).read_text(encoding="utf-8"))
    ]


def with_site_links(
    text: str, place: str, page: str, pages: dict[str, str]
) -> tuple[str, set[str]]:
    """A page's text with its links as they are in the site, and the source files that it links to.

    A link to a folder becomes its words; one to what is not there stays, for MkDocs to report."""
    linked: set[str] = set()

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if _OUTSIDE_LINK.match(target):
            return match.group(0)
        path, _, anchor = target.partition("#")
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        if inside in pages:
            there = pages[inside]
        elif inside == INDEX:
            return words[1:-1]
        elif inside.startswith("docs/"):
            there = inside.removeprefix("docs/")
        elif (ROOT / inside).is_dir():
            return words[1:-1]
        elif (ROOT / inside).is_file():
            linked.add(inside)
            there = source_page(inside)
        else:
            return match.group(0)
        relative = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{words}({relative}{'#' + anchor if anchor else ''})"

    # What stands in a fence is no link.
    pieces, last = [], 0
    for fence in _FENCE.finditer(text):
        pieces += [_LINK.sub(link, text[last : fence.start()]), fence.group(0)]
        last = fence.end()
    return "".join([*pieces, _LINK.sub(link, text[last:])]), linked


def source_page(place: str) -> str:
    return f"source/{place}.md"


def source_text(place: str) -> str:
    """A page with a source file."""
    path = ROOT / place
    code = path.read_text(encoding="utf-8")[:LONGEST_SOURCE]
    language = LANGUAGES.get(path.suffix, "text")
    fence = "`" * max(4, 1 + max((len(run) for run in re.findall(r"`+", code)), default=0))
    return f"# {place}\n\n{fence}{language}\n{code.rstrip()}\n{fence}\n"


def _code_style() -> str:
    from pygments.formatters import HtmlFormatter

    return HtmlFormatter(style="default").get_style_defs(".highlight")
