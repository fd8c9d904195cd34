"""Docstrings of the product begin with a noun or a verb."""

from __future__ import annotations

import ast
import re

from tests.support.paths import ROOT, files_of_checkout

CLAUSE = re.compile(r"(?:What|How|Whether|Who|Whose|Which|Where|When)\b")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
OTHERS = ("tests/", "p4engine/tests/", "p4fabric/tests/", "labs/tests/")


def test_no_docstring_begins_with_a_relative_clause():
    found = []
    for path in files_of_checkout("*.py"):
        name = str(path.relative_to(ROOT))
        if name.startswith(OTHERS):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if text and CLAUSE.match(text):
                found.append(f"{name}:{node.body[0].lineno}: {text.splitlines()[0]}")  # type: ignore[attr-defined]
    assert not found, "\n".join(found)
