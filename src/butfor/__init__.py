"""butfor: would the model have said the same, but for this feature?"""

from butfor import simulate, tabular
from butfor._explain import explain
from butfor._load import load
from butfor._progress import Progress
from butfor._version import __version__
from butfor.core import selection
from butfor.core.result import Result
from butfor.core.types import Guarantee, InputError, ModelError, ReachWarning, Subset

__all__ = [
    "Guarantee",
    "InputError",
    "ModelError",
    "Progress",
    "ReachWarning",
    "Result",
    "Subset",
    "__version__",
    "explain",
    "load",
    "selection",
    "simulate",
    "tabular",
]
