"""Helpers of p4fabric's tests, and of tests of what builds on it.

networks     which machines cannot build networks, and what a test may not leave behind
topologies   small topologies
children     functions that a spawner's children call
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FABRIC = TESTS.parent
L3 = Path(__file__).parent / "data" / "l3.p4"  # a router with one table
