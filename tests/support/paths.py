"""Paths of the checkout's folders."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
P4 = ROOT / "p4"
DATA = ROOT / "tests" / "data"
GRID_EXAMPLE = ROOT / "topos" / "graphs" / "grid-example.txt"
