"""`butfor text`: every word of every text of a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from butfor import text as butfor_text
from butfor.cli.options import (
    BATCH_ROWS_HELP,
    MODEL,
    TEST,
    Output,
    Running,
    TestOptions,
    Trust,
    bar,
    command,
    finish,
    flag,
    function_at,
    given,
    kept,
    needed,
    one_of,
    option,
    panel,
    stopped_early,
    working,
    written,
)
from butfor.evaluation.hypotheses import Proposer
from butfor.evaluation.samplers import Sampler, info_of
from butfor.models import Wrapped
from butfor.settings import TestName
from butfor.types import InputError
from butfor.untrusted import read_bounded, read_json

EFFECTS_HELP = "Estimate effects from fresh draws."


@panel(MODEL)
class TextModel:
    model: str = needed(
        "small-sentiment, file.onnx with --tokenizer, file.py:function (from a list of strings to outputs), file.skops "
        "or a pickle of a text pipeline, or hf:NAME or a folder of a Hugging Face text classifier."
    )
    tokenizer: str | None = option("tokenizer.json, or a folder with one, of an ONNX model.")
    classes: str | None = option("Names of the outputs: negative,positive.")
    limit: int | None = option("Pieces that an ONNX model takes; longer texts are refused.")
    function: str | None = option("What a network's outputs go through: softmax, sigmoid or none.")


@panel(MODEL)
class Asking:
    batch_rows: int | None = option(BATCH_ROWS_HELP)
    threads: int | None = option("Threads of small-infiller.")


@panel("Texts and what to test")
class Units:
    texts: str = needed(
        "A .csv, .tsv, .jsonl or .json file, a directory of .txt files (a text each), a .txt file or - for standard "
        "input (a text a line, or JSON lines)."
    )
    units: str = option(
        "What to test: word, wordpiece (of the sampler, or wordpiece:TOKENIZER), sentence, phrase, match:PATTERN (a "
        "regular expression), or a JSON file of spans.",
        default="word",
    )
    column: str | None = option("Column or key with the texts. Default: the only one, or text.")
    name: str | None = option("Column or key with the names of the texts. Default: row numbers.")
    whole: bool = flag("A .txt file, or standard input, is one text with all of its lines.")
    overlap: str = option("refuse, or alone: test spans that overlap anyway, each alone.", default="refuse")
    on_error: str = option("raise, or skip: leave out texts that cannot be used, with a note.", default="raise")


@panel(TEST)
class Infiller:
    sampler: str = option(
        "What redraws words: small-infiller, masked-lm:DIR, causal-lm:DIR, ngram:FILE, a folder of a language model of "
        "transformers, or file.py:function.",
        default="small-infiller",
    )
    temperature: float | None = option("Of the language model; 1 leaves it as it is.")
    top_k: int | None = option("Draw among so many fills only.")
    top_p: float | None = option("Draw among the likeliest fills of this mass only.")
    among: str | None = option(
        "plain: small-infiller draws only words that are as common in praise as in blame; or a file of words."
    )
    listed: int = option(
        "Evaluate so many of the likeliest fills for an exact p-value instead of drawing (sequential, irt).", default=0
    )


@command(
    without=("config",),
    test=f"{one_of(TestName)} Default: sequential where that is expected to take five minutes at most, else few-shot; "
    "sequential with --listed.",
    target="Which output: its label or number, predicted (the default where there are several), or observed-class "
    "(the paper's).",
    draws="Counterfactuals per word, or the most of them.",
)
def text(
    *,
    model: TextModel,
    trust: Trust,
    asking: Asking,
    running: Running,
    units: Units,
    sampler: Infiller,
    tests: TestOptions,
    effects: Annotated[bool, typer.Option("--effects/--no-effects", help=EFFECTS_HELP, rich_help_panel=TEST)] = True,
    output: Output,
) -> None:
    """Test words of texts; write result.butfor, table.csv and report.html with the texts in it."""
    from butfor.text import explain
    from butfor.text.files import load_texts
    from butfor.text.view import found_in, harmless
    from butfor.text.models import text_model

    with working(output):
        found = load_texts(units.texts, column=units.column, name=units.name, whole=units.whole)
        box = text_model(named_model(model, trust))
        drawing = named_sampler(sampler, asking.threads)
        with kept(running.run_dir, output.out) as run_dir:
            result = explain(
                box,
                found,
                drawing,
                units=units_of(units, info_of(drawing).tokenizer),
                on_error=units.on_error,
                effects="chosen" if effects else None,
                seed=output.seed,
                batch_rows=asking.batch_rows,
                run_dir=run_dir,
                workers=running.workers,
                timeout=running.timeout,
                progress=bar(output),
                **tests.settings(box),
            )
            result = written(result, output, model=model.model, data=units.texts)
    summary = harmless(result.summary())  # names are parts of texts
    finish(output, lambda: f"{summary}\n{found_in(result)}", result.to_json)
    stopped_early(result, output)


LANGUAGE_MODELS: dict[str, Callable[..., Sampler]] = {
    "masked-lm": butfor_text.masked_lm,
    "hf": butfor_text.masked_lm,
    "causal-lm": butfor_text.causal_lm,
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
        return butfor_text.onnx_text_classifier(
            spec, tokenizer, classes=names, limit=limit, function=function or "none"
        )
    if tokenizer is not None or limit is not None:
        raise InputError("--tokenizer and --limit are for .onnx files; other models have their own")
    if spec.startswith("hf:") or Path(spec).is_dir():
        if names is not None:
            raise InputError(f"--classes does not go with {spec!r}, which has names of its own")
        return butfor_text.huggingface_classifier(spec.removeprefix("hf:"), function=function)
    if function is not None:
        raise InputError("--function is for networks; other models are given as they answer")
    if spec == "small-sentiment":
        return butfor_text.small_sentiment()
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
        return butfor_text.small_infiller(among=_words(named.among), threads=threads, listed=listed, **shape)
    if named.among is not None or threads is not None:
        raise InputError("--among and --threads are for small-infiller")
    if Path(spec).is_dir():
        kind, source = "causal-lm" if _is_causal(spec) else "masked-lm", spec
    if kind in LANGUAGE_MODELS and source:
        return LANGUAGE_MODELS[kind](source, listed=listed, **shape)
    if kind == "ngram" and source:
        if shape:
            raise InputError("--temperature, --top-k and --top-p do not go with ngram")
        return butfor_text.ngram(list(butfor_text.read_texts(source).values()), listed=listed)
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
        return butfor_text.words() if spec == "word" else butfor_text.sentences()
    if spec == "phrase":
        return butfor_text.phrases(overlap=overlap)
    if spec.startswith("wordpiece"):
        _, _, source = spec.partition(":")
        return butfor_text.wordpieces(source or tokenizer)
    if spec.startswith("match:"):
        return butfor_text.matches(spec.removeprefix("match:"), overlap=overlap)
    path = spec.removeprefix("span:")
    if not Path(path).is_file():
        raise InputError(
            f"--units is {spec!r}, neither a JSON file of spans nor word, wordpiece, wordpiece:TOKENIZER, sentence, "
            "phrase or match:PATTERN"
        )
    return butfor_text.spans(path, overlap=overlap)
