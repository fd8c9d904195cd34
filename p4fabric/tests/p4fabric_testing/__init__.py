"""Helpers of p4fabric's tests, and of tests of what builds on it.

networks     which machines cannot build networks, and what a test may not leave behind
topologies   small topologies
children     functions that a spawner's children call
topology_files    a network file with all sections, and topologies to import
virtual_networks  network files that run in virtual time
placed_tuples     tuples of arrays such as machines are
matrix            parameters of which a few are always tried
"""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FABRIC = TESTS.parent
ROOT = FABRIC.parent  # of the checkout
DATA = Path(__file__).parent / "data"
L3 = DATA / "l3.p4"  # a router with one table
L3_TNA = DATA / "l3_tna.p4"  # the same for Tofino
