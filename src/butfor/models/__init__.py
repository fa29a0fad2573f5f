"""Black boxes: anything that turns rows, images or texts into numbers."""

from importlib import import_module
from typing import TYPE_CHECKING

from butfor.models.wrap import Wrapped, wrap

if TYPE_CHECKING:
    from butfor.models.huggingface import hugging_face
    from butfor.models.language import openai, transformers
    from butfor.models.onnx import onnx_model
    from butfor.models.remote import ModelUnreachable, endpoint
    from butfor.models.torch import torch_module

__all__ = [
    "ModelUnreachable",
    "Wrapped",
    "endpoint",
    "hugging_face",
    "onnx_model",
    "openai",
    "torch_module",
    "transformers",
    "wrap",
]
FILES = {
    "ModelUnreachable": "remote",
    "endpoint": "remote",
    "hugging_face": "huggingface",
    "onnx_model": "onnx",
    "openai": "language",
    "torch_module": "torch",
    "transformers": "language",
}


def __getattr__(name: str) -> object:
    """Kinds of models are loaded when first asked for: a function of rows needs none of them."""
    if name in FILES:
        return getattr(import_module(f"butfor.models.{FILES[name]}"), name)
    raise AttributeError(f"module 'butfor.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
