"""Figures that a test or a doctest opens are closed after it: pyplot warns of the 21st."""

import sys

import pytest

collect_ignore = [f"src/butfor/compat/{name}.py" for name in ("shap", "shapash")]  # looking at them imports these


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
