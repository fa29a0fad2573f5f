"""`butfor text`: every word of every text of a file."""

from __future__ import annotations

from typing import Annotated

import typer

from butfor.cli.common import bar, finish, stopped_early, working, written
from butfor.cli.options import BATCH_ROWS_HELP, MODEL, TEST, Output, TestOptions, Trust, one_of
from butfor.cli.panels import command, flag, needed, option, panel
from butfor.cli.resuming import Running, kept
from butfor.core.draw.samplers import info_of
from butfor.run.procedure import TestName

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
    from butfor.cli.text_parts import named_model, named_sampler, units_of
    from butfor.text import explain
    from butfor.text.files import load_texts
    from butfor.text.models import text_model
    from butfor.text.terminal import found_in, harmless

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
