"""A Hugging Face classification pipeline as a black box: one output per label, in the order of the model's labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from butfor.models.wrap import Wrapped, is_frame, need
from butfor.types import Batch, Floats, InputError, ModelError, one_of, reworded

TASKS = {"ForSequenceClassification": "text-classification", "ForImageClassification": "image-classification"}


def hugging_face(
    model: object, *, batch_rows: int = 32, function_to_apply: str | None = None, device: object = None
) -> Wrapped:
    """Wrap a text-classification or image-classification pipeline, or the folder or name of its model.

    Outputs stand in the order of the model's labels (`config.id2label`). Texts come as a list of strings, cut where the
    model's tokenizer ends; images as a list of uint8 arrays (height, width, 3) or (height, width). Code that comes with
    a model is never run (`trust_remote_code` stays off).

    Parameters
    ----------
    model : pipeline, str or Path
        The pipeline, or the folder or name of a model.
    batch_rows : int, default=32
        Inputs that go through the network at a time.
    function_to_apply : {"softmax", "sigmoid", "none"}, default=None
        "none" gives logits; None leaves it to the pipeline.
    device : torch.device or str, default=None
        Where torch runs a model that is named.

    Returns
    -------
    Wrapped
        A model for `butfor.explain`, with an output for each label.

    Examples
    --------
    >>> hugging_face(len)
    Traceback (most recent call last):
    butfor.types.InputError: hugging_face takes a pipeline or the folder or name of a model, got ...
    """
    pipeline: Any = _loaded(str(model), device) if isinstance(model, str | Path) else model
    try:
        task, config = pipeline.task, pipeline.model.config
    except AttributeError:
        kind = type(model).__name__
        raise InputError(f"hugging_face takes a pipeline or the folder or name of a model, got {kind}") from None
    if task not in PREPARED:
        raise InputError(
            f"the pipeline is for {task}, expected one of {', '.join(PREPARED)}; wrap others in a function"
        )
    one_of("function_to_apply", function_to_apply, ("softmax", "sigmoid", "none", None))
    labels = tuple(config.id2label[k] for k in range(config.num_labels))
    if len(set(labels)) < len(labels):
        raise InputError(f"two of the model's labels have the same name: {list(labels)}; set model.config.id2label")
    return Wrapped(Classifier(pipeline, labels, batch_rows, function_to_apply), labels)


def _loaded(name: str, device: object) -> Any:
    transformers = need("transformers", "hugging-face")
    with reworded(f"the model {name} cannot be loaded: ", (OSError, ValueError)):
        config = transformers.AutoConfig.from_pretrained(name)
        kinds = [task for kind in config.architectures or [] for end, task in TASKS.items() if kind.endswith(end)]
        if not kinds:
            raise ValueError(f"it is a {config.architectures}, expected a model for text or image classification")
        return transformers.pipeline(kinds[0], model=name, device=device)


@dataclass(frozen=True)
class Classifier:
    pipeline: Any
    labels: tuple[str, ...]
    batch_rows: int
    function_to_apply: str | None

    def __call__(self, batch: Batch) -> Floats:
        if is_frame(batch):
            raise ModelError("a Hugging Face pipeline takes a list of texts or images, got a table")
        inputs, options = PREPARED[self.pipeline.task](list(batch))
        if self.function_to_apply is not None:
            options["function_to_apply"] = self.function_to_apply
        answers = self.pipeline(inputs, top_k=len(self.labels), batch_size=self.batch_rows, **options)
        scores = [{one["label"]: float(one["score"]) for one in answer} for answer in answers]  # sorted by score
        return np.array([[row[label] for label in self.labels] for row in scores])


def _texts(batch: list[Any]) -> tuple[list[str], dict[str, Any]]:
    for text in batch:
        if not isinstance(text, str):
            raise ModelError(f"a text-classification pipeline takes strings, got {type(text).__name__}")
    return [str(text) for text in batch], {"truncation": True}


def _images(batch: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    image = need("PIL.Image", "hugging-face")
    for array in batch:
        known = isinstance(array, np.ndarray)
        if not known or array.dtype != np.uint8 or array.ndim not in (2, 3):
            shape = f" of {array.dtype}, shape {array.shape}" if known else ""
            raise ModelError(f"an image-classification pipeline takes uint8 arrays, got {type(array).__name__}{shape}")
    return [image.fromarray(np.ascontiguousarray(array)).convert("RGB") for array in batch], {}


PREPARED: dict[str, Callable[[list[Any]], tuple[list[Any], dict[str, Any]]]] = {
    "text-classification": _texts,
    "image-classification": _images,
}
