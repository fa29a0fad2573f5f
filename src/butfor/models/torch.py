"""A torch module as a black box: evaluation mode, no gradients, batches, back to numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.models.wrap import Wrapped, chunks, matrix, need, taken
from butfor.types import Array, Batch, InputError, ModelError


def torch_module(
    module: Any,
    *,
    device: object = None,
    batch_rows: int | None = None,
    preprocess: Callable[[Batch], object] | None = None,
    postprocess: Callable[[Any], object] | None = None,
    dtype: object = None,
    classes: tuple[object, ...] | None = None,
) -> Wrapped:
    """Wrap a module: in evaluation mode (every part gets its own mode back afterwards), without gradients.

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    device : torch.device or str, default=None
        Where the module is moved to, for good; None leaves it where it is.
    batch_rows : int, default=None
        Rows that go through at a time; None is all that come.
    preprocess : callable, default=None
        From a list of images or texts to a tensor or to a dict of the module's arguments.
    postprocess : callable, default=None
        From what the module returns to one row per input: `lambda logits: logits.softmax(-1)`. None takes a tensor as
        it is, of a tuple the first part, of a dict the "logits" or else the first.
    dtype : torch.dtype, default=None
        Of the tensor that rows become; None is that of the module's parameters.
    classes : tuple, default=None
        The names of the outputs.

    Returns
    -------
    Wrapped
        A model for `butfor.explain`.

    Examples
    --------
    >>> import torch
    >>> model = torch_module(torch.nn.Linear(3, 2), classes=("no", "yes"))
    >>> model(np.zeros((5, 3))).shape
    (5, 2)
    """
    torch = need("torch", "torch")
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"torch_module takes a torch.nn.Module, got {type(module).__name__}")
    if batch_rows is not None and batch_rows < 1:
        raise InputError(f"batch_rows must be at least 1, got {batch_rows}")
    if device is not None:
        module = module.to(device)
    return Wrapped(TorchCall(module, device, batch_rows, preprocess, postprocess, dtype), classes)


@dataclass(frozen=True)
class TorchCall:
    module: Any
    device: object
    batch_rows: int | None
    preprocess: Callable[[Batch], object] | None
    postprocess: Callable[[Any], object] | None
    dtype: object

    def __call__(self, batch: Batch) -> Array:
        torch = need("torch", "torch")
        spans = chunks(len(batch), self.batch_rows or max(len(batch), 1))
        training = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with torch.inference_mode():
                parts = [self._outputs(torch, taken(batch, *span)) for span in spans]
        finally:
            for part in training:  # some may have been frozen on purpose
                part.training = True
        return parts[0] if len(parts) == 1 else np.concatenate(parts)  # a lone number cannot be joined

    def _outputs(self, torch: Any, batch: Batch) -> Array:
        fed = self._tensor(torch, batch)
        outputs: Any = self.module(**fed) if isinstance(fed, Mapping) else self.module(fed)
        if self.postprocess:
            outputs = self.postprocess(outputs)
            if not isinstance(outputs, torch.Tensor):
                return np.asarray(outputs)
        if isinstance(outputs, Mapping):  # also what transformers return
            outputs = outputs["logits"] if "logits" in outputs else next(iter(outputs.values()), None)
        elif isinstance(outputs, tuple | list) and outputs:
            outputs = outputs[0]
        if not isinstance(outputs, torch.Tensor):
            raise ModelError(f"the module returned {type(outputs).__name__}, expected a tensor; give postprocess=")
        outputs = outputs.detach().cpu()
        narrow = outputs.dtype in (torch.bfloat16, torch.float16)  # numpy has no name for the first
        return np.asarray((outputs.float() if narrow else outputs).numpy())

    def _tensor(self, torch: Any, batch: Batch) -> Any:
        like = next(self.module.parameters(), None)
        device = self.device if self.device is not None or like is None else like.device
        if self.preprocess is not None:
            made = self.preprocess(batch)
            if isinstance(made, Mapping):  # what a tokenizer makes
                return {name: value.to(device) for name, value in made.items()}
            return torch.as_tensor(made).to(device)
        if isinstance(batch, list):
            raise ModelError(
                "a torch module takes tensors, not a list of images or texts; give torch_module preprocess="
            )
        floating = like is not None and like.dtype.is_floating_point and like.dtype
        dtype = self.dtype or floating or torch.float32
        return torch.tensor(matrix(batch, "torch_module"), dtype=dtype, device=device)  # a copy: the batch is not ours
