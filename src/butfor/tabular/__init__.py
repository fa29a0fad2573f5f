"""Tables: what to test in them and how to redraw it. `reference` is always what you compare against."""

from butfor.tabular.copula import copula
from butfor.tabular.empirical import empirical
from butfor.tabular.gaussian import gaussian
from butfor.tabular.splice import from_values

__all__ = ["copula", "empirical", "from_values", "gaussian"]
