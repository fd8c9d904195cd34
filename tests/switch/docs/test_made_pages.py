"""What tools/pages.py makes is what the pages have: outputs of the tour in virtual time, the claims
of the README, the index of all pages; and the numbers of the prose are those of the outputs."""

from __future__ import annotations

import importlib.util
import re

import pytest
import yaml

from tests.support.paths import ROOT

spec = importlib.util.spec_from_file_location("pages", ROOT / "tools" / "pages.py")
pages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pages)
PAGE = (ROOT / "docs" / "tour.md").read_text()


def test_the_first_outputs_of_the_tour_are_those_of_its_commands(tmp_path):
    start = PAGE[: PAGE.index("\n## 3. ") + 1]
    assert "PS packets per fragment" in start
    assert pages.tour(start, pages.Reader(tmp_path)) == start


@pytest.mark.slow
def test_a_reader_gets_through_and_reads_what_the_tour_prints(tmp_path):
    reader = pages.Reader(tmp_path)
    assert pages.tour(PAGE, reader) == PAGE
    for name in ("jct.pdf", "results/memory/report.html", "memory.ina.zip"):
        assert (reader.folder / name).stat().st_size > 1000


def test_another_number_is_taken_over_and_other_words_are_an_error():
    printed = ["runs 1 s", "x (2 s)", "", "", " a   9.5 us  run-20261126T163447Z-4363", " all  3 %"]
    old = ["...", "a  700 ms run-20250101T000000Z-aaaa", "all 1 %", "..."]
    new = ["...", " a   9.5 us  run-20250101T000000Z-aaaa", " all  3 %", "..."]
    assert pages.renewed(old, printed) == new == pages.renewed(new, printed)
    with pytest.raises(ValueError, match="no longer print: gone"):
        pages.renewed(["runs 1 s", "...", "gone 1"], printed)


def test_the_prose_of_the_tour_has_no_number_that_its_outputs_lack():
    for step in PAGE.split("\n## ")[1:]:
        shown = "\n".join(re.findall(r"^ {4}.*$", step, re.MULTILINE))
        prose = re.sub(r"^ {4}.*$|^```.*?^```|\(.*?\)", "", step, flags=re.MULTILINE | re.DOTALL)
        for number in re.findall(r"(?<![\w.-])\d+\.\d+\b", prose):
            assert number in shown, f"{number} of step {step.splitlines()[0]}"


def test_the_claims_of_the_readme_are_those_of_the_figures():
    readme = (ROOT / "README.md").read_text()
    figures = (ROOT / "docs" / "figures.md").read_text()
    assert pages.readme(readme, figures) == readme
    changed = pages.readme(readme, figures.replace("0.59 of ESA's time**", "0.60 of ESA's time**"))
    assert "a tuned ring takes 0.60 of ESA's time" in changed
    for system in ("ESA", "ATP", "A2TP", "SwitchML", "GRID"):
        (row,) = re.findall(rf"^\| {system} \| (\[.*) \|$", readme, re.MULTILINE)
        assert all(row.split(" | ")[-2:]), system


def test_the_table_of_figures_is_that_of_the_expected_values():
    page = (ROOT / "docs" / "artifacts.md").read_text()
    assert pages.artifacts(page) == page
    for name in pages.expected.of_figures()[0]:
        assert f"| `ina reproduce {name}` |" in page


def test_the_index_and_the_navigation_have_all_pages():
    assert pages.index() == (ROOT / "docs" / "README.md").read_text()
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()
    nav = yaml.safe_dump(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    named = set(re.findall(r"(?<![\w/])[\w-]+\.md\b", nav))
    files = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert named - files == {"index.md", "claims.md", "developers.md"} and not files - named
