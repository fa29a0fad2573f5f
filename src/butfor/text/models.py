"""Classifiers: a list of texts -> outputs (n, classes); a text that is longer than a model's limit is never cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from butfor.models import Wrapped, wrap
from butfor.models.huggingface import Classifier
from butfor.models.onnx import check_threads, open_session
from butfor.models.wrap import need
from butfor.text.segment import Tokens, check_texts, encodable, tokens_of
from butfor.types import Array, InputError, ModelError, reworded, whole

Outputs = NDArray[np.float32]  # (n, classes)
Row = Mapping[str, list[int]]  # the pieces of a text, as a network takes them
Function = Literal["softmax", "sigmoid", "none"]
BATCH_PIECES = 2**13  # pieces of the texts that a network gets at a time, padding included
# Families whose positions begin after the id of the padding
SHIFTED = ("roberta", "camembert", "xlm-roberta", "longformer", "mpnet", "data2vec-text", "xmod", "luke", "ernie_m")


def text_model(model: Any) -> Wrapped:
    """Wrap a model of texts: any callable, a Hugging Face pipeline, or the folder or name of such a model.

    >>> text_model(lambda texts: [len(text) for text in texts]).classes is None
    True
    """
    kinds = [kind.__module__ for kind in type(model).__mro__]
    if isinstance(model, Wrapped) and isinstance(model.call, Classifier):  # it would cut long texts
        model = huggingface_classifier(model.call.pipeline, function=model.call.function_to_apply)  # type: ignore[arg-type]
    elif isinstance(model, str | Path) or any(kind.startswith("transformers.pipelines") for kind in kinds):
        model = huggingface_classifier(model)
    elif "transformers.modeling_utils" in kinds:
        raise InputError(
            f"model is a bare {type(model).__name__} without its tokenizer; give "
            "butfor.text.huggingface_classifier(model, tokenizer)"
        )
    if isinstance(model, Wrapped):
        return model
    names = getattr(model, "classes", None) if callable(model) else None
    return wrap(model) if names is None else Wrapped(model, tuple(names))


def load_pretrained(
    kind: str, name: str, tokenizer: object, device: object, what: str, check: Callable[[Any], None] | None = None
) -> tuple[Any, Any]:
    """Load a model of transformers of the class `kind`, and a tokenizer unless given; `check` sees the config."""
    transformers = need("transformers", "hugging-face")  # code that comes with a model is never run
    with reworded(f"the {what} {name} cannot be loaded: ", (OSError, ValueError, ImportError)):
        if check is not None:
            check(transformers.AutoConfig.from_pretrained(name))
        model = getattr(transformers, kind).from_pretrained(name).eval()
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(name)
    return (model if device is None else model.to(device)), tokenizer


def piece_limit(model: Any, tokenizer: object) -> int | None:
    """Return the pieces that a model takes at a time, special ones included; None: any number."""
    config = model.config
    positions = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if positions is not None and str(getattr(config, "model_type", None)).startswith(SHIFTED):
        positions -= (getattr(config, "pad_token_id", None) or 0) + 1
    limits = [positions, getattr(tokenizer, "model_max_length", None)]
    return min((int(limit) for limit in limits if limit is not None and 0 < limit < 10**9), default=None)


@dataclass(frozen=True, eq=False)
class HuggingFaceClassifier:
    """A sequence classifier of transformers. Made by `huggingface_classifier`."""

    source: Any  # a name or folder, or a loaded model
    tokenizer_source: Any
    function: Function | None
    truncate: bool
    device: Any

    def __repr__(self) -> str:
        name = self.source if isinstance(self.source, str) else type(self._parts[0]).__name__
        return f"huggingface_classifier({name!r}{', truncate=True' if self.truncate else ''})"

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        if not isinstance(self.source, str):
            return self.source, self.tokenizer_source

        def check(config: Any) -> None:
            kinds = config.architectures or []
            if kinds and not any(kind.endswith("ForSequenceClassification") for kind in kinds):
                raise ValueError(f"it is a {kinds[0]}, expected a model for sequence classification")

        kind = "AutoModelForSequenceClassification"
        return load_pretrained(kind, self.source, self.tokenizer_source, self.device, "model", check)

    @cached_property
    def classes(self) -> tuple[str, ...] | None:
        config = self._parts[0].config
        labels = tuple(str(config.id2label[label]) for label in range(config.num_labels))
        if len(set(labels)) < len(labels):
            raise InputError(f"two of the model's labels have the same name: {list(labels)}; set model.config.id2label")
        return labels if len(labels) > 1 else None

    @cached_property
    def limit(self) -> int | None:
        return piece_limit(*self._parts)

    def unfit(self, item: str) -> str | None:
        return None if self.truncate else too_long(self._encoded([item])[0], self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        return answers(self._encoded(check_texts(texts)), self.limit, "the model", self._ask)

    def _encoded(self, texts: Sequence[str]) -> list[Row]:
        cut: dict[str, Any] = {"truncation": True, "max_length": self.limit} if self.truncate and self.limit else {}
        encoded = self._parts[1]([encodable(text) for text in texts], **({"truncation": False} | cut), verbose=False)
        return [{name: column[row] for name, column in encoded.items()} for row in range(len(texts))]

    def _ask(self, rows: list[Row]) -> Outputs:
        torch = need("torch", "hugging-face")
        model, tokenizer = self._parts
        if tokenizer.pad_token_id is None and len(rows) > 1:  # GPT-2 has no padding: one at a time
            return np.concatenate([self._ask([row]) for row in rows])
        single = {name: torch.tensor([values]) for name, values in rows[0].items()}
        batch = tokenizer.pad(rows, return_tensors="pt") if len(rows) > 1 else single
        model.eval()
        with torch.inference_mode():
            logits = model(**{name: value.to(model.device) for name, value in batch.items()}).logits
        kind = getattr(model.config, "problem_type", None)  # as a pipeline does with the logits of such a model
        several = kind == "multi_label_classification" or model.config.num_labels == 1
        usual = "none" if kind == "regression" else "sigmoid" if several else "softmax"
        return scored(logits.float().cpu().numpy(), self.function or usual)


def huggingface_classifier(
    model: Any,
    tokenizer: Any = None,
    *,
    function: Function | None = None,
    truncate: bool = False,
    device: object = None,
) -> HuggingFaceClassifier:
    """Wrap a sequence classifier of transformers: outputs stand in the order of the model's labels.

    A folder or name is loaded when first needed; code that comes with a model is never run.

    Parameters
    ----------
    model : pipeline, str, path or model
        A text-classification pipeline, a folder or name, or a model.
    tokenizer : tokenizer, optional
        The tokenizer of the model, where that is neither a pipeline nor has one in its folder.
    function : {"softmax", "sigmoid", "none"}, optional
        Applied to the logits; None does as a pipeline would.
    truncate : bool
        Cut texts with more pieces than the model takes, so that words after the cut cannot matter; else such texts are
        refused.
    device : str, optional
        The device of the model, such as "cuda".

    Returns
    -------
    HuggingFaceClassifier
        A function from a list of texts to outputs.

    Examples
    --------
    >>> huggingface_classifier(len)
    Traceback (most recent call last):
    butfor.types.InputError: huggingface_classifier takes a pipeline, a folder or name, or a model with its ...
    """
    if function not in (None, *get_args(Function)):
        raise InputError(f"function must be 'softmax', 'sigmoid', 'none' or None, got {function!r}")
    if isinstance(model, str | Path):
        return HuggingFaceClassifier(str(model), tokenizer, function, bool(truncate), device)
    if all(hasattr(model, name) for name in ("task", "model", "tokenizer")):  # a pipeline
        if model.task != "text-classification":
            raise InputError(f"the pipeline is for {model.task}, expected text-classification; wrap it in a function")
        if function is None:
            given = (getattr(model, "_postprocess_params", None) or {}).get("function_to_apply")
            name = given.value if isinstance(given, Enum) else given
            function = None if name is None else str(name).lower()  # type: ignore[assignment]
        model, tokenizer = model.model, tokenizer or model.tokenizer
    if tokenizer is None or getattr(getattr(model, "config", None), "num_labels", None) is None:
        raise InputError(
            "huggingface_classifier takes a pipeline, a folder or name, or a model with its tokenizer, got "
            f"{type(model).__name__}"
        )
    return HuggingFaceClassifier(model, tokenizer, function, bool(truncate), device)


def answers(rows: Sequence[Row], limit: int | None, whom: str, ask: Callable[[list[Row]], Array]) -> Outputs:
    """Return the outputs for all rows; one that is too long is refused.

    Rows are given to the model in batches of about the same length, with at most so many pieces, padding included.
    """
    for row in rows:
        if reason := too_long(row, limit):
            raise InputError(f"a text cannot be given to {whom}: {reason}")
    lengths = [len(row["input_ids"]) for row in rows]
    order = np.argsort(lengths, kind="stable").tolist()
    out: Array = np.zeros(0, np.float32)
    while order:
        batch = order[-max(1, BATCH_PIECES // max(1, lengths[order[-1]])) :]
        del order[-len(batch) :]
        outputs = np.asarray(ask([rows[row] for row in batch]))
        out = out if len(out) else np.zeros((len(rows), *outputs.shape[1:]), outputs.dtype)
        out[batch] = outputs
    return out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out


def too_long(row: Row, limit: int | None) -> str | None:
    """Return why a model cannot take a text; None if it can."""
    if limit is None or (pieces := len(row["input_ids"])) <= limit:
        return None
    return (
        f"it has {pieces} pieces and the model takes at most {limit}, so what stands after them would not be tested; "
        "shorten it, use on_error='skip', or truncate=True in the model"
    )


def scored(logits: Array, function: str) -> Array:
    """Return logits as probabilities, in their precision."""
    if function == "none":
        return logits
    if function == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-logits)))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


TYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


@dataclass(frozen=True, eq=False)
class OnnxTextClassifier:
    """A network in ONNX that reads pieces. Made by `onnx_text_classifier`."""

    path: Path
    tokens: Tokens
    classes: tuple[str, ...] | None
    limit: int | None
    function: Function
    threads: int | None

    def __repr__(self) -> str:
        return f"onnx_text_classifier({self.path.name!r})"

    @property
    def session(self) -> Any:
        return open_session(self.path, threads=self.threads, extra="text")

    def unfit(self, item: str) -> str | None:
        return too_long(self._rows([item])[0], self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        return answers(self._rows(check_texts(texts)), self.limit, self.path.name, self._ask)

    def _rows(self, texts: Sequence[str]) -> list[Row]:
        encoded = self.tokens.encode(texts)
        return [{"input_ids": p.ids, "attention_mask": [1] * len(p.ids), "token_type_ids": p.types} for p in encoded]

    def _ask(self, rows: list[Row]) -> Array:
        wanted = self.session.get_inputs()
        longest = max(1, *(len(row["input_ids"]) for row in rows))
        feeds = {}
        for entry in wanted:
            name = _meaning(entry.name, len(wanted))
            ids = np.full((len(rows), longest), self.tokens.pad if name == "input_ids" else 0, TYPES[entry.type])
            for line, row in zip(ids, rows, strict=True):
                line[: len(row[name])] = row[name]
            feeds[entry.name] = ids
        with reworded(f"{self.path.name} failed on {len(rows)} texts of {longest} pieces: ", by=ModelError):
            answer = np.asarray(self.session.run(None, feeds)[0])
        if self.function == "softmax" and (answer.ndim != 2 or answer.shape[1] < 2):
            raise InputError(f"{self.path.name} gives shape {answer.shape}: use function='none' or 'sigmoid'")
        return scored(answer, self.function)


def _meaning(name: str, inputs: int) -> str:
    """Return which of the three usual inputs an input of a network is, by the first part of its name that fits."""
    types, ids = "token_type_ids", "input_ids"
    known = {"mask": "attention_mask", "type": types, "segment": types, "id": ids, "token": ids}
    meanings = [meaning for part, meaning in known.items() if part in name.lower()]
    if not meanings and inputs > 1:
        raise InputError(f"the network's input {name!r} is none of input_ids, attention_mask, token_type_ids")
    return meanings[0] if meanings else "input_ids"


def onnx_text_classifier(
    path: str | Path,
    tokenizer: Any,
    *,
    classes: Sequence[str] | None = None,
    limit: int | None = None,
    function: Function = "none",
    threads: int | None = None,
) -> OnnxTextClassifier:
    """Load an ONNX file with the inputs input_ids, attention_mask and token_type_ids, or fewer; takes its first output.

    Parameters
    ----------
    path : str or path
        The ONNX file.
    tokenizer : tokenizer, str or path
        A `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its folder.
    classes : sequence of str, optional
        Names of the outputs.
    limit : int, optional
        Pieces that the network takes, if it has a limit: longer texts are refused, never cut.
    function : {"softmax", "sigmoid", "none"}
        Applied to the output; "none" where it does not hold logits.
    threads : int, optional
        Threads of the network; None is OMP_NUM_THREADS, else ONNX Runtime's default.

    Returns
    -------
    OnnxTextClassifier
        A function from a list of texts to outputs.

    Examples
    --------
    >>> onnx_text_classifier("net.onnx", "tokenizer.json")
    Traceback (most recent call last):
    butfor.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
    """
    file = Path(path).expanduser()
    session = open_session(file, threads=check_threads(threads), extra="text")
    if function not in get_args(Function):
        raise InputError(f"function must be 'softmax', 'sigmoid' or 'none', got {function!r}")
    most = None if limit is None else whole("limit", limit, 1)
    for entry in session.get_inputs():
        _meaning(entry.name, len(session.get_inputs()))
        if entry.type not in TYPES:
            raise InputError(f"the input {entry.name!r} of {file.name} is a {entry.type}, expected pieces as integers")
    names = None if classes is None else tuple(map(str, classes))
    return OnnxTextClassifier(file, tokens_of(tokenizer), names, most, function, threads)
