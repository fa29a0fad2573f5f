"""Tables: what to test in them and how to redraw it. `reference` is always what you compare against."""

from butfor.tabular.copula import copula
from butfor.tabular.empirical import empirical
from butfor.tabular.explain import auto
from butfor.tabular.forest import forest
from butfor.tabular.gaussian import gaussian
from butfor.tabular.neighbours import neighbours
from butfor.tabular.residual import residual
from butfor.tabular.splice import from_values

__all__ = [
    "auto",
    "copula",
    "empirical",
    "forest",
    "from_values",
    "gaussian",
    "neighbours",
    "residual",
]
