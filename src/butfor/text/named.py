"""Models, samplers and units of texts by name: what `butfor text` and studio.toml may say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from butfor.evaluation.hypotheses import Overlap, Proposer
from butfor.evaluation.samplers import Sampler
from butfor.models import Wrapped
from butfor.models.files import function_at, load_model
from butfor.text.files import read_texts
from butfor.text.language_models import causal_lm, masked_lm
from butfor.text.models import huggingface_classifier, onnx_text_classifier
from butfor.text.ngram import ngram
from butfor.text.small import small_infiller, small_sentiment
from butfor.text.subsets import matches, phrases, spans, wordpieces
from butfor.types import InputError
from butfor.untrusted import read_bounded, read_json

LANGUAGE_MODELS: dict[str, Callable[..., Sampler]] = {"masked-lm": masked_lm, "hf": masked_lm, "causal-lm": causal_lm}
SAMPLERS = ("small-infiller", "masked-lm:DIR", "causal-lm:DIR", "ngram:FILE")


def model_named(
    model: str,
    *,
    tokenizer: str | None = None,
    classes: str | None = None,
    limit: int | None = None,
    function: Any = None,
    trust_pickle: bool = False,
    trust: Sequence[str] | None = None,
    ca_file: Path | None = None,
) -> Any:
    """Return small-sentiment, or the model of file.onnx, hf:NAME, a folder, file.py:function, file.skops, a pickle."""
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    if model.lower().endswith(".onnx"):
        if tokenizer is None:
            raise InputError("an ONNX model of texts needs --tokenizer tokenizer.json, or a folder with one")
        return onnx_text_classifier(model, tokenizer, classes=names, limit=limit, function=function or "none")
    if tokenizer is not None or limit is not None:
        raise InputError("--tokenizer and --limit are for .onnx files; other models have their own")
    if model.startswith("hf:") or Path(model).is_dir():
        if names is not None:
            raise InputError(f"--classes does not go with {model!r}, which has names of its own")
        return huggingface_classifier(model.removeprefix("hf:"), function=function)
    if function is not None:
        raise InputError("--function is for networks; other models are given as they answer")
    if model == "small-sentiment":
        return small_sentiment()
    if ".py:" in model:
        return Wrapped(function_at(model), None if names is None else tuple(names))
    if names is not None:
        raise InputError("--classes is for .onnx files and functions")
    if "." not in Path(model).name and not model.startswith("http"):
        raise InputError(
            f"--model is {model!r}, expected small-sentiment, file.onnx, file.py:function, file.skops, hf:NAME or a "
            "folder of a Hugging Face text classifier"
        )
    return load_model(model, trust_pickle=trust_pickle, trusted=trust or (), ca_file=ca_file)


def sampler_named(
    sampler: str,
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    among: str | None = None,
    listed: int = 0,
    threads: int | None = None,
) -> Sampler:
    """Return small-infiller, or the sampler of masked-lm:DIR, causal-lm:DIR, a folder, ngram:FILE, file.py:function."""
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    shape: dict[str, Any] = {name: value for name, value in given.items() if value is not None}  # of the distribution
    kind, _, source = sampler.partition(":")
    if sampler == "small-infiller":
        drawn: Any = among  # None, "plain", or a file
        if among not in (None, "plain"):
            try:
                drawn = read_bounded(Path(str(among)), "the file of words").decode("utf-8").split()
            except ValueError as error:
                raise InputError(f"--among must be plain or a text file of words, got {among!r}: {error}") from error
        return small_infiller(among=drawn, threads=threads, listed=listed, **shape)
    if among is not None or threads is not None:
        raise InputError("--among and --threads are for small-infiller")
    if Path(sampler).is_dir():
        config = Path(sampler) / "config.json"
        if not config.is_file():
            raise InputError(f"the folder {sampler} has no config.json; expected a language model of transformers")
        read = read_json(config, "the config of the language model")
        kinds = read.get("architectures") if isinstance(read, dict) else None
        ends = [str(kind).endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds] if isinstance(kinds, list) else []
        kind, source = "causal-lm" if any(ends) else "masked-lm", sampler
    if kind in LANGUAGE_MODELS and source:
        return LANGUAGE_MODELS[kind](source, listed=listed, **shape)
    if kind == "ngram" and source:
        if shape:
            raise InputError("--temperature, --top-k and --top-p do not go with ngram")
        return ngram(list(read_texts(source).values()), listed=listed)
    if ".py:" in sampler:
        if shape or listed:
            raise InputError("--temperature, --top-k, --top-p and --listed are for language models, not for a function")
        made: Sampler = function_at(sampler)
        return made
    raise InputError(
        f"--sampler must be {', '.join(SAMPLERS)}, a folder of a language model, or file.py:function, got {sampler!r}"
    )


def units_named(units: str, *, tokenizer: object, overlap: Overlap = "refuse") -> Proposer | str:
    """Return the units of word, occurrence, wordpiece, sentence, phrase, match:PATTERN, or a JSON file of spans."""
    if units in ("word", "occurrence", "sentence", "zoom"):
        return units
    if units == "phrase":
        return phrases(overlap=overlap)
    if units.startswith("wordpiece"):
        return wordpieces(units.partition(":")[2] or tokenizer)
    if units.startswith("match:"):
        return matches(units.removeprefix("match:"), overlap=overlap)
    path = units.removeprefix("span:")
    if not Path(path).is_file():
        raise InputError(
            f"--units is {units!r}, neither a JSON file of spans nor word, occurrence, wordpiece, "
            "wordpiece:TOKENIZER, sentence, phrase, zoom or match:PATTERN"
        )
    return spans(path, overlap=overlap)
