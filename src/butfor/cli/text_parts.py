"""What the words of `butfor text` stand for: a model, a sampler, units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from butfor import text
from butfor.core.types import InputError
from butfor.models import Wrapped
from butfor.models.files import load_model
from butfor.models.python_file import attribute_of
from butfor.text.subsets import Overlap, Subsets

SAMPLERS = ("small-infiller", "masked-lm:DIR", "causal-lm:DIR", "ngram:FILE")


def named_model(
    spec: str,
    tokenizer: str | None,
    classes: str | None,
    limit: int | None,
    function: str | None,
    trust_pickle: bool,
    trust: Sequence[str] | None,
) -> Any:
    """small-sentiment, file.onnx with a tokenizer, hf:NAME or a folder, file.py:function, file.skops or a pickle."""
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    if spec.lower().endswith(".onnx"):
        if tokenizer is None:
            raise InputError("an ONNX model of texts needs --tokenizer tokenizer.json, or a folder with one")
        return text.onnx_text_classifier(
            spec,
            tokenizer,
            classes=names,
            limit=limit,
            function=function or "none",  # type: ignore[arg-type]
        )
    if tokenizer is not None or limit is not None:
        raise InputError("--tokenizer and --limit are for .onnx files; other models have their own")
    if spec.startswith("hf:") or Path(spec).is_dir():
        if names is not None:
            raise InputError(f"--classes does not go with {spec!r}, which has names of its own")
        return text.huggingface_classifier(spec.removeprefix("hf:"), function=function)  # type: ignore[arg-type]
    if function is not None:
        raise InputError("--function is for networks; other models are given as they answer")
    if spec == "small-sentiment":
        return text.small_sentiment()
    if ".py:" in spec:
        return Wrapped(_function(spec), None if names is None else tuple(names))
    if names is not None:
        raise InputError("--classes is for .onnx files and functions")
    if "." not in Path(spec).name and not spec.startswith("http"):
        raise InputError(
            f"--model is {spec!r}, expected small-sentiment, file.onnx, file.py:function, file.skops, hf:NAME or a "
            "folder of a Hugging Face text classifier"
        )
    return load_model(spec, trust_pickle=trust_pickle, trusted=trust or ())


def _function(spec: str) -> Any:
    path = Path(spec.rpartition(":")[0])
    if not path.is_file():
        raise InputError(f"the file {path} does not exist; expected file.py:function")
    return attribute_of(path, spec.rpartition(":")[2])


def _words(among: str | None) -> Any:
    """None, "plain", or the words of a file."""
    if among in (None, "plain"):
        return among
    try:
        return Path(str(among)).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--among must be plain or a text file of words, got {among!r}: {error}") from error


def named_sampler(
    spec: str,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    listed: int,
    among: str | None,
    threads: int | None,
) -> Any:
    """small-infiller, masked-lm:DIR or a folder, causal-lm:DIR, ngram:FILE, or file.py:function."""
    settings: dict[str, Any] = {"top_k": top_k, "top_p": top_p, "listed": listed}
    settings |= {} if temperature is None else {"temperature": temperature}
    kind, colon, source = spec.partition(":")
    if spec == "small-infiller":
        return text.small_infiller(among=_words(among), threads=threads, **settings)
    if among is not None or threads is not None:
        raise InputError("--among and --threads are for small-infiller")
    if Path(spec).is_dir():
        return _loaded(spec, **settings)
    if kind in ("masked-lm", "hf") and source:
        return text.masked_lm(source, **settings)
    if kind == "causal-lm" and source:
        return text.causal_lm(source, **settings)
    if kind == "ngram" and source:
        return _ngram(source, settings)
    if ".py:" in spec and colon:
        if temperature is not None or top_k is not None or top_p is not None or listed:
            raise InputError("--temperature, --top-k, --top-p and --listed are for language models, not for a function")
        return _function(spec)
    raise InputError(
        f"--sampler must be {', '.join(SAMPLERS)}, a folder of a language model, or file.py:function, got {spec!r}"
    )


def _loaded(folder: str, **settings: Any) -> Any:
    """A folder of a language model: masked or causal, as its config says."""
    import json

    config = Path(folder) / "config.json"
    if not config.is_file():
        raise InputError(f"the folder {folder} has no config.json; expected a language model of transformers")
    kinds = json.loads(config.read_text(encoding="utf-8")).get("architectures") or []
    causal = any(kind.endswith(("ForCausalLM", "LMHeadModel")) for kind in kinds)
    return (text.causal_lm if causal else text.masked_lm)(folder, **settings)


def _ngram(source: str, settings: dict[str, Any]) -> Any:
    make = getattr(text, "ngram", None)
    if make is None:
        raise InputError("there is no sampler ngram in this version; use small-infiller")
    if settings["top_p"] is not None or settings["top_k"] is not None or "temperature" in settings:
        raise InputError("--temperature, --top-k and --top-p do not go with ngram")
    return make(list(text.read_texts(source).values()), listed=settings["listed"])


def units_of(spec: str, overlap: Overlap, tokenizer: Any) -> Subsets:
    """word, wordpiece, sentence, phrase, match:PATTERN, or a JSON file of spans."""
    plain: dict[str, Callable[[], Subsets]] = {"word": text.words, "sentence": text.sentences}
    if spec in plain:
        return plain[spec]()
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
