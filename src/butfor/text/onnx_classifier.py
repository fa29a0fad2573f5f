"""A classifier from an ONNX file that reads pieces of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from butfor.core.checks import whole
from butfor.core.types import Array, InputError, Ints, ModelError
from butfor.models.onnx_session import check_threads, open_session
from butfor.text.edit import check_texts
from butfor.text.models import Function, Outputs, Row, answers, scored, too_long
from butfor.text.tokens import Pieces, Tokens, tokens_of

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
    butfor.core.types.InputError: the ONNX file net.onnx does not exist; give the path of an ONNX file
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
