"""Black boxes: anything that turns rows, images or texts into numbers."""

from butfor.models.huggingface import hugging_face
from butfor.models.onnx import onnx_model
from butfor.models.remote import ModelUnreachable, endpoint
from butfor.models.torch import torch_module
from butfor.models.wrap import Wrapped, wrap

__all__ = ["ModelUnreachable", "Wrapped", "endpoint", "hugging_face", "onnx_model", "torch_module", "wrap"]
