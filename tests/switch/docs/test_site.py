"""The docs as a site without broken links."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support import docs
from tests.support.paths import ROOT


def test_the_site_is_built_and_no_link_is_broken(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (
        "index.html",
        "experiment.html",
        "claims.html",
        "labs/index.html",
        "source/p4/esa.p4.html",
    ):
        text = (tmp_path / page).read_text()
        # It needs nothing from elsewhere.
        assert not re.findall(r'(?:src|<link[^>]*href)="https?:', text)
    assert "PoolIngress" in text  # the last one


def test_links_and_sources_are_turned_to_their_places_in_the_site():
    hooks = docs.site_hooks()
    pages = {
        "README.md": "index.md",
        "docs/esa.md": "esa.md",
        "labs/lab1/README.md": "labs/lab1/readme.md",
    }
    text, sources = hooks.with_site_links(
        "[a](docs/esa.md#x) [b](p4/esa.p4) [c](p4/) [d](https://x.y) [e](gone.md)\n"
        "```\n[f](p4/esa.p4)\n```\n",
        "README.md",
        "index.md",
        pages,
    )
    assert text.splitlines()[0] == (
        "[a](esa.md#x) [b](source/p4/esa.p4.md) c [d](https://x.y) [e](gone.md)"
    )
    assert sources == {"p4/esa.p4"} and "[f](p4/esa.p4)" in text
    text, _ = hooks.with_site_links(
        "[up](../../README.md)", "labs/lab1/README.md", "labs/lab1/readme.md", pages
    )
    assert text == "[up](../../index.md)"
