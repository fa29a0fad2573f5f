"""butfor: would the model have said the same, but for this feature?"""

from butfor import image, models, multimodal, simulate, tabular, text
from butfor._check import SamplerCheck, check_sampler
from butfor._explain import explain
from butfor._global import global_importance
from butfor._load import load
from butfor._plausible import plausible
from butfor._progress import Progress
from butfor._version import __version__
from butfor.core import selection
from butfor.core.global_result import GlobalResult
from butfor.core.result import Result
from butfor.core.types import Guarantee, InputError, ModelError, ReachWarning, Subset

__all__ = [
    "GlobalResult",
    "Guarantee",
    "InputError",
    "ModelError",
    "Progress",
    "ReachWarning",
    "Result",
    "SamplerCheck",
    "Subset",
    "__version__",
    "check_sampler",
    "explain",
    "global_importance",
    "image",
    "load",
    "models",
    "multimodal",
    "plausible",
    "selection",
    "simulate",
    "tabular",
    "text",
]
