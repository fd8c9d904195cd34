"""Cost profiles in an experiment file: what becomes of them, and errors for bad ones."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from p4fabric.base.config.fields import Quantity, kind_of
from p4fabric.base.errors import UserError

from testbed.costs.files import shipped
from testbed.costs.profile import Costs, CostSection, ProtocolCosts, costs_in
from testbed.experiment import load_text
from testbed.experiment.experiment import summary
from testbed.experiment.schema import VirtualTime
from testbed.schemes import set_up
from testbed.setup.costs import costs_of
from tests.support.experiments import SMALL, changed, message

PRESETS = {
    *("none", "h100-nvlink", "h100-nvlink-graphs", "h100-roce-400g", "tofino-100g-dpdk", "mininet"),
}


def with_costs(costs, more=""):
    return f"{SMALL}costs: {costs}\n{more}"


def test_presets_are_there_and_say_where_each_number_is_from():
    assert set(shipped()) == PRESETS
    for name in PRESETS:
        costs = load_text(with_costs(name)).costs
        assert costs.name == name and costs.about
        for cost in costs_in(costs):
            assert costs.sources[cost.source].what and costs.sources[cost.source].date, cost.key


def test_none_is_all_0_and_says_so():
    experiment = load_text(with_costs("none"))
    assert not [*costs_in(experiment.costs)]
    assert summary(experiment).endswith("costs none (all 0)")
    assert "name: none" in experiment.resolved_yaml()
    times = [name for name in VirtualTime.model_fields if name.endswith("_ns")]
    assert not any(getattr(experiment.virtual, name) for name in times)
    assert load_text(SMALL).virtual.worker_delay_ns > 0, "without a profile the defaults are kept"


def _drawn(model: type[CostSection]) -> st.SearchStrategy:
    """Sections of a profile as a file has them."""
    fields = {}
    for name, info in model.model_fields.items():
        kind, key = kind_of(info), info.alias or name
        inner = next(
            (
                each
                for each in (info.annotation, *getattr(info.annotation, "__args__", ()))
                if isinstance(each, type) and issubclass(each, CostSection)
            ),
            None,
        )
        if inner is not None and name != "sources":
            fields[key] = _drawn(inner)
            if name == "LL":  # what each algorithm may have
                return st.fixed_dictionaries({}, optional={"Simple": _drawn(ProtocolCosts)})
        elif isinstance(kind, Quantity) and name not in ("jitter_ns", "per_rank_ns"):
            low, high = max(kind.low, 1000), min(kind.high, 10**6)
            amounts = st.integers(min(low, kind.high), max(high, kind.low))
            percent = st.integers(1, 100).map(lambda each: f"{each} %")
            fields[key] = percent if name == "rate" else amounts.map(kind.show)
    return st.fixed_dictionaries({}, optional=fields)


@settings(max_examples=25)
@given(data=_drawn(Costs))
def test_what_a_file_says_is_what_the_results_have(data):
    """Printed with all numbers, and read again, whatever the profile has."""
    costs = Costs.model_validate({"name": "own", **data})
    experiment = load_text(SMALL).model_copy(update={"costs": costs})
    again = load_text(experiment.resolved_yaml())
    assert again.costs == costs
    assert [*costs_in(again.costs)] == [*costs_in(costs)]


TIMES_OF_HOSTS = {
    f"{role}_{key}": st.integers(0, 10**6)
    for role in ("worker", "server")
    for key in ("delay", "jitter")
}


@settings(max_examples=50)
@given(
    of_profile=st.fixed_dictionaries(TIMES_OF_HOSTS),
    of_file=st.fixed_dictionaries({}, optional=TIMES_OF_HOSTS),
)
def test_times_of_a_profile_are_as_good_as_those_of_the_file(of_profile, of_file):
    """The file's go first, whatever a profile or the defaults say of the others; a jitter is held
    against the delay that applies; congestion thresholds are those of the round trip with it."""
    hosts = {"worker": "host", "server": "server"}
    for role in hosts:  # a profile is sound by itself
        most = of_profile[f"{role}_delay"]
        of_profile[f"{role}_jitter"] = min(of_profile[f"{role}_jitter"], most)
    costs = {
        name: {key: f"{of_profile[f'{role}_{key}']} ns" for key in ("delay", "jitter")}
        for role, name in hosts.items()
    }
    together = of_profile | of_file

    def loaded(more: dict, times: dict):
        virtual = {"virtual": {key: f"{time} ns" for key, time in times.items()}}
        return load_text(SMALL + yaml.safe_dump(more | virtual))

    wrong = [r for r in hosts if together[f"{r}_jitter"] > together[f"{r}_delay"]]
    for more, times in (({"costs": costs}, of_file), ({}, together)):
        if wrong:
            with pytest.raises(
                UserError, match=f"virtual.{wrong[0]}_jitter: found .*{wrong[0]}_delay, "
            ):
                loaded(more, times)
    if not wrong:
        with_profile = loaded({"costs": costs}, of_file)
        without = loaded({}, together | {"switch_latency": 0})
        assert with_profile.virtual == without.virtual
        assert with_profile.directions == without.directions


def test_a_file_and_what_is_changed_of_it(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "from: tofino-100g-dpdk\nsources: {own: {what: measured here, date: '2026-01'}}\n"
        "host: {delay: 3 us, source: own}\n"
    )
    mine = load_text(with_costs("mine.yaml"), folder=tmp_path)
    assert mine.costs.name == "mine" and mine.virtual.worker_delay_ns == 3000
    assert mine.virtual.server_delay_ns == 1000, "as its base has it"
    changes = "{from: mine.yaml, host: {delay: 4 us}}"
    other = load_text(with_costs(changes), folder=tmp_path)
    assert other.costs.name == "mine-changed" and other.virtual.worker_delay_ns == 4000
    assert other.identity != mine.identity
    assert load_text(other.resolved_yaml()).identity == other.identity
    # An option of `virtual` counts more than a profile.
    more = "virtual: {worker_delay: 7 us}\n"
    given = load_text(with_costs("mine.yaml", more), folder=tmp_path)
    assert given.virtual.worker_delay_ns == 7000 and given.virtual.switch_latency_ns == 400
    # The content counts, not the name.
    (tmp_path / "mine.yaml").write_text("host: {delay: 0}\n")
    assert load_text(with_costs("mine.yaml"), folder=tmp_path).identity != mine.identity


SOURCES = "sources: {a: {what: x, date: '2026'}}\n"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("host: {dely: 1 us}", "line 1, host.dely: unknown key; did you mean delay?"),
        ("\nhost: {delay: 5}", "line 2, host.delay: found 5; allowed: a time such as 10 us"),
        (
            "host: {delay: 1 us}",
            "line 1, host.source: found none; allowed: a key of `sources` that says where"
            " host.delay, 1 us, is from",
        ),
        (
            SOURCES + "nic: {start: 1 us, source: b}",
            "line 2, nic.source: found 'b'; allowed: a key of `sources`: a",
        ),
        (
            SOURCES + "algorithms: {ring: {LL: {rate: 40 %}}}",
            "line 2, algorithms.ring.source: found none;",
        ),
        ("sources: {a: {what: x}}", "line 1, sources.a.date: missing; Its date"),
        ("sources: {a: {what: x, date: May}}", "sources.a.date: found 'May'; allowed: a date such"),
        ("host: {delay: 1 us, jitter: 2 us}", "jitter: 2 us; allowed: at most the delay, 1 us"),
        ("from: own.yaml", "line 1, from: found 'own.yaml'; allowed: a profile that is not made"),
        ("from: nobody.yaml", "line 1, from: found 'nobody.yaml'; allowed: a file; there is no"),
        (
            SOURCES + "algorithms: {ring: {LL: {per_rank: 1 us}, source: a}}",
            "line 2, algorithms: found ring.LL.per_rank: 1 us; allowed: only of collnet",
        ),
        (
            SOURCES + "algorithms: {send: {LL: {call: 1 us}, source: a}}",
            "line 2, algorithms: found send.LL; allowed: send.Simple",
        ),
        ("[1]", "found a list; allowed: a mapping with the keys name, from"),
        ("host: {delay: 1 us", "own.yaml: 1 error in the cost profile"),
    ],
)
def test_errors_in_a_profile_name_file_line_key_and_remedy(text, expected, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_text(with_costs("own.yaml"), folder=tmp_path)
    assert str(file) in str(caught.value) and expected in str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        (with_costs("non"), "costs: found 'non'; allowed: h100-nvlink, h100-nvlink-graphs, "),
        (with_costs("3"), "costs: found 3; allowed: text, or a mapping {from: h100-nvlink"),
        (with_costs("{hots: {}}"), "costs.hots: unknown key; did you mean host?"),
        (
            changed("name: base", "name: base\ncosts: tofino-100g-dpdk"),
            "costs: host.delay (1 us), host.packet (75 ns), server.delay (1 us), server.packet"
            " (75 ns), switch.latency (400 ns), switch.values (64), switch.recirculation"
            " (100 Gbit/s): runtime mininet has real hosts",
        ),
        (
            with_costs("{switch: {values: 32}}"),
            "costs: a pass through a switch adds 32 values, values_per_packet is 64, and the"
            " profile says no switch.recirculation",
        ),
        (
            "topology: {kind: star, hosts: 3}\nsystem: ring\ncosts: h100-nvlink\njobs:\n"
            "  - {name: p, command: python x.py, workers: 2}\n",
            "costs: has costs of calls (algorithms or copy), and p is a program",
        ),
    ],
)
def test_what_cannot_be_honoured_is_an_error_that_names_it(text, expected):
    assert expected in message(text)


def test_real_hosts_honour_costs_of_calls():
    text = changed("name: base", "name: base\ncosts: h100-nvlink")
    assert load_text(text).costs.name == "h100-nvlink"


def test_rates_and_protocols_that_a_system_does_not_have():
    grid = SMALL.replace("{name: esa, window: 16}", "grid")
    with pytest.raises(UserError, match="those of system grid send at the rates of its plan"):
        costs_of(set_up(load_text(f"{grid}costs: h100-nvlink\n")).jobs[0]).rate_bps("h1")
    costs = costs_of(set_up(load_text(with_costs("{from: h100-nvlink, protocol: LL}"))).jobs[0])
    with pytest.raises(UserError, match="allowed with profile h100-nvlink-LL, .*collnet: Simple"):
        costs.times("all_reduce", 8)


def test_copies_and_further_passes_limit_rates():
    """Of two workers at 10 Gbit/s that share a port of 6: each has 3; for three passes half."""
    for values, recirculation, copy, expected in (
        (64, 6, "9 Gbit/s", 9),
        (32, 6, "9 Gbit/s", 3),
        (22, 6, "9 Gbit/s", 1.5),
        (64, 6, "2 Gbit/s", 2),
    ):
        costs = (
            f"{{switch: {{values: {values}, latency: 300 ns, recirculation: {recirculation} Gbit/s"
            "},"
            f" copy: {{bandwidth: {copy}}}}}"
        )
        experiment = load_text(with_costs(costs))
        found = costs_of(set_up(experiment).jobs[0]).rate_bps("h1")
        assert found == expected * 10**9
        assert experiment.virtual.switch_latency_ns == 300 * -(-64 // values)
    racks = SMALL.replace("{kind: star, hosts: 3}", "{kind: two_level, tors: 2, hosts: 4}")
    costs = "{switch: {values: 32, latency: 300 ns, recirculation: 6 Gbit/s}}"
    text = f"{racks}costs: {costs}\n".replace("workers: 2", "workers: 5")
    found = costs_of(set_up(load_text(text)).jobs[0]).rate_bps("h5")
    assert found == 6 * 10**9 // 4, "four workers share the port of the fuller rack"


def test_switches_that_only_forward_need_one_pass():
    ring = SMALL.replace("{name: esa, window: 16}", "ring").replace("memory: {aggregators: 8}", "")
    experiment = load_text(f"{ring}costs: {{switch: {{values: 8, latency: 300 ns}}}}\n")
    assert experiment.virtual.switch_latency_ns == 300


def test_a_network_that_shrinks_shrinks_costs_but_not_those_of_packets():
    costs = "{algorithms: {collnet: {Simple: {call: 10 us}}}, host: {delay: 5 us, packet: 40 ns}}"
    text = with_costs(costs, "scale_windows: yes\n").replace("0.0004", "0.1")
    platform = set_up(load_text(text)).platform
    assert platform.costs.algorithms.collnet.Simple.call_ns == 1000
    assert platform.virtual.worker_delay_ns == 500 and platform.virtual.worker_packet_time_ns == 40


def test_a_server_needs_time_for_packets_and_values():
    costs = "{server: {packet: 100 ns, per_1000_values: 1 us, cores: 2}, host: {packet: 31 ns}}"
    virtual = load_text(with_costs(costs)).virtual
    assert virtual.server_packet_time_ns == (100 + 64) // 2
    assert virtual.worker_packet_time_ns == 31
