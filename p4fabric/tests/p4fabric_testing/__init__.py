"""What the tests of p4fabric and of what builds on it use."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
FABRIC = TESTS.parent
DATA = Path(__file__).parent / "data"
