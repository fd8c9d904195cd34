"""The table of claims, made from docs/figures.md and docs/experiments.md."""

from __future__ import annotations

from tests.support import docs
from tests.support.paths import ROOT


def test_every_claim_has_all_that_the_table_of_claims_tells():
    hooks = docs.site_hooks()
    found = hooks.all_claims()
    assert not {f"{each.page}, {each.name}": each.missing for each in found if each.missing}
    # Nothing is claimed elsewhere: each figure and each experiment on Mininet has its row.
    assert {each.name for each in found if each.page == "figures.md"} == {
        path.stem for path in (ROOT / "experiments" / "figures").glob("*.yaml")
    }
    assert {each.name for each in found if each.page == "experiments.md"} == {
        "compare",
        "memory",
        "loss",
    }
    for each in found:
        assert docs.how(docs.plain(each.command)), each.command
    table = hooks.claims.page(found)
    assert table.count("\n| [") == len(found)
    assert all(each.claim in table and f"`{each.command}`" in table for each in found)


def test_a_claim_is_read_from_its_section():
    section = """
Tolerance: none here, but
a | elsewhere.

## first

Claim: It is so. Not more.

    ina figure first        # a remark

Minutes on 2 cores: 8.1, of which 2 alone. Result: not run yet. With more: not run yet.

## second

Claim: It is not so.

    sudo ina sweep experiments/loss.yaml

Minutes on 2 cores: 3. Result (means):

| a | b |

So the claim holds
by half. More of it.

Tolerance: 5 %.

## third

No claim.
"""
    claims = docs.site_hooks().claims
    first, second = claims.claims("p.md", section)
    assert (first.claim, first.command) == ("It is so", "ina figure first")
    assert (first.minutes, first.outcome) == ("8.1, of which 2 alone", "Not run yet")
    assert first.tolerance == "None here, but a | elsewhere" and not first.missing
    assert (second.outcome, second.tolerance) == ("The claim holds by half", "5 %")
    assert "but a \\| elsewhere" in claims.page([first])
    assert claims.claims("p.md", "## x\n\nClaim: Bare.\n")[0].missing == [
        *("command", "minutes", "outcome", "tolerance")
    ]
