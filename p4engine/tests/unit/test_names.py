"""Names and their meaning, matches in their spellings, and the JSON of a program's objects."""

from __future__ import annotations

import json

import pytest
from p4engine.control.command_values import match_value as from_command
from p4engine.control.wire import encode
from p4engine.program_info import Action, Key, Param, ProgramInfo, Table
from p4engine.stf.stf_parser import StfError, Value
from p4engine.stf.stf_values import find_key
from p4engine.stf.stf_values import match_value as from_stf
from p4engine.values.matches import (
    ExactMatch,
    LpmMatch,
    OptionalMatch,
    RangeMatch,
    TernaryMatch,
    anything,
    from_match_words,
    from_plain,
    is_anything,
    key_words,
)
from p4engine.values.names import Names, UnknownName, find, resolve
from p4engine.values.numbers import ControlError

KINDS = ("exact", "lpm", "ternary", "range", "optional")
ALL = {
    "exact": ExactMatch(7),
    "lpm": LpmMatch(0x70, 4),
    "ternary": TernaryMatch(0x30, 0xF0),
    "range": RangeMatch(2, 200),
    "optional": OptionalMatch(9),
}


def table(name: str, keys: tuple[Key, ...] = (), **more: object) -> Table:
    actions = (Action("I.send", 0, (Param("port", 9),), False, False),)
    fields = {
        "size": 4,
        "default_action": 0,
        "const_default_action": False,
        "const_entries": False,
        "entries": 0,
        "profile": None,
        "direct_counter": None,
        "direct_meter": None,
        "ages": False,
        "line": 1,
    }
    return Table(name, 0, keys, actions, **(fields | more))


def info(*tables: Table) -> ProgramInfo:
    return ProgramInfo("a.p4", tables, (), (), (), (), (), (), (), (), (), ())


def test_a_name_in_full_or_an_unambiguous_ending():
    tables = [table("I.t"), table("I.a.t"), table("I.forward")]
    assert find(tables, "I.t", "table") is tables[0]
    assert find(tables, "a.t", "table") is tables[1]
    assert find(tables, "forward", "table") is tables[2]
    with pytest.raises(UnknownName, match=r"^table 't' is ambiguous: I\.t, I\.a\.t$"):
        find(tables, "t", "table")
    with pytest.raises(UnknownName, match="there is no table 'ward'"):
        find(tables, "ward", "table")
    names = [(each.name, each) for each in tables]
    assert resolve(names, "ward", "table", any_ending=True) is tables[2]


def test_the_error_names_what_there_is_the_nearest_first():
    with pytest.raises(UnknownName) as caught:
        find([table(f"I.t{i}") for i in range(30)] + [table("I.forward")], "forwrd", "table")
    text = str(caught.value)
    assert text.startswith("there is no table 'forwrd'; the program has I.forward, I.t0, ")
    assert text.endswith(" and 19 more")
    with pytest.raises(UnknownName, match="there is no register 'r'; the program has none"):
        Names(info()).register("r")
    with pytest.raises(UnknownName, match=r"no action 'x'; table I\.t has I\.send$"):
        Names(info(table("I.t"))).action(table("I.t"), "x")


def test_a_direct_counter_goes_by_its_name_or_its_table():
    counted = table("I.t", direct_counter="I.hits")
    names = Names(info(counted, table("I.u")))
    for name in ("I.hits", "hits", "I.t", "t"):
        assert names.counter(name) is counted
    with pytest.raises(UnknownName, match="there is no counter 'u'"):
        names.counter("u")


@pytest.mark.parametrize("kind", KINDS)
def test_a_match_in_words_plain_values_and_json(kind):
    for width in (8, 64, 100):
        key, match = Key("k", kind, width), ALL[kind]
        assert from_match_words([key], key_words(key, match, "")) == [match]
        assert from_plain(key, match, "") == from_plain(key, match.plain(), "") == match
        over_the_socket = json.loads(json.dumps(encode([match])))[0]
        assert from_plain(key, over_the_socket, "") == match
        assert is_anything(key, anything(key)) == (kind != "exact")
        assert not is_anything(key, match)


@pytest.mark.parametrize(
    "kind, command, stf, match",
    [
        ("exact", "0x0a", Value("0x0a"), ExactMatch(10)),
        ("lpm", "0x70/4", Value("0x7*"), LpmMatch(0x70, 4)),
        ("ternary", "0x3f&&&0xf0", Value("0x3*"), TernaryMatch(0x30, 0xF0)),
        ("ternary", "5", Value("5"), TernaryMatch(5, 0xFF)),
        ("range", "2->200", Value("2", "->", "200"), RangeMatch(2, 200)),
        ("range", "7", Value("7"), RangeMatch(7, 7)),
        ("optional", "9", Value("9"), OptionalMatch(9)),
        ("optional", "9&&&0", Value("0x**"), OptionalMatch(None)),
    ],
)
def test_commands_and_tests_spell_the_same_match(kind, command, stf, match):
    key = Key("k", kind, 8)
    assert from_command(key, command, "table t") == match
    assert from_stf(key, stf, "t") == match


def test_a_match_of_another_kind_is_refused():
    with pytest.raises(ControlError, match="no match for a key of kind lpm"):
        from_plain(Key("k", "lpm", 8), ExactMatch(1), "table t")
    with pytest.raises(ControlError, match="the prefix length is at most 8, not 9"):
        from_plain(Key("k", "lpm", 8), LpmMatch(1, 9), "table t")


def test_keys_of_tests_have_several_spellings():
    keys = (
        Key("hdr.a.$valid$", "exact", 1),
        Key("hdr.s[1].b", "exact", 8),
        Key("hdr.a.b", "exact", 8),
    )
    made = table("I.t", keys)
    for wanted in ("hdr.a.$valid$", "hdr.a.isValid()", "a.valid", "valid"):
        assert find_key(made, wanted) == 0
    assert find_key(made, "s$1.b") == 1 and find_key(made, "a.b") == 2
    with pytest.raises(StfError, match=r"no key 'c'; table I\.t has"):
        find_key(made, "c")


def test_what_is_known_of_a_program_survives_json():
    keys = tuple(Key(f"hdr.{kind}", kind, 8) for kind in (*KINDS, "selector"))
    made = info(table("I.t", keys, profile=0), table("I.u"))
    data = json.loads(json.dumps(made.to_json()))
    assert "trace" not in data and list(data)[:2] == ["program", "tables"]
    assert ProgramInfo.from_json(data) == made
    assert made.tables[0].ordered and not made.tables[1].ordered
    assert [key.kind for key in made.tables[0].match_keys] == [*KINDS]
    del data["digests"]
    with pytest.raises(KeyError):
        ProgramInfo.from_json(data)
