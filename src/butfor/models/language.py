"""Language models as black boxes for `butfor.context`: in process by transformers, or behind a server of text.

A prompt is a text or a list of chat messages. Both kinds of model give answers and, where they can, the log-probability
of a given answer: the sum over its tokens, given the prompt.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from butfor.models.remote import Endpoint, in_order
from butfor.models.wrap import need, one_line
from butfor.types import Floats, InputError, ModelError, one_of, whole

Prompt = str | Sequence[dict[str, Any]]
Api = Literal["completions", "chat", "llama.cpp"]
OnAnswer = Callable[[int, Any], None]  # takes the row of a prompt, and what came of it
MOST_BYTES = 16_000_000  # of one answer of a server
FORCED = 1000.0  # logit bias: greedy decoding takes this token
CHARACTERS = 4  # of a token, about
KEY = "OPENAI_API_KEY"


class Usage:
    """Calls and tokens so far; safe from many threads."""

    def __init__(self, calls: int = 0, prompt_tokens: int = 0, completion_tokens: int = 0) -> None:
        self.calls, self.prompt_tokens, self.completion_tokens = calls, prompt_tokens, completion_tokens
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"Usage({self.calls}, {self.prompt_tokens}, {self.completion_tokens})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Usage, (self.calls, self.prompt_tokens, self.completion_tokens)

    def add(self, calls: int, prompt_tokens: int, completion_tokens: int) -> None:
        with self._lock:
            self.calls += calls
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens


def _checked(prompts: Sequence[Prompt], chat: bool, **others: Sequence[Any] | None) -> list[Prompt]:
    """Return the prompts after a look at their form; of `others` there must be one for each."""
    if isinstance(prompts, str):
        raise InputError("prompts must be a list, got one text; put it in a list")
    for prompt in prompts:
        if isinstance(prompt, str):
            continue
        fine = isinstance(prompt, list | tuple) and len(prompt) > 0
        if not fine or not all(isinstance(one, dict) and {"role", "content"} <= one.keys() for one in prompt):
            raise InputError("a prompt must be a text or a list of messages with role and content, got another thing")
        if not chat:
            raise InputError(
                "this model takes texts, got chat messages; use a model with a chat template or api='chat'"
            )
    for name, values in others.items():
        if values is not None and len(values) != len(prompts):
            raise InputError(f"{name} must be one for each of the {len(prompts)} prompts, got {len(values)}")
    return list(prompts)


def _decoding(max_tokens: int, temperature: float, stop: str | Sequence[str] | None) -> tuple[str, ...]:
    whole("the number of tokens of an answer", max_tokens, 1)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature < 100:
        raise InputError(f"temperature must be a number of at least 0, got {temperature!r}")
    texts = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if not all(isinstance(text, str) and text for text in texts):
        raise InputError(f"stop must be a text or a list of texts, got {stop!r}")
    return texts


def transformers(
    model: Any,
    tokenizer: Any,
    *,
    max_new_tokens: int = 32,
    temperature: float = 0.0,
    stop: str | Sequence[str] | None = None,
    batch_size: int = 8,
) -> TransformersModel:
    """Wrap a causal language model of transformers and its tokenizer.

    A text is continued as it stands; messages go through the tokenizer's chat template. Prompts that begin alike are
    evaluated together, the shared beginning once. Models in half precision are given one prompt at a time, without
    sharing: there, rounding would let an answer depend on its company. The model is put into evaluation mode.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A model with a language head, such as `AutoModelForCausalLM`.
    tokenizer : transformers.PreTrainedTokenizerBase
        Its tokenizer.
    max_new_tokens : int, default=32
        Longest answer.
    temperature : float, default=0.0
        0 is greedy; above it, answers are drawn with the seeds that come with the prompts.
    stop : str or list of str, default=None
        Texts before which an answer ends.
    batch_size : int, default=8
        Prompts that go through the network at a time.

    Returns
    -------
    TransformersModel
        With `answer`, `score`, `tokens`, `usage` and `identity`.

    Examples
    --------
    >>> transformers(len, None)
    Traceback (most recent call last):
    butfor.types.InputError: transformers takes a causal language model and its tokenizer, got builtin_function_or_...
    """
    if not hasattr(model, "generation_config") or not callable(tokenizer):
        kinds = f"{type(model).__name__} and {type(tokenizer).__name__}"
        raise InputError(f"transformers takes a causal language model and its tokenizer, got {kinds}")
    texts = _decoding(max_new_tokens, temperature, stop)
    whole("batch_size", batch_size, 1)
    model.eval()
    digest = hashlib.sha256(str(getattr(tokenizer, "chat_template", None)).encode())
    for name, weights in model.named_parameters():
        flat = weights.detach().flatten()
        digest.update(f"{name} {tuple(weights.shape)} {weights.dtype}".encode())
        digest.update(flat[:: max(1, len(flat) // 64)].float().cpu().numpy().tobytes())  # a sample tells models apart
    settings = {"max_tokens": max_new_tokens, "temperature": float(temperature), "stop": texts}
    who = {"transformers": type(model).__name__, "weights": digest.hexdigest()[:16]}
    identity = json.dumps(who | settings, sort_keys=True)
    return TransformersModel(model, tokenizer, max_new_tokens, float(temperature), texts, batch_size, identity)


@dataclass(frozen=True)
class TransformersModel:
    """The model that `transformers` wraps."""

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    max_new_tokens: int
    temperature: float
    stop: tuple[str, ...]
    batch_size: int
    identity: str
    usage: Usage = field(default_factory=Usage, compare=False)
    scores: bool = True

    @property
    def chat(self) -> bool:
        return bool(getattr(self.tokenizer, "chat_template", None))

    def tokens(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def answer(self, prompts: Sequence[Prompt], seeds: Sequence[int] | None = None) -> list[str]:
        """Return one answer for each prompt; `seeds` (0 where none are given) matter where temperature > 0."""
        torch = need("torch", "torch")
        checked = _checked(prompts, self.chat, seeds=seeds)
        ids = [self._ids(*self._rendered(prompt), self.max_new_tokens) for prompt in checked]
        answers = [""] * len(ids)
        with torch.no_grad():
            for rows, prefix in self._groups(ids, [len(row) - 1 for row in ids]):
                generators = [torch.Generator().manual_seed(int(seeds[i]) if seeds else 0) for i in rows]
                for i, text in zip(rows, self._continued([ids[i] for i in rows], prefix, generators), strict=True):
                    answers[i] = text
        return answers

    def score(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> Floats:
        """Return the log-probability of each answer given its prompt, (n,)."""
        torch = need("torch", "torch")
        checked = _checked(prompts, self.chat, answers=answers)
        starts, rows = [], []
        for prompt, answer in zip(checked, answers, strict=True):
            text, special = self._rendered(prompt)
            start, joint = self._ids(text, special, 0), self._ids(text + answer, special, 0)
            if joint[: len(start)] != start:  # the border falls inside a token: the answer is encoded by itself
                joint = start + self.tokenizer(answer, add_special_tokens=False)["input_ids"]
            starts.append(len(start))
            rows.append(joint)
        scores = np.zeros(len(rows))
        with torch.no_grad():
            for group, prefix in self._groups(rows, [start - 1 for start in starts]):
                longest = max(len(rows[i]) - starts[i] for i in group)
                logits, _ = self._call([rows[i] for i in group], prefix, longest + 1)
                table = torch.log_softmax(logits.double(), dim=-1)
                for k, i in enumerate(group):
                    n = len(rows[i]) - starts[i]
                    chosen = torch.tensor(rows[i][starts[i] :], device=table.device, dtype=torch.long)
                    if n:
                        scores[i] = float(table[k, -1 - n : -1].gather(1, chosen[:, None]).sum())
                self.usage.add(len(group), sum(len(rows[i]) for i in group), 0)
        return scores

    def _rendered(self, prompt: Prompt) -> tuple[str, bool]:
        """Return the text of a prompt, and whether special tokens are to be added to it."""
        if isinstance(prompt, str):
            return prompt, True
        return str(self.tokenizer.apply_chat_template(list(prompt), tokenize=False, add_generation_prompt=True)), False

    def _ids(self, text: str, special: bool, more: int) -> list[int]:
        ids: list[int] = list(self.tokenizer(text, add_special_tokens=special)["input_ids"])
        if not ids:
            first = getattr(self.tokenizer, "bos_token_id", None)
            first = getattr(self.tokenizer, "eos_token_id", None) if first is None else first
            if first is None:
                raise InputError("a prompt is empty, and the tokenizer has no token to begin with; expected some text")
            ids = [first]
        most = getattr(self.model.config, "max_position_embeddings", None)
        if most is not None and len(ids) + more > most:
            raise InputError(
                f"a prompt and its answer take {len(ids) + more} tokens, the model at most {most}; shorten it"
            )
        return ids

    def _groups(self, rows: list[list[int]], caps: list[int]) -> Iterator[tuple[list[int], tuple[int, Any]]]:
        """Yield batches of rows that begin alike, with the length and the cache of what they share."""
        torch = need("torch", "torch")
        exact = self.model.dtype not in (torch.float32, torch.float64)
        order, size = sorted(range(len(rows)), key=rows.__getitem__), 1 if exact else self.batch_size
        trunk: list[int] = []
        cache: Any = None
        for at in range(0, len(order), size):
            group = order[at : at + size]
            common = _common(rows[group[0]], rows[group[-1]])  # sorted: all between share it
            shared = min(common, *(caps[i] for i in group))
            later = order[at + size : at + size + 1]  # a single row shares only with those that come
            if exact or shared < 1 or (len(group) == 1 and not later and not trunk):
                yield group, (0, None)
                continue
            kept = min(_common(trunk, rows[group[0]]), shared)
            if cache is not None and kept < len(trunk):
                cache = copy.deepcopy(cache) if kept else None
                if cache is not None:
                    cache.crop(kept - len(trunk))  # negative: so many are removed
            if shared > kept or cache is None:
                trunk, past = rows[group[0]][:shared], cache if kept else None
                cache = self._call([trunk], (kept, past), 1)[1]
                layers = {type(one).__name__ for one in getattr(cache, "layers", None) or ()}
                if type(cache).__name__ != "DynamicCache" or layers != {"DynamicLayer"}:
                    trunk, cache = [], None  # sliding windows and recurrent states cannot be cut and copied
            else:
                trunk = trunk[:kept]
            if cache is None:
                yield group, (0, None)
                continue
            repeated = copy.deepcopy(cache)
            repeated.batch_repeat_interleave(len(group))
            yield group, (shared, repeated)

    def _call(self, rows: list[list[int]], prefix: tuple[int, Any], keep: int) -> tuple[Any, Any]:
        """Return logits of the last `keep` places (n, keep, vocabulary) and the cache; rows are padded on the left."""
        torch, (before, past) = need("torch", "torch"), prefix
        rest = [row[before:] for row in rows]
        padding = [max(map(len, rest)) - len(row) for row in rest]
        ids = torch.tensor([[row[0]] * n + row for row, n in zip(rest, padding, strict=True)])
        mask = torch.tensor([[1] * before + [0] * n + [1] * len(row) for row, n in zip(rest, padding, strict=True)])
        return self._step(ids, mask, past, keep)

    def _step(self, ids: Any, mask: Any, past: Any, keep: int) -> tuple[Any, Any]:
        accepted = inspect.signature(self.model.forward).parameters
        places = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        options: dict[str, Any] = {"attention_mask": mask, "position_ids": places}
        options = {name: value.to(self.model.device) for name, value in options.items() if name in accepted}
        if "logits_to_keep" in accepted:
            options["logits_to_keep"] = keep
        output = self.model(input_ids=ids.to(self.model.device), past_key_values=past, use_cache=True, **options)
        return output.logits[:, -keep:], getattr(output, "past_key_values", None)

    def _continued(self, rows: list[list[int]], prefix: tuple[int, Any], generators: list[Any]) -> list[str]:
        """Return the answers to a batch of prompts, token by token."""
        torch = need("torch", "torch")
        ends = self.model.generation_config.eos_token_id
        ends = {*(ends if isinstance(ends, list | tuple) else [ends]), getattr(self.tokenizer, "eos_token_id", None)}
        logits, past = self._call(rows, prefix, 1)
        width, added = max(map(len, rows)), [list[int]() for _ in rows]
        # padding stands behind the shared prefix
        mask = torch.tensor([[1] * prefix[0] + [0] * (width - len(row)) + [1] * (len(row) - prefix[0]) for row in rows])
        texts: list[str | None] = [None] * len(rows)
        for _ in range(self.max_new_tokens):
            picked = self._picked(logits[:, -1], generators)
            for k, token in enumerate(picked):
                if texts[k] is None:
                    if token in ends:
                        texts[k] = self._text(rows[k], added[k])
                        continue
                    added[k].append(token)
                    text = self._text(rows[k], added[k])
                    if any(stop in text for stop in self.stop):
                        texts[k] = text
            if all(text is not None for text in texts) or max(map(len, added)) == self.max_new_tokens:
                break
            mask = torch.cat([mask, torch.ones((len(rows), 1), dtype=mask.dtype)], dim=1)
            if past is None:  # a model without a cache sees everything anew
                logits, _ = self._call([row + new for row, new in zip(rows, added, strict=True)], (0, None), 1)
            else:
                logits, past = self._step(torch.tensor(picked)[:, None], mask, past, 1)
        self.usage.add(len(rows), sum(map(len, rows)), sum(map(len, added)))
        finished = [self._text(rows[k], added[k]) if ended is None else ended for k, ended in enumerate(texts)]
        return [one[: min([one.find(stop) for stop in self.stop if stop in one], default=len(one))] for one in finished]

    def _picked(self, logits: Any, generators: list[Any]) -> list[int]:
        torch = need("torch", "torch")
        if self.temperature == 0:
            return [int(token) for token in logits.argmax(dim=-1)]
        levels = torch.softmax(logits.double().cpu() / self.temperature, dim=-1).cumsum(-1)
        draws = [torch.rand(1, generator=one, dtype=torch.float64) for one in generators]  # one for a token, by itself
        return [
            min(int(torch.searchsorted(row, draw * row[-1])), len(row) - 1)
            for row, draw in zip(levels, draws, strict=True)
        ]

    def _text(self, row: list[int], added: list[int]) -> str:
        """Return the text that the tokens add to their prompt: alone, some tokenizers drop its first space."""
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        before, after = self.tokenizer.decode(row, **options), self.tokenizer.decode(row + added, **options)
        return str(after[len(before) :] if after.startswith(before) else self.tokenizer.decode(added, **options))


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def openai(
    url: str,
    *,
    model: str | None = None,
    api: Api = "completions",
    key: str = KEY,
    max_tokens: int = 32,
    temperature: float = 0.0,
    stop: str | Sequence[str] | None = None,
    concurrency: int = 4,
    timeout: float = 60.0,
    retries: int = 4,
) -> ServedModel:
    """Wrap a language model behind a server that speaks OpenAI's protocol, or llama.cpp's.

    Lost connections, slow answers, 429 and 5xx are tried again, with growing pauses or those that the server asks for,
    for at most `timeout * (retries + 1)` seconds. Redirects are refused.

    Parameters
    ----------
    url : str
        `http://host:port/v1`; for llama.cpp the root, `http://host:port`.
    model : str, default=None
        The name of the model at the server.
    api : {"completions", "chat", "llama.cpp"}, default="completions"
        "chat" gives answers only. "completions" scores answers where the server echoes prompts with log-probabilities
        (vLLM). "llama.cpp" is its native protocol, which scores answers, too.
    key : str, default="OPENAI_API_KEY"
        The name of the environment variable with the key; no key is sent where it is not set.
    max_tokens : int, default=32
        Longest answer.
    temperature : float, default=0.0
        0 is greedy.
    stop : str or list of str, default=None
        Texts before which an answer ends.
    concurrency : int, default=4
        Requests that are under way at a time.
    timeout : float, default=60.0
        Seconds to wait for one whole answer.
    retries : int, default=4
        Times that a request is sent again.

    Returns
    -------
    ServedModel
        With `answer`, `score`, `tokens`, `usage` and `identity`.

    Examples
    --------
    >>> openai("http://localhost:8000/v1", model="m", api="chat").scores
    False
    """
    one_of("api", api, ("completions", "chat", "llama.cpp"))
    texts = _decoding(max_tokens, temperature, stop)
    whole("concurrency", concurrency, 1)
    whole("retries", retries, 0)
    if not timeout > 0:
        raise InputError(f"timeout must be a number of seconds above 0, got {timeout}")
    if not isinstance(key, str) or not key.isidentifier():
        raise InputError(
            "key must be the name of an environment variable, such as 'OPENAI_API_KEY', not the key itself"
        )
    if key != KEY and key not in os.environ:  # it may be a key, and is not repeated
        raise InputError("the environment has no variable of the name that key= gives; set it, or leave key= out")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise InputError(
            "the url must be http://host:port/v1, without a user, password or query; a key belongs in the environment "
            "variable that key= names"
        )
    address = url.rstrip("/").removesuffix("/chat/completions").removesuffix("/completions")
    address = address.removesuffix("/v1") if api == "llama.cpp" else address
    need("httpx", "endpoint")
    server = Endpoint(
        url=address,
        timeout=timeout,
        patience=timeout * (retries + 1),
        concurrency=concurrency,
        most_bytes=MOST_BYTES,
        key=key,
        retries=retries,
        fewer="a smaller max_tokens=",
    )
    return ServedModel(server, model, api, max_tokens, float(temperature), texts)


@dataclass(frozen=True)
class ServedModel:
    """The model that `openai` wraps. The key is read from the environment at each request and stored nowhere."""

    endpoint: Endpoint
    model: str | None
    api: Api
    max_tokens: int
    temperature: float
    stop: tuple[str, ...]
    usage: Usage = field(default_factory=Usage, compare=False)
    _seen: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)  # what the server has shown

    @property
    def chat(self) -> bool:
        return self.api != "completions"

    @property
    def identity(self) -> str:
        decoding = {"max_tokens": self.max_tokens, "temperature": self.temperature, "stop": self.stop}
        who = {"url": self.endpoint.shown, "model": self.model, "api": self.api}
        return json.dumps(who | decoding, sort_keys=True)

    @property
    def scores(self) -> bool:
        """Whether it can score; a server of completions is asked once whether it echoes prompts."""
        if self.api == "completions" and "scores" not in self._seen:
            try:
                self.score(["One two"], [" three"])
            except NoEcho:
                self._seen["scores"] = False
        return self._seen.get("scores", self.api == "llama.cpp")

    def tokens(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return -(-len(text) // CHARACTERS)

    def answer(
        self, prompts: Sequence[Prompt], seeds: Sequence[int] | None = None, on_answer: OnAnswer | None = None
    ) -> list[str]:
        """Return one answer for each prompt; `seeds` are sent where temperature > 0, `on_answer` gets each at once."""
        checked = _checked(prompts, self.chat, seeds=seeds)
        sent = [None] * len(checked) if seeds is None or self.temperature == 0 else list(map(int, seeds))
        return self._each(self._answer, list(zip(checked, sent, strict=True)), on_answer)

    def score(self, prompts: Sequence[Prompt], answers: Sequence[str], on_answer: OnAnswer | None = None) -> Floats:
        """Return the log-probability of each answer given its prompt, (n,).

        A token on the border of prompt and answer counts as the answer's where the server splits the text.
        """
        if self.api == "chat":
            raise InputError(
                "api='chat' gives no log-probabilities of a given answer; use 'completions' or 'llama.cpp'"
            )
        pairs = list(zip(_checked(prompts, self.chat, answers=answers), answers, strict=True))
        one_score = self._forced if self.api == "llama.cpp" else self._echoed
        return np.array(self._each(one_score, pairs, on_answer), dtype=np.float64)

    def _each(
        self, call: Callable[..., Any], parts: Sequence[tuple[Any, Any]], on_answer: OnAnswer | None
    ) -> list[Any]:
        """Return a result for each part; sorted requests keep the server's cache of prefixes warm."""
        order, stop = sorted(range(len(parts)), key=lambda i: json.dumps(parts[i][0])), Event()

        def one(i: int) -> Any:
            made = call(*parts[i], stop)
            if on_answer is not None:
                on_answer(i, made)
            return made

        try:
            results = in_order(one, order, self.endpoint.concurrency, stop)
        except ModelError as error:
            failed = type(error)(self.endpoint.masked(str(error)))
        else:
            by_row = dict(zip(order, results, strict=True))
            return [by_row[i] for i in range(len(parts))]
        raise failed  # outside of `except`: no request, and no frame that knows the key, hangs behind it

    def _answer(self, prompt: Prompt, seed: int | None, stop: Event) -> str:
        body: dict[str, Any] = {"temperature": self.temperature}
        body |= {} if seed is None else {"seed": seed}
        body |= {"stop": list(self.stop)} if self.stop else {}
        if self.api == "llama.cpp":  # its defaults cut the distribution
            plain = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "cache_prompt": True, "n_predict": self.max_tokens}
            tokens = self._tokenized(self._text(prompt, stop), stop)
            got = self._post("/completion", body | plain | {"prompt": tokens}, stop)
            text: object = got.get("content")
            self._count(got.get("tokens_evaluated"), got.get("tokens_predicted"), prompt, text)
        else:
            body |= {"max_tokens": self.max_tokens} | ({} if self.model is None else {"model": self.model})
            if self.api == "chat":
                messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
                got = self._post("/chat/completions", body | {"messages": messages}, stop)
                message = self._choice(got).get("message")
                text = message.get("content") if isinstance(message, dict) else None
            else:
                got = self._post("/completions", body | {"prompt": prompt}, stop)
                text = self._choice(got).get("text")
            usage: Any = got.get("usage") if isinstance(got.get("usage"), dict) else {}
            self._count(usage.get("prompt_tokens"), usage.get("completion_tokens"), prompt, text)
        if not isinstance(text, str):
            kind = "null" if text is None else type(text).__name__
            raise ModelError(f"{self._where} returned {kind} for the text of an answer; check api= and max_tokens=")
        return text

    def _echoed(self, prompt: str, answer: str, stop: Event) -> float:
        """Score by `echo`: the server returns the prompt's tokens and their log-probabilities."""
        text = prompt + answer
        body = {"prompt": text, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0.0}
        got = self._post("/completions", body | ({} if self.model is None else {"model": self.model}), stop)
        self._count(None, 1, text, "")
        listed = self._choice(got).get("logprobs")
        tokens: Any = listed.get("tokens") if isinstance(listed, dict) else None
        values: Any = listed.get("token_logprobs") if isinstance(listed, dict) else None
        fits = isinstance(tokens, list) and isinstance(values, list) and len(values) == len(tokens)
        if fits and all(isinstance(token, str) for token in tokens):
            ends = np.cumsum([len(token) for token in tokens])  # text_offset of some servers counts otherwise
            starts = [0, *ends[:-1].tolist()]
            first = "".join(tokens).find(text)  # a token such as <s> may stand before it
            if first in starts[: 1 + (first > 0)]:
                self._seen["scores"] = True
                low, high = first + len(prompt), first + len(text)
                return self._sum([v for v, a, b in zip(values, starts, ends, strict=True) if a < high and b > low])
        raise NoEcho(
            f"{self._where} does not return the tokens of a prompt with echo=true, so it cannot score; use vLLM, or "
            "api='llama.cpp' for llama.cpp, or answers only"
        )

    def _forced(self, prompt: Prompt, answer: str, stop: Event) -> float:
        """Score token by token: a bias forces the next one, its log-probability is that of the logits without it."""
        text = self._text(prompt, stop)
        start, joint = self._tokenized(text, stop), self._tokenized(text + answer, stop)
        if joint[: len(start)] != start:  # the border falls inside a token: the answer is encoded by itself
            joint = start + self._tokenized(answer, stop, special=False)
        body = {"n_predict": 1, "n_probs": 1, "temperature": 0.0, "cache_prompt": True, "post_sampling_probs": False}
        values = list[object]()
        for n in range(len(start), len(joint)):
            got = self._post("/completion", body | {"prompt": joint[:n], "logit_bias": [[joint[n], FORCED]]}, stop)
            self._count(got.get("tokens_evaluated"), 1, text, "")
            listed = got.get("completion_probabilities")
            one = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
            if one.get("id") != joint[n]:
                raise ModelError(
                    f"{self._where} did not take the token that was forced by logit_bias; update llama.cpp"
                )
            values.append(one.get("logprob"))
        return self._sum(values)

    def _sum(self, values: list[Any]) -> float:
        if any(isinstance(v, bool) or not isinstance(v, int | float) or not -np.inf < v <= 1e-6 for v in values):
            raise ModelError(f"{self._where} returned log-probabilities that are none: {str(values)[:80]}")
        return float(sum(values))

    def _text(self, prompt: Prompt, stop: Event) -> str:
        """Return the text of a prompt for llama.cpp, whose template turns messages into one."""
        if isinstance(prompt, str):
            return prompt
        text = self._post("/apply-template", {"messages": list(prompt)}, stop).get("prompt")
        if not isinstance(text, str):
            raise ModelError(f"{self._where} turned messages into no text; give the prompt as a text")
        return text

    def _tokenized(self, text: str, stop: Event, special: bool = True) -> list[int]:
        body = {"content": text, "add_special": special, "parse_special": True}
        tokens = self._post("/tokenize", body, stop).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise ModelError(f"{self._where} returned no tokens from /tokenize; expected a server of llama.cpp")
        return tokens

    def _choice(self, got: dict[str, Any]) -> dict[str, Any]:
        choices = got.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise ModelError(
                f"{self._where} returned no choices; expected an answer of OpenAI's protocol, check url= and api="
            )
        return dict(choices[0])

    def _post(self, end: str, body: dict[str, Any], stop: Event) -> dict[str, Any]:
        """Return the server's JSON object; the key is masked wherever the server repeats it."""
        first = "answered" not in self._seen
        content = json.dumps(body, allow_nan=False).encode()
        response = self.endpoint.fetch(end, content, MOST_BYTES, stop, first=first, served=False)
        self._seen["answered"] = True
        try:
            got = response.json()
        except ValueError as error:
            why = one_line(error)[:100]
            raise ModelError(
                f"{self._where} answered in no JSON that can be read ({why}); check url= and api="
            ) from None
        if not isinstance(got, dict):
            raise ModelError(
                f"{self._where} returned a {type(got).__name__}, expected a JSON object; check url= and api="
            )
        return got

    def _count(self, prompt_tokens: object, completion_tokens: object, prompt: Prompt, text: object) -> None:
        def number(given: object, instead: str) -> int:
            return given if type(given) is int and 0 <= given < 10**9 else self.tokens(instead)

        shown = prompt if isinstance(prompt, str) else json.dumps(list(prompt))
        self.usage.add(1, number(prompt_tokens, shown), number(completion_tokens, str(text or "")))

    @property
    def _where(self) -> str:
        return f"the server at {self.endpoint.shown}"


class NoEcho(ModelError):
    """The server does not return the tokens of a prompt: no answer can be scored."""
