"""The images of the docs say what the tables beside them say.

An image has its numbers in its text Description. Each mean that a panel shows is a number of the
tables in the image's section, to the table's last digit.
"""

from __future__ import annotations

import json
import re

import pytest
from PIL import Image

from tests.support.paths import ROOT
from tools import images

DOCS = ROOT / "docs"
FOLDER = DOCS / "images"
# Image: the page, the heading of its section, and words in the titles of the panels whose numbers
# are in that section's tables.
TABLES = {
    "demo": ("../README.md", "A testbed for in-network aggregation of gradients", ["average JCT"]),
    "figure-headline": ("figures.md", "headline", ["PS packets", "average JCT", "relative"]),
    "figure-memory": ("figures.md", "memory", ["average JCT"]),
    "figure-jobs": ("figures.md", "jobs", ["average JCT"]),
    "figure-mix": ("figures.md", "mix", ["average JCT"]),
    "figure-rate": ("figures.md", "rate", ["average JCT"]),
    "figure-baselines": ("figures.md", "baselines", ["average JCT"]),
    "figure-sharing": ("figures.md", "sharing", ["average JCT", "relative"]),
    "figure-throughput": ("figures.md", "throughput", ["PS packets"]),
    "memory": ("experiments.md", "memory", ["average JCT"]),
    "loss": ("experiments.md", "loss", ["average JCT"]),
}


def said(name: str):
    """What an image says of itself; None: nothing."""
    with Image.open(FOLDER / f"{name}.png") as image:
        image.load()
        text = image.text.get("Description")
    return json.loads(text) if text else None


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text()
    parts = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)
    assert len(parts) == 2, f"{page} has one section {heading}"
    return re.split(r"^## ", parts[1], flags=re.MULTILINE)[0]


def is_said(value: float, text: str) -> bool:
    """True if the text has the number, rounded in some way to the digits that it shows."""
    for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text):
        step = 10.0 ** -len(number.partition(".")[2])
        if abs(float(number) - value) <= 0.5001 * step:
            return True
    return False


def test_every_image_can_be_made_anew_and_is_used():
    there = {path.stem for path in FOLDER.glob("*.png")}
    assert there == set(images.MADE)
    pages = [*DOCS.glob("*.md"), ROOT / "README.md"]
    shown = {
        name for page in pages for name in re.findall(r"images/([\w-]+)\.png", page.read_text())
    }
    assert there == shown


def test_every_image_says_its_numbers():
    assert not {name for name in images.MADE if said(name) is None}


@pytest.mark.parametrize("name", TABLES)
def test_an_image_says_what_its_tables_say(name):
    page, heading, words = TABLES[name]
    text, missing = section(page, heading), []
    panels = said(name)
    for word in words:
        (panel,) = [each for each in panels if word in each["title"]]
        values = [value for pairs in panel["series"].values() for _, value in pairs]
        missing += [f"{word}: {value}" for value in values if not is_said(value, text)]
    assert not missing


def test_the_quickstart_s_pictures_are_of_its_run():
    """The run that the page shows, and its table of the switch's memory."""
    occupancy, report = said("quickstart-occupancy"), said("report")
    assert occupancy["run"] == report["run"]
    text = (DOCS / "quickstart.md").read_text()
    assert occupancy["run"] in text
    (row,) = re.findall(r"^ +s1 +(\d+) +([\d.]+) %", text, re.MULTILINE)
    states = occupancy["numbers"][0]["series"]
    mean = sum(value for _, value in states["filling"]) / len(states["filling"])
    # The table's share is of all time, the picture's of samples.
    assert 100 * mean / int(row[0]) == pytest.approx(float(row[1]), abs=3)


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (4.638, "4.64 ± 0.05 ms", True),
        (4.648, "4.64 ± 0.05 ms", False),
        (20.6, "20 ms", False),
        (3.0, "h3 and v3.0", False),
    ],
)
def test_numbers_are_compared_to_their_last_digit(value, text, expected):
    assert is_said(value, text) is expected
