"""Tables: what to test in them and how to redraw it. `reference` is always what you compare against."""

from butfor.tabular.auto import auto
from butfor.tabular.copula import copula
from butfor.tabular.empirical import empirical
from butfor.tabular.encoders import groups_from_encoder
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
    "groups_from_encoder",
    "neighbours",
    "residual",
]
