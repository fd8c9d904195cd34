"""For a conftest.py: `from p4engine_testing.load import pytest_addoption` loads the plugin `rings`.

Several conftest.py below one root may do so. (`pytest_plugins` would be shorter, but pytest allows
it in one place only.)
"""

from __future__ import annotations

import pytest

PLUGIN = "p4engine_testing.rings"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.has_plugin(PLUGIN):
        pluginmanager.import_plugin(PLUGIN)
