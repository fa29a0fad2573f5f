"""butfor: would the model have said the same, but for this feature?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from butfor import models, tabular
from butfor._version import __version__
from butfor.combine import combine
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import SamplerInfo
from butfor.explain import check_sampler, explain
from butfor.inference import selection
from butfor.load import load
from butfor.results.result import Result
from butfor.results.words import Guarantee, Note
from butfor.settings import RunOptions, Settings, few_shot, irt, osft, sequential
from butfor.types import InputError, ModelError, ReachWarning, Subset

if TYPE_CHECKING:
    from butfor import context, image, multimodal, plots, simulate, text
    from butfor.multimodal.plausible import plausible
    from butfor.plots.display import ExplanationDisplay
    from butfor.tabular.check import SamplerCheck
    from butfor.tabular.global_importance import global_importance
    from butfor.tabular.treatment import treatment
    from butfor.validation import Validation, validate

__all__ = [
    "ExplanationDisplay",
    "Guarantee",
    "InputError",
    "ModelError",
    "Note",
    "Progress",
    "ReachWarning",
    "Result",
    "RunOptions",
    "SamplerCheck",
    "SamplerInfo",
    "Settings",
    "Subset",
    "Validation",
    "__version__",
    "check_sampler",
    "combine",
    "context",
    "explain",
    "few_shot",
    "global_importance",
    "image",
    "irt",
    "load",
    "models",
    "multimodal",
    "osft",
    "plausible",
    "plots",
    "selection",
    "sequential",
    "simulate",
    "tabular",
    "text",
    "treatment",
    "validate",
]


LATER = {
    "ExplanationDisplay": "butfor.plots.display",
    "SamplerCheck": "butfor.tabular.check",
    "Validation": "butfor.validation",
    "global_importance": "butfor.tabular.global_importance",
    "plausible": "butfor.multimodal.plausible",
    "treatment": "butfor.tabular.treatment",
    "validate": "butfor.validation",
}


def __getattr__(name: str) -> object:
    """Load what a run on a table and the help do not need when it is first used."""
    if name in ("context", "image", "multimodal", "plots", "simulate", "text"):
        return import_module(f"butfor.{name}")
    if name in LATER:
        return getattr(import_module(LATER[name]), name)
    raise AttributeError(f"module 'butfor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
