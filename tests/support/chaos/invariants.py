"""Conditions that must hold after every event.

A run ended in time. It is finished and every value was checked and right; or it failed, and the
cause that it names is the event's; or it was interrupted, because a signal asked for it. It never
shows a traceback. Nothing of it is left."""

from __future__ import annotations

import re
import signal

from tests.support.chaos.one_run import LIMIT_S, Done, Ended

_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FULL = ("is full", "No space left on device")
_FROZEN = ("no sign of life", "stalled", "took longer than")


def outcome(ended: Ended) -> str:
    """Outcome in one word, for the table."""
    if ended.killed:
        return "killed"
    if ended.code in (130, 143, 129, *(-number for number in _ASKED)):
        return "interrupted"
    return {0: "finished", 1: "failed", 2: "refused"}.get(ended.code, f"code {ended.code}")


def broken(ended: Ended) -> list[str]:
    """The invariants that do not hold, each in a line."""
    found = list(ended.left)
    if not ended.in_time:
        found.append(f"it had not ended after {LIMIT_S} s")
    text = ended.output + ended.errors
    if "Traceback" in text and not _before_the_start(ended):
        found.append("it shows a traceback")
    if "Exception ignored" in text:
        found.append("it shows an ignored exception")
    how = {
        "finished": _finished,
        "failed": _failed,
        "refused": _refused,
        "interrupted": _interrupted,
        "killed": _killed,
    }.get(outcome(ended))
    if how is None:
        found.append(f"exit code {ended.code}")
    elif ended.in_time:
        found += how(ended)
    return found


def _before_the_start(ended: Ended) -> bool:
    """True if Python itself was still starting when a signal came."""
    return ended.code < 0 and "run.py" not in ended.errors


def _finished(ended: Ended) -> list[str]:
    found = []
    if ended.state != "finished":
        found.append(f"exit code 0, but its folder says {ended.state or 'nothing'}")
    if not ended.jobs:
        found.append("no job in its results")
    killed = "kill" in ended.plan.faults
    for job in ended.jobs:
        wanted = job["values"] * job["iterations"] * job["workers"]
        if job["outcome"] == "killed" and killed and job["name"] == "b":
            continue
        if not job["exact"] or job["values_checked"] != wanted:
            found.append(f"job {job['name']}: {job['values_checked']} of {wanted} values checked")
    asked = {done.happening.signal for done in ended.done if done.happening.what == "signal"}
    if "SIGKILL" in asked:
        found.append("it was killed, and says that it has finished")
    return found


def _failed(ended: Ended) -> list[str]:
    found = []
    message = ended.errors.partition("failed: ")[2]
    if not message:
        found.append("exit code 1 without a message that begins with `failed:`")
    if ended.state and ended.state not in ("failed", "finished"):
        found.append(f"exit code 1, but its folder says {ended.state}")
    if ended.state == "failed":
        first = ended.error.splitlines()[0] if ended.error else ""
        if not first or first.removesuffix(" ...") not in ended.errors:
            found.append(f"its folder gives another cause: {first!r}")
    explained = any(_explains(done, message, ended.plan.timeout_s) for done in ended.done)
    if not explained and not _expected(ended, message):
        found.append(f"a cause that was not the one: {message.splitlines()[:1]}")
    return found


def _explains(done: Done, message: str, timeout_s: int) -> bool:
    """True if a message names the event as the cause. timeout_s: of the watchdog."""
    what = done.happening
    if what.what == "kill":
        ends = [f"killed by signal {int(signal.Signals[what.signal])}"]
        if what.signal == "SIGTERM":  # a switch ends in order
            ends.append("ended with exit code 0")
        return any(end in message for end in ends) and _names(done.victims[0], message)
    if what.what == "freeze":
        long = what.for_s is not None and what.for_s > timeout_s
        return long and any(words in message for words in _FROZEN)
    if what.what == "fill":
        return any(words in message for words in _FULL)
    if what.what == "limit":
        return "memory" in message
    return False


def _names(title: str, message: str) -> bool:
    """True if the process with this title is the one that a message blames."""
    first = message.splitlines()[0]
    _, kind, name = (title + " ").split(" ", 2)
    name = name.strip()
    if name == "pool":
        return f"the {kind} pool (process " in first
    if kind == "namespace":
        return f"the namespace of {name} was" in first
    return re.search(rf"\b{kind} {name}\b", first) is not None


def _expected(ended: Ended, message: str) -> bool:
    """True if the surroundings or a planned fault explain a failure."""
    setting = " ".join(ended.plan.setting)
    if "KiB" in setting and any(words in message for words in _FULL):
        return True
    if "MiB" in setting and "memory" in message:
        return True
    restarted = ended.plan.system == "switchml" and "restart" in ended.plan.faults
    return restarted and "SwitchML keeps results in switch registers alone" in message


def _refused(ended: Ended) -> list[str]:
    found = []
    setting = " ".join(ended.plan.setting)
    if "KiB" in setting:
        if not any(words in ended.errors for words in _FULL):
            found.append("it was refused, not because of the full file system")
    elif "MiB" in setting:
        if "memory" not in ended.errors:
            found.append("it was refused, not because of the memory")
    else:
        found.append("it was refused")
    if ended.state:
        found.append(f"it was refused, and has a folder that says {ended.state}")
    return found


def _interrupted(ended: Ended) -> list[str]:
    found = []
    number = -ended.code if ended.code < 0 else ended.code - 128
    asked = {done.happening.signal for done in ended.done if done.happening.what == "signal"}
    if signal.Signals(number).name not in asked:
        found.append(f"it was interrupted by {signal.Signals(number).name}, which nobody sent")
    if ended.state not in ("", "interrupted", "finished"):
        found.append(f"it was interrupted, but its folder says {ended.state}")
    return found


def _killed(ended: Ended) -> list[str]:
    found = []
    asked = {done.happening.signal for done in ended.done if done.happening.what == "signal"}
    if "SIGKILL" not in asked and "group MiB" not in ended.plan.setting:
        found.append("its runner was killed, and nobody did it")
    allowed = {"", "killed", "finished", "interrupted"}
    if ended.state not in allowed:
        found.append(f"its runner was killed, but its folder says {ended.state}")
    return found
