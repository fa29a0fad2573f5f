"""Classifiers: a list of texts -> outputs (n, classes); a text that is longer than a model's limit is never cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from butfor.core.types import InputError, Ints, ModelError
from butfor.models import Wrapped, wrap
from butfor.models.huggingface import Classifier
from butfor.models.optional import need
from butfor.text.edit import check_texts, encodable
from butfor.text.tokens import Tokens, tokens_of

Outputs = NDArray[np.float32]  # (n, classes)
Function = Literal["softmax", "sigmoid", "none"]
TYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
BATCH_PIECES = 2**13  # pieces of the texts that a network gets at a time, filled up ones included
# Families whose positions begin after the id of the padding
SHIFTED = ("roberta", "camembert", "xlm-roberta", "longformer", "mpnet", "data2vec-text", "xmod", "luke", "ernie_m")


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
    names = getattr(model, "classes", None)
    return Wrapped(model, tuple(names)) if names is not None and callable(model) else wrap(model)


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
        return _loaded(self.source, self.tokenizer_source, self.device)

    @cached_property
    def classes(self) -> tuple[str, ...] | None:
        config = self._parts[0].config
        labels = tuple(str(config.id2label[place]) for place in range(config.num_labels))
        if len(set(labels)) < len(labels):
            raise InputError(f"two of the model's labels have the same name: {list(labels)}; set model.config.id2label")
        return labels if len(labels) > 1 else None

    @cached_property
    def limit(self) -> int | None:
        """Pieces that the model can take, special ones included; None: any number."""
        return piece_limit(*self._parts)

    def unfit(self, text: str) -> str | None:
        """Why the model cannot take `text`, in words; None if it can."""
        pieces = len(self._encoded([text])[0]["input_ids"]) if not self.truncate else 0
        return too_long(pieces, self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        rows = self._encoded(check_texts(texts))
        for row in rows:
            if reason := too_long(len(row["input_ids"]), self.limit):
                raise InputError(f"a text cannot be given to the model: {reason}")
        out: Outputs = by_length(rows, self._ask)
        return out

    def _encoded(self, texts: Sequence[str]) -> list[dict[str, list[int]]]:
        cut: dict[str, Any] = {"truncation": True, "max_length": self.limit} if self.truncate and self.limit else {}
        encoded = self._parts[1]([encodable(text) for text in texts], **({"truncation": False} | cut), verbose=False)
        return [{name: column[place] for name, column in encoded.items()} for place in range(len(texts))]

    def _ask(self, rows: list[dict[str, list[int]]]) -> Outputs:
        import torch

        model, tokenizer = self._parts
        if tokenizer.pad_token_id is None and len(rows) > 1:  # GPT-2 has no padding: one at a time
            return np.concatenate([self._ask([row]) for row in rows])
        batch = tokenizer.pad(rows, return_tensors="pt") if len(rows) > 1 else _alone(rows[0])
        model.eval()
        with torch.inference_mode():
            logits = model(**{name: value.to(model.device) for name, value in batch.items()}).logits
        return self._scored(logits.float().cpu().numpy())

    def _scored(self, logits: Outputs) -> Outputs:
        config = self._parts[0].config
        function = self.function
        if function is None:
            kind = getattr(config, "problem_type", None)
            several = kind == "multi_label_classification" or config.num_labels == 1
            function = "none" if kind == "regression" else "sigmoid" if several else "softmax"
        scores: Outputs = scored(logits, function)
        return scores[:, 0] if config.num_labels == 1 else scores


def _alone(row: Mapping[str, list[int]]) -> dict[str, Any]:
    import torch

    return {name: torch.tensor([value]) for name, value in row.items()}


def huggingface_classifier(
    model: Any,
    tokenizer: Any = None,
    *,
    function: Function | None = None,
    truncate: bool = False,
    device: Any = None,
) -> HuggingFaceClassifier:
    """A sequence classifier of transformers: a text-classification pipeline, a folder or name, or model and tokenizer.

    Outputs stand in the order of the model's labels; `function` is "softmax", "sigmoid" or "none" (logits), and None
    does as a pipeline would. Texts with more pieces than the model takes are refused; `truncate=True` cuts them, and
    words after the cut can then not matter. A folder or name is loaded when it is first asked; code that comes with a
    model is never run.

    >>> huggingface_classifier(len)
    Traceback (most recent call last):
    butfor.core.types.InputError: huggingface_classifier takes a pipeline, a folder or name, or a model with its ...
    """
    if function not in (None, "softmax", "sigmoid", "none"):
        raise InputError(f"function must be 'softmax', 'sigmoid', 'none' or None, got {function!r}")
    if isinstance(model, str | Path):
        return HuggingFaceClassifier(str(model), tokenizer, function, bool(truncate), device)
    if hasattr(model, "task") and hasattr(model, "model"):
        if model.task != "text-classification":
            raise InputError(f"the pipeline is for {model.task}, expected text-classification; wrap it in a function")
        asked = getattr(model, "_postprocess_params", {}).get("function_to_apply")
        function = function or (str(getattr(asked, "value", asked)).lower() if asked is not None else None)  # type: ignore[assignment]
        model, tokenizer = model.model, tokenizer or model.tokenizer
    if not hasattr(model, "config") or tokenizer is None or not hasattr(model.config, "num_labels"):
        raise InputError(
            "huggingface_classifier takes a pipeline, a folder or name, or a model with its tokenizer, got "
            f"{type(model).__name__}"
        )
    return HuggingFaceClassifier(model, tokenizer, function, bool(truncate), device)


def _loaded(name: str, tokenizer: Any, device: Any) -> tuple[Any, Any]:
    transformers = need("transformers", "hugging-face")
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        kinds = config.architectures or []
        if kinds and not any(kind.endswith("ForSequenceClassification") for kind in kinds):
            raise ValueError(f"it is a {kinds[0]}, expected a model for sequence classification")
        model = transformers.AutoModelForSequenceClassification.from_pretrained(name)
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"the model {name} cannot be loaded: {' '.join(str(error).split())}") from error
    return (model if device is None else model.to(device)), tokenizer


def piece_limit(model: Any, tokenizer: Any) -> int | None:
    """Pieces that a model of transformers can take at a time, special ones included."""
    config = model.config
    places = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if places is not None and str(getattr(config, "model_type", "")).startswith(SHIFTED):
        places -= (getattr(config, "pad_token_id", 0) or 0) + 1
    said = getattr(tokenizer, "model_max_length", None)
    limits = [int(limit) for limit in (places, said) if limit is not None and 0 < limit < 10**9]
    return min(limits) if limits else None


def too_long(pieces: int, limit: int | None) -> str | None:
    if limit is None or pieces <= limit:
        return None
    return (
        f"it has {pieces} pieces and the model takes at most {limit}, so what stands after them would not be tested; "
        "shorten it, use on_error='skip', or truncate=True in the model"
    )


def by_length(rows: Sequence[Any], ask: Callable[[list[Any]], Any]) -> Any:
    """Answers to rows, asked in batches of rows of about the same length; they come back in the order of the rows."""
    lengths = [len(row["input_ids"]) for row in rows]
    order = sorted(range(len(rows)), key=lambda place: lengths[place])
    out: Any = None
    while order:
        some = order[-max(1, BATCH_PIECES // max(1, lengths[order[-1]])) :]
        del order[-len(some) :]
        answers = np.asarray(ask([rows[place] for place in some]))
        if out is None:
            out = np.zeros((len(rows), *answers.shape[1:]), answers.dtype)
        out[some] = answers
    return np.zeros(0, np.float32) if out is None else out


def scored(logits: Any, function: str) -> Any:
    """Logits as probabilities, in their own precision."""
    if function == "none":
        return logits
    if function == "sigmoid":
        return 1 / (1 + np.exp(-logits))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "session"}

    @cached_property
    def session(self) -> Any:
        runtime = need("onnxruntime", "text")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self.threads or 0
        options.log_severity_level = 3
        try:
            return runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has errors of its own kinds
            told = " ".join(str(error).split())[:300]
            raise InputError(f"{self.path} is not an ONNX file that can be opened: {told}") from error

    def unfit(self, text: str) -> str | None:
        """Why the network cannot take `text`, in words; None if it can."""
        return too_long(len(self.tokens.encode([text])[0].ids), self.limit)

    def __call__(self, texts: Sequence[str]) -> Outputs:
        rows = [
            {"input_ids": row.ids, "attention_mask": [1] * len(row.ids), "token_type_ids": row.types}
            for row in self.tokens.encode(check_texts(texts))
        ]
        for row in rows:
            if reason := too_long(len(row["input_ids"]), self.limit):
                raise InputError(f"a text cannot be given to {self.path.name}: {reason}")
        out: Outputs = by_length(rows, self._ask)
        return out

    def _ask(self, rows: list[dict[str, list[int]]]) -> Outputs:
        wanted = self.session.get_inputs()
        longest = max(1, *(len(row["input_ids"]) for row in rows))
        feeds = {
            entry.name: self._filled(rows, _meaning(entry.name, len(wanted)), longest).astype(TYPES[entry.type])
            for entry in wanted
        }
        try:
            answer = np.asarray(self.session.run(None, feeds)[0])
        except Exception as error:
            told = " ".join(str(error).split())[:300]
            raise ModelError(f"{self.path.name} failed on {len(rows)} texts of {longest} pieces: {told}") from error
        if self.function == "softmax" and (answer.ndim != 2 or answer.shape[1] < 2):
            raise InputError(f"{self.path.name} gives shape {answer.shape}: use function='none' or 'sigmoid'")
        scores: Outputs = scored(answer, self.function)
        return scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores

    def _filled(self, rows: list[dict[str, list[int]]], name: str, longest: int) -> Ints:
        out = np.full((len(rows), longest), self.tokens.pad if name == "input_ids" else 0, np.int64)
        for line, row in zip(out, rows, strict=True):
            line[: len(row[name])] = row[name]
        return out


def _meaning(name: str, inputs: int) -> str:
    """Which of the three usual inputs an input of a network is."""
    lower = name.lower()
    if "mask" in lower:
        return "attention_mask"
    if "type" in lower or "segment" in lower:
        return "token_type_ids"
    if "id" in lower or "token" in lower or inputs == 1:
        return "input_ids"
    raise InputError(f"the network's input {name!r} is none of input_ids, attention_mask, token_type_ids")


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

    `tokenizer` is a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or the path of a tokenizer.json or its
    folder. The first output is taken, through `function` if it holds logits. `limit` is the number of pieces that the
    network takes, if it has one: longer texts are refused, never cut.

    >>> onnx_text_classifier("net.onnx", "tokenizer.json")
    Traceback (most recent call last):
    butfor.core.types.InputError: the ONNX file net.onnx does not exist
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"the ONNX file {file} {'is a directory' if file.is_dir() else 'does not exist'}")
    if function not in ("softmax", "sigmoid", "none"):
        raise InputError(f"function must be 'softmax', 'sigmoid' or 'none', got {function!r}")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InputError(f"limit must be a whole number of at least 1, or None, got {limit!r}")
    made = OnnxTextClassifier(
        file, tokens_of(tokenizer), None if classes is None else tuple(map(str, classes)), limit, function, threads
    )
    for entry in made.session.get_inputs():
        _meaning(entry.name, len(made.session.get_inputs()))
        if entry.type not in TYPES:
            raise InputError(f"the input {entry.name!r} of {file.name} is a {entry.type}, expected pieces as integers")
    return made
