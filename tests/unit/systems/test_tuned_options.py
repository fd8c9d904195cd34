"""Options that a file leaves to be tuned: both spellings, bad ones, and what is tried."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.experiment.load import load_text, load_tried
from testbed.schemes import set_up
from testbed.setup.timing import product_of
from testbed.setup.window_range import tried_values
from tests.support.experiments import BASE, changed, message


def tried(text: str) -> dict:
    made = load_text(text)
    return tried_values(set_up(made), made.tuning)


def of(system: str, rest: str = "", text: str = BASE) -> str:
    return text.replace("{name: esa, window: 64}", system) + rest


def test_both_spellings_ask_for_the_same_and_are_part_of_the_identity():
    """Values are sorted, and written down they load again."""
    best = load_text(of("{name: esa, window: best}"))
    other = load_text(of("esa", "tune: {window: best}\n"))
    assert best.tuning.as_data() == other.tuning.as_data() == {"window": "best"}
    assert best.identity == other.identity != load_text(of("esa")).identity
    listed = load_text(of("esa", "tune: {window: [256, 16], max_age: [1 ms, 20 us]}\n"))
    assert listed.tuning.options == {"window": (16, 256), "max_age": ("20 us", "1 ms")}
    again = load_text(listed.resolved_yaml())
    assert again.tuning.as_data() == listed.tuning.as_data() and again.identity == listed.identity
    made = load_tried(listed.tuning, {"window": 16, "max_age": "1 ms"}, seed=7)
    assert (made.system.window, made.system.max_age_ns, made.seed) == (16, 10**6, 7)
    assert made.tuning is None


def test_the_number_of_servers_moves_no_worker_and_is_written_down():
    text = of("ps", "tune: {servers: [1, 3]}\n").replace("workers: 4", "workers: 2")
    text = text.replace("memory: {aggregators: 128}\n", "").replace("workers: 3", "workers: 2")
    made = load_text(text)
    few, many = (load_tried(made.tuning, {"servers": count}) for count in (1, 3))
    assert [job.fixed_placement.workers for job in few.jobs] == [
        job.fixed_placement.workers for job in many.jobs
    ]
    assert len(many.jobs[0].fixed_placement.servers) == 3
    assert load_text(made.resolved_yaml()).identity


@pytest.mark.parametrize(
    ("system", "tune", "said"),
    [
        ("esa", "{window: [64, fast]}", "tune.window: found 'fast'; allowed: numbers"),
        ("esa", "{window: [64, auto]}", "tune.window: found 'auto'; allowed: numbers"),
        ("esa", "{window: [0]}", "tune.window: found 0; allowed: a whole number from 1"),
        ("esa", "{window: []}", "tune.window: found an empty list; allowed: a list of values"),
        ("esa", "{window: {from: 9, to: 3, step: 1}}", "allowed: a list of values, or a growing"),
        ("esa", "{servers: [1, 2]}", "tune.servers: found 'servers'; allowed: options of esa: win"),
        ("esa", "{order: [fifo, front]}", "order is no number; a sweep compares its values"),
        (
            "{name: ps, servers: best}",
            "{window: best}",
            "found best for servers; allowed: best",
        ),
        ("{name: esa, window: 8}", "{window: [8]}", "window is 8 in system, too; keep one"),
        ("esa", "{}", "tune: found an empty mapping; allowed: options of the system"),
        ("esa", "[window]", "tune: found a list"),
        ("esa", "{window: {from: 1, to: 300, step: 1}}", "allowed: 256"),
        ("ps", "{servers: [1, 40]}", "tuned, with servers 40"),
    ],
)
def test_each_mistake_is_one_error(system, tune, said):
    text = of(system, f"tune: {tune}\n")
    if system.startswith(("ps", "{name: ps")):
        text = text.replace("memory: {aggregators: 128}\n", "")
    found = message(text)
    assert said in found, found
    assert "1 error " in found and found.count("\n") <= 2


@settings(max_examples=20, deadline=None)
@given(
    rate=st.sampled_from((0.1, 1, 10, 100, 400)),
    aggregators=st.sampled_from((1, 16, 512, 3000, 60_000)),
    system=st.sampled_from(("esa", "atp", "ps", "ring")),
)
def test_best_spans_the_product_and_what_memory_has_a_use_for(rate, aggregators, system):
    """Powers of two, from half of the smallest bandwidth-delay product. The pool's aggregators are
    enough, or twice the largest product where a link needs more in flight; but for a pool, eight
    times the product and 1,024."""
    text = changed("bandwidth: 100 Mbit/s", f"bandwidth: {rate} Gbit/s") + "runtime: virtual\n"
    pool = system in ("esa", "atp")
    memory = f"memory: {{aggregators: {aggregators}}}\n" if pool else ""
    made = load_text(
        of(f"{{name: {system}, window: best}}", text=text).replace(
            "memory: {aggregators: 128}\n", memory
        )
    )
    setup = set_up(made)
    products = [product_of(setup.platform, job.group) for job in setup.jobs.values()]
    windows = tried_values(setup, made.tuning)["window"]
    assert all(2 * a == b for a, b in zip(windows, windows[1:], strict=False))
    most = max(1024, 8 * max(products))
    if pool:
        most = min(most, max(aggregators, 2 * max(products)))
    assert windows[0] <= max(1, min(products) // 2) < 2 * windows[0]
    assert windows[-1] <= most < 2 * windows[-1]


def test_a_part_of_the_memory_ends_the_range():
    fast = changed("bandwidth: 100 Mbit/s", "bandwidth: 100 Gbit/s") + "runtime: virtual\n"
    text = of("{name: switchml, window: best}", text=fast)
    assert tried(text)["window"][-1] == 32  # two jobs, two sets of slots, 128 aggregators
    text = of("{name: tree, window: best}", text=fast)
    assert tried(text)["window"][-1] == 64  # one job has them all, the other one none and a ring
    text = text.replace("aggregators: 128", "aggregators: 84")
    assert tried(text)["window"][-2:] == (32, 42), "all slots, of two sets"
    listed = of("switchml", "tune: {window: [16, 32, 64]}\n")
    assert tried(listed)["window"] == (16, 32)
    with pytest.raises(UserError, match=r"found 64, 128; the switch memory has slots for 32 "):
        tried(of("switchml", "tune: {window: [64, 128]}\n"))


def test_where_jobs_come_and_go_windows_are_named():
    text = "runtime: virtual\n" + of("{name: esa, window: best}").partition("jobs:\n")[0]
    text += "arrivals: {submissions: [{submit: 0, model: vgg16, workers: 2, iterations: 1}]}\n"
    with pytest.raises(UserError, match=r"name windows, such as tune: \{window: \[64"):
        tried(text)
