"""What the words of `butfor text` stand for: a model, a sampler, units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from butfor import text
from butfor.cli.common import function_at
from butfor.cli.options import Trust, given
from butfor.cli.text import Infiller, TextModel, Units
from butfor.core.draw.proposers import Proposer
from butfor.core.draw.samplers import Sampler
from butfor.core.parsing import read_bounded, read_json
from butfor.core.types import InputError
from butfor.models import Wrapped

LANGUAGE_MODELS: dict[str, Callable[..., Sampler]] = {
    "masked-lm": text.masked_lm,
    "hf": text.masked_lm,
    "causal-lm": text.causal_lm,
}
SAMPLERS = ("small-infiller", "masked-lm:DIR", "causal-lm:DIR", "ngram:FILE")


def named_model(named: TextModel, trust: Trust) -> Any:
    """small-sentiment, file.onnx with a tokenizer, hf:NAME or a folder, file.py:function, file.skops or a pickle."""
    spec, tokenizer, limit = named.model, named.tokenizer, named.limit
    function: Any = named.function
    names = None if named.classes is None else [name.strip() for name in named.classes.split(",")]
    if spec.lower().endswith(".onnx"):
        if tokenizer is None:
            raise InputError("an ONNX model of texts needs --tokenizer tokenizer.json, or a folder with one")
        return text.onnx_text_classifier(spec, tokenizer, classes=names, limit=limit, function=function or "none")
    if tokenizer is not None or limit is not None:
        raise InputError("--tokenizer and --limit are for .onnx files; other models have their own")
    if spec.startswith("hf:") or Path(spec).is_dir():
        if names is not None:
            raise InputError(f"--classes does not go with {spec!r}, which has names of its own")
        return text.huggingface_classifier(spec.removeprefix("hf:"), function=function)
    if function is not None:
        raise InputError("--function is for networks; other models are given as they answer")
    if spec == "small-sentiment":
        return text.small_sentiment()
    if ".py:" in spec:
        return Wrapped(function_at(spec), None if names is None else tuple(names))
    if names is not None:
        raise InputError("--classes is for .onnx files and functions")
    if "." not in Path(spec).name and not spec.startswith("http"):
        raise InputError(
            f"--model is {spec!r}, expected small-sentiment, file.onnx, file.py:function, file.skops, hf:NAME or a "
            "folder of a Hugging Face text classifier"
        )
    return trust.load(spec)


def named_sampler(named: Infiller, threads: int | None) -> Sampler:
    """small-infiller, masked-lm:DIR or a folder, causal-lm:DIR, ngram:FILE, or file.py:function."""
    spec, listed = named.sampler, named.listed
    shape = given(temperature=named.temperature, top_k=named.top_k, top_p=named.top_p)  # of the distribution
    kind, _, source = spec.partition(":")
    if spec == "small-infiller":
        return text.small_infiller(among=_words(named.among), threads=threads, listed=listed, **shape)
    if named.among is not None or threads is not None:
        raise InputError("--among and --threads are for small-infiller")
    if Path(spec).is_dir():
        kind, source = "causal-lm" if _is_causal(spec) else "masked-lm", spec
    if kind in LANGUAGE_MODELS and source:
        return LANGUAGE_MODELS[kind](source, listed=listed, **shape)
    if kind == "ngram" and source:
        if shape:
            raise InputError("--temperature, --top-k and --top-p do not go with ngram")
        return text.ngram(list(text.read_texts(source).values()), listed=listed)
    if ".py:" in spec:
        if shape or listed:
            raise InputError("--temperature, --top-k, --top-p and --listed are for language models, not for a function")
        own: Sampler = function_at(spec)
        return own
    raise InputError(
        f"--sampler must be {', '.join(SAMPLERS)}, a folder of a language model, or file.py:function, got {spec!r}"
    )


def _words(among: str | None) -> Any:
    """None, "plain", or the words of a file."""
    if among in (None, "plain"):
        return among
    try:
        return read_bounded(Path(str(among)), "the file of words").decode("utf-8").split()
    except ValueError as error:
        raise InputError(f"--among must be plain or a text file of words, got {among!r}: {error}") from error


def _is_causal(folder: str) -> bool:
    """Whether the language model of a folder is causal or masked, as its config says."""
    config = Path(folder) / "config.json"
    if not config.is_file():
        raise InputError(f"the folder {folder} has no config.json; expected a language model of transformers")
    found = read_json(config, "the config of the language model")
    kinds = found.get("architectures") if isinstance(found, dict) else None
    return any(
        str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in (kinds if isinstance(kinds, list) else [])
    )


def units_of(named: Units, tokenizer: object) -> Proposer:
    """word, wordpiece, sentence, phrase, match:PATTERN, or a JSON file of spans."""
    spec: str = named.units
    overlap: Any = named.overlap
    if spec in ("word", "sentence"):
        return text.words() if spec == "word" else text.sentences()
    if spec == "phrase":
        return text.phrases(overlap=overlap)
    if spec.startswith("wordpiece"):
        _, _, source = spec.partition(":")
        return text.wordpieces(source or tokenizer)
    if spec.startswith("match:"):
        return text.matches(spec.removeprefix("match:"), overlap=overlap)
    path = spec.removeprefix("span:")
    if not Path(path).is_file():
        raise InputError(
            f"--units is {spec!r}, neither a JSON file of spans nor word, wordpiece, wordpiece:TOKENIZER, sentence, "
            "phrase or match:PATTERN"
        )
    return text.spans(path, overlap=overlap)
