"""Experiments whose links fail while two jobs run in a leaf-spine network."""

from __future__ import annotations

from tests.support.experiments import memory_line

SYSTEMS = {
    "esa": "{name: esa}",
    "esa-from-switch": "{name: esa, results_from: switch}",
    "atp": "{name: atp}",
    "a2tp": "{name: a2tp}",
    "switchml": "{name: switchml, window: 32}",
    "tree": "{name: tree, mode: quotas, window: 32}",
    "ps": "{name: ps}",
    "ring": "{name: ring}",
    "grid": "{name: grid, planner: grid-links}",
    "grid-two-level": "{name: grid, planner: two-level}",
    "grid-atp": "{name: grid, planner: nearest, memory: atp}",
}
_TEXT = """\
name: links
{runtime}topology: {{kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}}
links: {{bandwidth: {rate}, delay: {delay}}}
system: {system}
{memory}
timeout: {timeout}
jobs:
  - {{name: a, model: resnet18, workers: {workers}, iterations: {iterations}, scale: {scale_a},
      compute_scale: 0, placement: {place_a}}}
  - {{name: b, model: vgg11, workers: 2, iterations: {iterations}, scale: {scale_b},
      compute_scale: 0, placement: {place_b}}}
faults:
{faults}
"""


def text(system: str, *faults: str, virtual: bool = True) -> str:
    """An experiment file. Job a has workers at both leaves (s1, s2), job b too; the spines are s3
    and s4. Faults are YAML mappings. On Mininet, rates are a hundredth and times longer."""
    servers = system not in ("switchml", "tree", "ring")
    place_a = "{workers: [h1, h2, h5, h6]" + (", ps: h7}" if servers else "}")
    place_b = "{workers: [h3, h8]" + (", ps: h4}" if servers else "}")
    return _TEXT.format(
        runtime="runtime: virtual\n" if virtual else "",
        rate="1 Gbit/s" if virtual else "10 Mbit/s",
        delay="5 us" if virtual else "100 us",
        timeout="1 s" if virtual else "4 s",
        system=SYSTEMS[system],
        memory=memory_line(SYSTEMS[system], 256),
        workers=4,
        iterations=2 if virtual else 9,  # seconds, where a busy machine is late with a fault
        scale_a=0.005 if virtual else 0.004,
        scale_b=0.0005 if virtual else 0.0004,
        place_a=place_a,
        place_b=place_b,
        faults="\n".join(f"  - {fault}" for fault in faults) or "  []",
    )
