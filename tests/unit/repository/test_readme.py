"""The README's first screen: what it is for somebody from outside, the papers, the licence."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

FIRST = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])


def test_the_first_sentence_says_what_in_network_aggregation_is():
    sentence = FIRST.split("\n\n")[1].split(". ")[0]
    for word in ("gradients", "network", "in-network aggregation", "switches"):
        assert word in " ".join(sentence.split())


@pytest.mark.parametrize("system", ["ESA", "ATP", "A2TP", "SwitchML", "GRID", "tree"])
def test_each_system_has_its_paper_by_title(system):
    (row,) = re.findall(rf"^\| {system} \| (.*) \|$", FIRST, re.MULTILINE)
    for title, address in re.findall(r"\[(.*?)\]\((.*?)\)", row):
        assert len(title) > 40 and address.startswith("https://")
    assert re.search(r"20\d\d", row)


def test_licence_and_how_to_cite_are_there():
    for file in ("LICENSE", "CITATION.cff"):
        assert f"({file})" in FIRST and (ROOT / file).exists()
