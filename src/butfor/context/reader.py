"""A small causal network that looks codes up in its context, in NumPy: the passage its answer rests on is known.

A line is read by a causal convolution and two layers of neurons; the last line then attends to all earlier ones, or to
nothing. It is trained by training/train_reader.py on the prompts of `butfor.simulate.contexts`. The states of a line do
not depend on other lines, so that they are computed once and kept: the same bit for bit in any prompt.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from butfor.context.tokens import END, START, encode, lines
from butfor.types import Floats, InputError, whole

WEIGHTS = Path(__file__).parent / "weights" / "reader.npz"
HEADS = 3
LONGEST = 8  # tokens of an answer
CACHED = 4096  # lines, about 10 KB each
Float32s = NDArray[np.float32]


def small_reader(temperature: float = 0.0) -> SmallReader:
    """Return the shipped network that looks codes up in its context.

    Parameters
    ----------
    temperature : float
        0: the likeliest token each time; above: answers are sampled.

    Returns
    -------
    SmallReader
        A model with `answer` and `score`, as `butfor.context.explain` takes it.

    Examples
    --------
    >>> reader = small_reader()
    >>> reader.answer(["The gate code of Lisbon is 4417.\\nQuestion: What is the gate code of Lisbon?\\nAnswer:"])
    ['4417']
    """
    return SmallReader(temperature)


class SmallReader:
    """Answers questions from the passages of a prompt, and scores answers. Made by `small_reader`."""

    def __init__(self, temperature: float = 0.0) -> None:
        if not isinstance(temperature, int | float | np.number) or not 0 <= float(temperature) < math.inf:
            raise InputError(f"temperature must be a number of at least 0, got {temperature!r}")
        self.temperature = float(temperature)
        self._network = _network()

    @property
    def identity(self) -> str:
        """Name of the model and its settings, by which runs tell it from others."""
        return f"small reader, temperature {self.temperature:g}"

    def __repr__(self) -> str:
        return f"<SmallReader: {len(self._network.words)} words, temperature {self.temperature:g}>"

    def __reduce__(self) -> tuple[type[SmallReader], tuple[float]]:
        return SmallReader, (self.temperature,)

    def answer(self, prompts: Sequence[str], seeds: Sequence[int] | None = None) -> list[str]:
        """Return an answer to each prompt, which ends in "Question: ..." and "Answer:".

        Parameters
        ----------
        prompts : sequence of str
            Any texts; words that are not in the vocabulary share 16 tokens.
        seeds : sequence of int, optional
            One for each prompt, 0 by default; used if the temperature is above 0. The same prompt and seed give the
            same answer; different prompts are sampled independently of each other.

        Returns
        -------
        list of str

        Examples
        --------
        >>> small_reader().answer(["Question: What is two plus three?\\nAnswer:"])
        ['five']
        """
        texts = _texts("prompts", prompts)
        numbers = [0] * len(texts) if seeds is None else [whole("seeds", seed, 0) for seed in seeds]
        if len(numbers) != len(texts):
            raise InputError(f"answer needs one seed for each prompt, got {len(numbers)} for {len(texts)} prompts")
        return [self._answer(text, seed) for text, seed in zip(texts, numbers, strict=True)]

    def _answer(self, prompt: str, seed: int) -> str:
        network = self._network
        past, question = network.read(prompt)
        rng = np.random.default_rng([seed, crc32(prompt.encode("utf-8", "replace"))])
        tokens: list[int] = []
        while len(tokens) < LONGEST:
            logits = network.logits((*question, *tokens), 1, past)[0]
            if self.temperature:
                logits = logits / self.temperature + rng.gumbel(size=len(logits))  # Gumbel-max: a draw of the softmax
            token = int(logits.argmax())
            if token == END:
                break
            tokens.append(token)
        return " ".join(network.words[token] for token in tokens).replace(" ##", "").strip()

    def score(self, prompts: Sequence[str], answers: Sequence[str]) -> Floats:
        """Return the log-probability of each answer after its prompt: the sum over its tokens, at temperature 1.

        Parameters
        ----------
        prompts, answers : sequences of str
            As many answers as prompts. An empty answer has log-probability 0.

        Returns
        -------
        array of float64, (n,)

        Examples
        --------
        >>> prompt = "The gate code of Lisbon is 4417.\\nQuestion: What is the gate code of Lisbon?\\nAnswer:"
        >>> right, wrong = small_reader().score([prompt, prompt], ["4417", "4418"])
        >>> bool(right > wrong)
        True
        """
        texts, given = _texts("prompts", prompts), _texts("answers", answers)
        if len(texts) != len(given):
            raise InputError(f"score needs one answer for each prompt, got {len(given)} for {len(texts)} prompts")
        return np.array([self._score(*pair) for pair in zip(texts, given, strict=True)], dtype=np.float64)

    def _score(self, prompt: str, answer: str) -> float:
        reply = encode(" ".join(lines(answer)), self._network.numbers)
        if not reply:
            return 0.0
        past, question = self._network.read(prompt)
        logits = self._network.logits((*question, *reply[:-1]), len(reply), past)
        peak = logits.max(1, keepdims=True)
        log_total = peak[:, 0] + np.log(np.exp(logits - peak).sum(1))
        return float((logits[np.arange(len(reply)), reply] - log_total).sum())


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name} must be a list of texts, got {texts!r:.80}")
    return list(texts)


@lru_cache(maxsize=1)
def _network() -> _Network:
    with np.load(WEIGHTS, allow_pickle=False) as arrays:
        return _Network({name: arrays[name] for name in arrays.files})


class _Network:
    """The weights, with the gains of the norms multiplied into the matrices that follow them."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.words: list[str] = json.loads(str(arrays["vocabulary"]))
        self.numbers = {word: number for number, word in enumerate(self.words)}
        weights = {name: array.astype(np.float32) for name, array in arrays.items() if name != "vocabulary"}
        self.width = weights["embedding"].shape[1]
        self.embedding = weights["embedding"] * np.float32(self.width**0.5)
        self.convolution = self.embedding @ weights["convolution"]  # (distance, word, width): a table
        scale = np.float32((self.width / HEADS) ** -0.5)
        self.query = weights["gain"][:, None] * weights["q"] * scale
        self.keys = weights["gain"][:, None] * np.concatenate([weights["k"], weights["v"]], axis=1)
        self.out = weights["o"]
        self.neurons = [
            (weights[f"gain{k}"][:, None] * weights[f"up{k}"], weights[f"bias{k}"], weights[f"down{k}"])
            for k in range(4)
        ]
        self.unembed = np.ascontiguousarray((weights["embedding"] * weights["last"]).T)
        self.line = lru_cache(CACHED)(self._line)
        self.tokens = lru_cache(CACHED)(lambda line: tuple(encode(line, self.numbers)))

    def read(self, prompt: str) -> tuple[Float32s, tuple[int, ...]]:
        """Return the keys and values (heads, tokens, ...) of all lines but the last, and the tokens of the last."""
        *earlier, question = [self.tokens(line) for line in lines(prompt)] or [()]
        none = np.zeros((1, 2 * self.width), np.float32)  # attention may go to nothing
        past = np.concatenate([none, *map(self.line, earlier)])
        return past.reshape(len(past), 2 * HEADS, -1).transpose(1, 0, 2), question

    def _line(self, tokens: tuple[int, ...]) -> Float32s:
        """Return the keys and values of a line, (tokens, 2 * width)."""
        return np.asarray(_norm(self._states(tokens, len(tokens) + 1)) @ self.keys)

    def _states(self, tokens: tuple[int, ...], last: int) -> Float32s:
        """Return the states of the last tokens of a line: each has seen the line up to itself."""
        ids = np.array([START, *tokens])
        at = np.arange(len(ids) - last, len(ids))
        x = self.embedding[ids[at]]
        for back, table in enumerate(self.convolution[: len(ids)]):
            seen = at >= back
            x[seen] += table[ids[at[seen] - back]]
        return self._through(self._through(x, 0), 1)

    def logits(self, question: tuple[int, ...], last: int, past: Float32s) -> Floats:
        """Return the logits (last, words) of the token after each of the last ones of the question."""
        x = self._states(question, last)
        query = (_norm(x) @ self.query).reshape(last, HEADS, -1).transpose(1, 0, 2)
        weights = query @ past[:HEADS].transpose(0, 2, 1)
        weights = np.exp(weights - weights.max(-1, keepdims=True))
        mixed = weights @ past[HEADS:] / weights.sum(-1, keepdims=True)
        x = x + mixed.transpose(1, 0, 2).reshape(last, -1) @ self.out
        x = self._through(self._through(x, 2), 3)
        return np.asarray(_norm(x) @ self.unembed, np.float64)

    def _through(self, x: Float32s, layer: int) -> Float32s:
        up, bias, down = self.neurons[layer]
        return np.asarray(x + np.maximum(_norm(x) @ up + bias, 0) @ down)


def _norm(x: Float32s) -> Float32s:
    size = np.sqrt(np.einsum("ij,ij->i", x, x) / np.float32(x.shape[1]) + np.float32(1e-5))
    return np.asarray(x / size[:, None])
