"""Pairs of similar submissions: what changes nothing of a copy, and what is no copy."""

from __future__ import annotations

import csv
import re
import shutil

import pytest

from testbed.labs._teacher import solution
from testbed.labs.classes.similar import SOLUTION, compare, hashes, prints, tokens
from testbed.labs.grader.commands import main
from testbed.labs.grader.lab import find_lab
from tests.support.class_folders import hand_in, write_class

P4 = (solution("lab4_loss") / "loss.p4").read_text()
PYTHON = (solution("lab11_worker") / "worker.py").read_text()
OTHER = (solution("lab9_routing") / "planner.py").read_text()
LAB = "lab2_aggregation"


def _share(name, first, second, base=""):
    (pair,) = compare("lab", {"a": {name: first}, "b": {name: second}}, {name: base})
    return pair.share


def _disguised(text, comment):
    """With other names and other comments, and laid out anew."""
    text = re.sub(r"\b(slot|number|bitmap|window|sent|timer|now_ns)\b", r"my_\1", text)
    lines = [line.replace("    ", " ") for line in text.splitlines()]
    return "\n".join(f"{line}\n{comment} {n} if (x == {n})" for n, line in enumerate(lines))


@pytest.mark.parametrize("name, text, comment", [("x.p4", P4, "//"), ("x.py", PYTHON, "#")])
def test_other_names_comments_and_spaces_hide_no_copy(name, text, comment):
    changed = _disguised(text, comment)
    assert changed.count("my_") > 10 and _share(name, text, changed) == 1


def test_other_numbers_and_another_order_of_functions_hide_no_copy():
    parts = re.split(r"\n(?=    def )", PYTHON)
    assert len(parts) > 4
    moved = "\n".join([parts[0], *parts[:0:-1]]).replace(" 4 ", " 5 ")
    assert 0.7 < _share("x.py", PYTHON, moved) <= 1


def test_programs_of_their_own_are_not_similar():
    assert _share("x.py", PYTHON, OTHER) < 0.1


def test_what_all_have_in_common_does_not_count():
    half = P4[: len(P4) // 2]
    ends = [(solution(f"lab{n}") / f).read_text() for n, f in (("9_routing", "planner.py"),)]
    first, second = half + ends[0], half + PYTHON
    assert _share("x.p4", first, second) > 0.4
    assert _share("x.p4", first, second, base=half) < 0.15


def test_the_passages_that_two_programs_share_are_named_by_their_lines():
    """Two blocks, which have changed places."""
    lines = PYTHON.splitlines()
    blocks = ["\n".join(lines[a:b]) for a, b in ((30, 48), (52, 62))]
    own = ["\n".join(OTHER.splitlines()[a:b]) for a, b in ((24, 34), (60, 70), (96, 106))]
    first = "\n".join([own[0], blocks[0], own[1], blocks[1]])
    second = "\n".join([blocks[1], own[2], blocks[0]])
    (pair,) = compare("lab", {"a": {"x.py": first}, "b": {"x.py": second}}, {})
    assert pair.passages == "11-28 = 21-38, 39-48 = 1-10"


def test_a_passage_that_is_long_enough_is_always_found():
    """K + W - 1 tokens, wherever they are."""
    row = tokens(PYTHON, "x.py")
    words = {n: " ".join(word for word, _ in row[n : n + 23]) for n in range(0, len(row) - 23, 7)}
    whole = set(prints({"x.py": PYTHON}))
    for n, text in words.items():
        assert whole & {h for h, _, _ in hashes(row[n : n + 23])}, text


@pytest.mark.parametrize(
    "name, text, want",
    [
        ("a.p4", "x = 0x1F; // y\n/* z\n */ apply { }", "name = number ; apply { }"),
        ("a.py", 'x = "a#b" # y\nif x == 1.5:', "name = text if name == number :"),
        ("a.py", 'def f():\n    """a\n    b"""\n    return 1', "def name ( ) : text return number"),
    ],
)
def test_tokens_are_what_a_program_does(name, text, want):
    assert " ".join(word for word, _ in tokens(text, name)) == want
    assert tokens(text, name)[-1][1] == text.count("\n") + 1


def test_a_class_has_a_table_of_its_pairs(tmp_path, capsys):
    folder = write_class(tmp_path / "class")
    text = (solution(LAB) / "aggregation.p4").read_text()
    lab = find_lab("2")
    hand_in(folder, "ada", "2", text=_disguised(text, "//"))
    hand_in(folder, "bob", "2", text=lab.skeleton("")["aggregation.p4"].decode())
    earlier = tmp_path / "2025"
    (earlier / "zoe" / LAB).mkdir(parents=True)
    shutil.copy(solution(LAB) / "aggregation.p4", earlier / "zoe" / LAB)
    assert main(["class", "similar", str(folder), "--also", str(earlier)]) == 0
    _, *rows = csv.reader((folder / "results" / "similar.csv").open())
    assert [row[:5] for row in rows] == [
        [LAB, SOLUTION, f"{earlier}/zoe", "100%", "100%"],
        [LAB, SOLUTION, "ada", "100%", "100%"],
        [LAB, f"{earlier}/zoe", "ada", "100%", "100%"],
    ]
    told = capsys.readouterr().out
    assert f"{LAB}: 3 pairs, median 100%" in told and "bob" not in told
    assert re.search(r"ada +100% +100% +\d+-\d+ = \d+-\d+", told)
    assert main(["class", "similar", str(folder), "--lab", "7"]) == 0
    assert "0 pairs" in capsys.readouterr().out
