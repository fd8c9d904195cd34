"""All tests of the engine know the plugin `p4engine_testing.rings`."""

from p4engine_testing.load import pytest_addoption

__all__ = ["pytest_addoption"]
