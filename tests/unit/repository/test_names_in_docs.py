"""The options, keys and columns that the pages name exist.

An option that is renamed, or a key that moves to another section, leaves its old name behind in
the pages, and no other test would notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from testbed.cli.json_schema import experiment_schema, network_schema
from testbed.results.schema import TABLES
from testbed.systems.registry import SHIPPED
from testbed.topos import SHIPPED as TOPOLOGIES
from tests.support.paths import ROOT, files_of_checkout

OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
WRITTEN = re.compile(r"[\"'](--[a-z][\w-]*)")
# A path of keys or `table.column` in backticks, perhaps with a value.
PATH = re.compile(r"`([a-z_]+(?:\[[\d*:]*\])?(?:\.[a-z_\d*]+(?:\[[\d*:]*\])?)+)(?:[:=][^`]*)?`")
FILE = re.compile(r"\.(?:py|yaml|json|p4|csv|html|md)$")
# Of other programs that the pages show, by the page.
FOREIGN = {
    "README.md": {"--rm", "--privileged", "--find-links"},
    "docs/dask.md": {
        *("--array", "--host", "--memory-limit", "--nthreads", "--nworkers", "--protocol"),
    },
    "docs/servers.md": {"--rdzv-backend", "--rdzv-endpoint"},
    "docs/training.md": {"--rdzv-backend", "--rdzv-endpoint", "--max-restarts"},
    "p4engine/docs/p4runtime.md": {"--config", "--election-id", "--grpc-addr"},
    "p4engine/docs/shims.md": {
        *("--dp-grpc-server-addr", "--dump-packet-data", "--enable-swap", "--max-port-count"),
        "--packet-in",
    },
}
EXAMPLES = {"system.max_hops", "jobs[].results"}  # of a plug-in; of another file than the two
SCHEMAS = [experiment_schema(SHIPPED, TOPOLOGIES), network_schema()]


def _pages() -> Iterator[tuple[str, str]]:
    for path in files_of_checkout("*.md"):
        if path.name != "CHANGELOG.md":
            yield str(path.relative_to(ROOT)), path.read_text()


def _parts(schema: Any, node: Any) -> Iterator[Any]:
    """A node of a JSON schema and all that it allows instead."""
    if "$ref" in node:
        yield from _parts(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    yield node
    for key in ("anyOf", "oneOf", "allOf"):
        for each in node.get(key, ()):
            yield from _parts(schema, each)
    if isinstance(node.get("items"), dict):
        yield from _parts(schema, node["items"])


def _is_key(path: str) -> bool:
    words = re.sub(r"\[.*?\]", "", path).split(".")
    for schema in SCHEMAS:
        nodes = [schema]
        for word in words:
            parts = [part for node in nodes for part in _parts(schema, node)]
            nodes = [
                part["properties"][word] for part in parts if word in part.get("properties", ())
            ]
            named = [part.get("additionalProperties") for part in parts]
            nodes += [each for each in named if isinstance(each, dict)]
        if nodes:
            return True
    return False


def _is_column(path: str) -> bool:
    table, _, column = path.partition(".")
    return table in TABLES and column in {each.name for each in TABLES[table].columns}


def unknown_paths(text: str) -> list[str]:
    """The paths in backticks that begin with a section or a table and lead to nothing."""
    begins = {*TABLES, *(key for schema in SCHEMAS for key in schema["properties"])}
    paths = [path for path in PATH.findall(text) if not FILE.search(path)]
    begun = [path for path in paths if re.match(r"\w+", path).group() in begins]  # type: ignore[union-attr]
    return [path for path in begun if not (path in EXAMPLES or _is_key(path) or _is_column(path))]


def test_the_options_that_pages_name_exist():
    made_up = ROOT / "tests" / "unit"  # options there are those of tests
    written = {
        option
        for path in files_of_checkout("*.py", "*.sh", "test", "demo")
        if made_up not in path.parents
        for option in WRITTEN.findall(path.read_text())
    }
    found = [
        f"{name}: {option}"
        for name, text in _pages()
        for option in OPTION.findall(text)
        if option not in written | FOREIGN.get(name, set())
    ]
    assert not found, "\n".join(found)


def test_the_keys_and_columns_that_pages_name_exist():
    pages = [page for page in _pages() if not page[0].startswith("p4engine/")]
    found = [f"{name}: {path}" for name, text in pages for path in unknown_paths(text)]
    assert not found, "\n".join(found)


def test_a_name_that_leads_nowhere_is_found():
    text = "`memory.agregators`, `jobs[1].scale`, `links.los: 1`, `links.losses`, `links.lost`"
    assert unknown_paths(text) == ["memory.agregators", "links.los", "links.lost"]
