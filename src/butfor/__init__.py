"""butfor: would the model have said the same, but for this feature?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from butfor import models, tabular
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

if TYPE_CHECKING:
    from butfor import image, multimodal, simulate, text

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


def __getattr__(name: str) -> Any:
    """Images, texts and simulations are loaded when first asked for: a run on a table and the help need none."""
    if name in ("image", "multimodal", "simulate", "text"):
        return import_module(f"butfor.{name}")
    raise AttributeError(f"module 'butfor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
