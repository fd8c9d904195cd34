"""Network tests leave nothing behind, and each one is checked for it."""

from p4fabric_testing.networks import nothing_left_behind

__all__ = ["nothing_left_behind"]
