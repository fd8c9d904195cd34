"""The ring switch: its runs in virtual time are short, and few samples are enough for them. Their
packets are held against the contract of the wire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.budget import Budget

SAMPLES = 100  # of a switch's memory; by default runs take ten times as many, for their pictures


@pytest.fixture(scope="module", autouse=True)
def few_samples() -> Iterator[int]:
    """Yields the usual number."""
    from testbed.simulate import simulation, world
    from tests.support import wire_tap

    build = world.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "build", lambda *parts: wire_tap.watch(build(*parts)))
        usual = simulation.MAX_SAMPLES
        patch.setattr(simulation, "MAX_SAMPLES", SAMPLES)
        yield usual


@pytest.fixture
def usual_samples(few_samples, monkeypatch) -> None:
    monkeypatch.setattr("testbed.simulate.simulation.MAX_SAMPLES", few_samples)


@pytest.fixture
def budget(request: pytest.FixtureRequest) -> Budget:
    """Of a property: a few seconds, minutes in ./test --all."""
    return Budget(240.0 if request.config.getoption("--slow") else 6.0)
