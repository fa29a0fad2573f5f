"""butfor: would the model have said the same, but for this feature?"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from butfor import models, tabular
from butfor._version import __version__
from butfor.core.draw.samplers import SamplerInfo
from butfor.core.result.global_result import GlobalResult
from butfor.core.result.result import Result
from butfor.core.select import rules as selection
from butfor.core.select.guarantees import Guarantee
from butfor.core.types import InputError, ModelError, ReachWarning, Subset
from butfor.explain import check_sampler, explain
from butfor.load import load
from butfor.run.procedure import few_shot, irt, osft, sequential
from butfor.run.progress import Progress
from butfor.run.settings import Settings

if TYPE_CHECKING:
    from butfor import image, multimodal, plots, simulate, text
    from butfor.multimodal.plausible import plausible
    from butfor.tabular.check_result import SamplerCheck
    from butfor.tabular.global_importance import global_importance
    from butfor.tabular.stream import explain_stream
    from butfor.tabular.streamed import StreamedResult

__all__ = [
    "GlobalResult",
    "Guarantee",
    "InputError",
    "ModelError",
    "Progress",
    "ReachWarning",
    "Result",
    "SamplerCheck",
    "SamplerInfo",
    "Settings",
    "StreamedResult",
    "Subset",
    "__version__",
    "check_sampler",
    "explain",
    "explain_stream",
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
]


LATER = {
    "SamplerCheck": "butfor.tabular.check_result",
    "StreamedResult": "butfor.tabular.streamed",
    "explain_stream": "butfor.tabular.stream",
    "global_importance": "butfor.tabular.global_importance",
    "plausible": "butfor.multimodal.plausible",
}


def __getattr__(name: str) -> object:
    """What a run on a table and the help do not need is loaded when it is first asked for."""
    if name in ("image", "multimodal", "plots", "simulate", "text"):
        return import_module(f"butfor.{name}")
    if name in LATER:
        return getattr(import_module(LATER[name]), name)
    raise AttributeError(f"module 'butfor' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
