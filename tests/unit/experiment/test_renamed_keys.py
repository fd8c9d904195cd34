"""Keys that were renamed: their old names still work."""

from __future__ import annotations

import pytest

from testbed.errors import UserError
from testbed.experiment import load_text
from tests.support.experiments import BASE


def test_an_old_name_of_a_key_still_works_with_a_warning():
    old = load_text(BASE + "timers: {least_timeout: 7 ms, most_reminder_delay: 9 ms}\n")
    new = load_text(BASE + "timers: {min_timeout: 7 ms, max_reminder_delay: 9 ms}\n")
    assert old.timers == new.timers and not new.warnings
    assert old.warnings == (
        "timers.least_timeout is now called timers.min_timeout; rename it",
        "timers.most_reminder_delay is now called timers.max_reminder_delay; rename it",
    )
    assert old.resolved_yaml() == new.resolved_yaml()


def test_both_names_of_a_key_at_once_are_refused():
    text = BASE + "timers:\n  min_timeout: 7 ms\n  least_timeout: 7 ms\n"
    with pytest.raises(UserError, match="timers.least_timeout.*old name of min_timeout"):
        load_text(text)


def test_a_mistake_under_an_old_name_is_located():
    text = BASE + "timers:\n  least_timeout: 7 apples\n"
    line = text.count("\n")
    with pytest.raises(UserError, match=f"line {line}, timers.min_timeout"):
        load_text(text)
