"""Classifiers: a list of texts -> outputs (n, classes); a text that is longer than a model's limit is never cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from butfor.models import Wrapped, wrap
from butfor.models.huggingface import Classifier
from butfor.models.onnx import check_threads, open_session
from butfor.models.wrap import need
from butfor.text.segment import check_texts, encodable
from butfor.text.tokens import Pieces, Tokens, load_pretrained, piece_limit, stated, tokens_of
from butfor.types import Array, InputError, Ints, ModelError, whole

Outputs = NDArray[np.float32]  # (n, classes)
Row = Mapping[str, list[int]]  # the pieces of a text, as a network takes them
Function = Literal["softmax", "sigmoid", "none"]
BATCH_PIECES = 2**13  # pieces of the texts that a network gets at a time, filled up ones included


@runtime_checkable
class NamesClasses(Protocol):
    """A model that knows what its outputs are called."""

    classes: Sequence[Any] | None


@runtime_checkable
class Pipeline(Protocol):
    """A pipeline of transformers."""

    task: str
    model: Any
    tokenizer: Any


def text_model(model: Any) -> Wrapped:
    """A model of texts: Hugging Face pipelines, and folders or names of such models, as texts go into them.

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
    names = model.classes if callable(model) and isinstance(model, NamesClasses) else None
    return wrap(model) if names is None else Wrapped(model, tuple(names))


@dataclass(frozen=True, eq=False)
class HuggingFaceClassifier:
    """A sequence classifier of transformers. Made by `huggingface_classifier`."""

    source: Any  # a name or folder, or what was loaded
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
        kind = "AutoModelForSequenceClassification"
        return load_pretrained(kind, self.source, self.tokenizer_source, self.device, "model", _check_config)

    @cached_property
    def classes(self) -> tuple[str, ...] | None:
        """The model's labels, in the order of its outputs."""
        config = self._parts[0].config
        labels = tuple(str(config.id2label[place]) for place in range(config.num_labels))
        if len(set(labels)) < len(labels):
            raise InputError(f"two of the model's labels have the same name: {list(labels)}; set model.config.id2label")
        return labels if len(labels) > 1 else None

    @cached_property
    def limit(self) -> int | None:
        """Pieces that the model can take, special ones included; None: any number."""
        return piece_limit(*self._parts)

    def unfit(self, item: str) -> str | None:
        """Why the model cannot take a text, in words; None if it can."""
        return None if self.truncate else too_long(self._encoded([item])[0], self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        return answers(self._encoded(check_texts(texts)), self.limit, "the model", self._ask)

    def _encoded(self, texts: Sequence[str]) -> list[Row]:
        cut: dict[str, Any] = {"truncation": True, "max_length": self.limit} if self.truncate and self.limit else {}
        encoded = self._parts[1]([encodable(text) for text in texts], **({"truncation": False} | cut), verbose=False)
        return [{name: column[place] for name, column in encoded.items()} for place in range(len(texts))]

    def _ask(self, rows: list[Row]) -> Outputs:
        torch = need("torch", "hugging-face")

        model, tokenizer = self._parts
        if tokenizer.pad_token_id is None and len(rows) > 1:  # GPT-2 has no padding: one at a time
            return np.concatenate([self._ask([row]) for row in rows])
        alone = {name: torch.tensor([own]) for name, own in rows[0].items()}
        batch = tokenizer.pad(rows, return_tensors="pt") if len(rows) > 1 else alone
        model.eval()
        with torch.inference_mode():
            logits = model(**{name: value.to(model.device) for name, value in batch.items()}).logits
        return scored(logits.float().cpu().numpy(), self.function or _usual(model.config))


def _check_config(config: Any) -> None:
    kinds = config.architectures or []
    if kinds and not any(kind.endswith("ForSequenceClassification") for kind in kinds):
        raise ValueError(f"it is a {kinds[0]}, expected a model for sequence classification")


def _usual(config: Any) -> Function:
    """What a pipeline would do with the logits of such a model."""
    kind = stated(config, "problem_type")
    several = kind == "multi_label_classification" or config.num_labels == 1
    return "none" if kind == "regression" else "sigmoid" if several else "softmax"


def huggingface_classifier(
    model: Any,
    tokenizer: Any = None,
    *,
    function: Function | None = None,
    truncate: bool = False,
    device: object = None,
) -> HuggingFaceClassifier:
    """A sequence classifier of transformers: outputs stand in the order of the model's labels.

    A folder or name is loaded when it is first asked; code that comes with a model is never run.

    Parameters
    ----------
    model : a text-classification pipeline, a folder or name, or a model.
    tokenizer : of the model, where that is neither a pipeline nor has one in its folder.
    function : "softmax", "sigmoid" or "none" (logits); None does as a pipeline would.
    truncate : texts with more pieces than the model takes are cut, and words after the cut can then not matter; else
        they are refused.
    device : of the model, such as "cuda".

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
    if isinstance(model, Pipeline):
        if model.task != "text-classification":
            raise InputError(f"the pipeline is for {model.task}, expected text-classification; wrap it in a function")
        function = function or _function_of(model)
        model, tokenizer = model.model, tokenizer or model.tokenizer
    if tokenizer is None or stated(stated(model, "config"), "num_labels") is None:
        raise InputError(
            "huggingface_classifier takes a pipeline, a folder or name, or a model with its tokenizer, got "
            f"{type(model).__name__}"
        )
    return HuggingFaceClassifier(model, tokenizer, function, bool(truncate), device)


def _function_of(pipeline: Pipeline) -> Function | None:
    """What a pipeline was made to do with its logits, if that was said."""
    given = (stated(pipeline, "_postprocess_params") or {}).get("function_to_apply")
    name = given.value if isinstance(given, Enum) else given
    return None if name is None else str(name).lower()  # type: ignore[return-value]


def answers(rows: Sequence[Row], limit: int | None, whom: str, ask: Callable[[list[Row]], Array]) -> Outputs:
    """The outputs for all rows; one that is too long is refused."""
    for row in rows:
        if reason := too_long(row, limit):
            raise InputError(f"a text cannot be given to {whom}: {reason}")
    lengths = [len(row["input_ids"]) for row in rows]
    found = by_length(lengths, lambda places: ask([rows[place] for place in places]), BATCH_PIECES)
    return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found


def too_long(row: Row, limit: int | None) -> str | None:
    """Why a model cannot take a text, in words."""
    pieces = len(row["input_ids"])
    if limit is None or pieces <= limit:
        return None
    return (
        f"it has {pieces} pieces and the model takes at most {limit}, so what stands after them would not be tested; "
        "shorten it, use on_error='skip', or truncate=True in the model"
    )


def by_length(lengths: Sequence[int], ask: Callable[[list[int]], Array], most: int) -> Array:
    """Answers to rows, asked in batches of about the same length with at most so many pieces, filled up ones included.

    `ask` is given the places of some rows; all answers come back in the order of the rows.
    """
    order = sorted(range(len(lengths)), key=lambda place: lengths[place])
    out: Array | None = None
    while order:
        some = order[-max(1, most // max(1, lengths[order[-1]])) :]
        del order[-len(some) :]
        found = np.asarray(ask(some))
        if out is None:
            out = np.zeros((len(lengths), *found.shape[1:]), found.dtype)
        out[some] = found
    return np.zeros(0, np.float32) if out is None else out


def scored(logits: Array, function: str) -> Array:
    """Logits as probabilities, in their own precision."""
    if function == "none":
        return logits
    if function == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-logits)))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


TYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}

MEANINGS = {  # what the name of an input has in it, the first that fits -> which input it is
    "mask": "attention_mask",
    "type": "token_type_ids",
    "segment": "token_type_ids",
    "id": "input_ids",
    "token": "input_ids",
}


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
        """The network, opened once per process."""
        return open_session(self.path, threads=self.threads, extra="text")

    def unfit(self, item: str) -> str | None:
        """Why the network cannot take a text, in words; None if it can."""
        return too_long(_row(self.tokens.encode([item])[0]), self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        rows = [_row(pieces) for pieces in self.tokens.encode(check_texts(texts))]
        return answers(rows, self.limit, self.path.name, self._ask)

    def _ask(self, rows: list[Row]) -> Array:
        wanted = self.session.get_inputs()
        longest = max(1, *(len(row["input_ids"]) for row in rows))
        feeds = {
            entry.name: self._filled(rows, _meaning(entry.name, len(wanted)), longest).astype(TYPES[entry.type])
            for entry in wanted
        }
        try:
            answer = np.asarray(self.session.run(None, feeds)[0])
        except Exception as error:  # ONNX Runtime has errors of its own kinds
            why = " ".join(str(error).split())[:300]
            raise ModelError(f"{self.path.name} failed on {len(rows)} texts of {longest} pieces: {why}") from error
        if self.function == "softmax" and (answer.ndim != 2 or answer.shape[1] < 2):
            raise InputError(f"{self.path.name} gives shape {answer.shape}: use function='none' or 'sigmoid'")
        return scored(answer, self.function)

    def _filled(self, rows: list[Row], name: str, longest: int) -> Ints:
        out = np.full((len(rows), longest), self.tokens.pad if name == "input_ids" else 0, np.int64)
        for line, row in zip(out, rows, strict=True):
            line[: len(row[name])] = row[name]
        return out


def _row(pieces: Pieces) -> Row:
    return {"input_ids": pieces.ids, "attention_mask": [1] * len(pieces.ids), "token_type_ids": pieces.types}


def _meaning(name: str, inputs: int) -> str:
    """Which of the three usual inputs an input of a network is."""
    found = [meaning for part, meaning in MEANINGS.items() if part in name.lower()]
    if not found and inputs > 1:
        raise InputError(f"the network's input {name!r} is none of input_ids, attention_mask, token_type_ids")
    return found[0] if found else "input_ids"


def onnx_text_classifier(
    path: str | Path,
    tokenizer: Any,
    *,
    classes: Sequence[str] | None = None,
    limit: int | None = None,
    function: Function = "none",
    threads: int | None = None,
) -> OnnxTextClassifier:
    """A classifier from an ONNX file whose inputs are input_ids and, where it has them, attention_mask, token_type_ids.

    Its first output is taken.

    Parameters
    ----------
    path : of the ONNX file.
    tokenizer : a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its
        folder.
    classes : what the outputs are called.
    limit : pieces that the network takes, if it has a limit: longer texts are refused, never cut.
    function : "softmax" or "sigmoid" where the output holds logits, "none" where it does not.
    threads : of the network; None is OMP_NUM_THREADS, else as many as ONNX Runtime likes.

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
