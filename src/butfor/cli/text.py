"""`butfor text`: every word of every text of a file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

import typer

from butfor.cli import options as o
from butfor.cli.common import bar, given, notes, print_written, target_of
from butfor.core.types import Family, Rule, Test

TEXTS = "Texts and what to test"


def text(
    model: Annotated[
        str,
        typer.Option(
            help="small-sentiment, file.onnx with --tokenizer, file.py:function (from a list of strings to outputs), "
            "file.skops or a pickle of a text pipeline, or hf:NAME or a folder of a Hugging Face text classifier.",
            rich_help_panel=o.MODEL,
        ),
    ],
    texts: Annotated[
        str,
        typer.Option(
            help="A .csv, .tsv, .jsonl, .json or .txt file, a directory of .txt files, or - for standard input (a text "
            "a line, or JSON lines).",
            rich_help_panel=TEXTS,
        ),
    ],
    out: o.Out,
    sampler: Annotated[
        str,
        typer.Option(
            help="What redraws words: small-infiller, masked-lm:DIR, causal-lm:DIR, ngram:FILE, a folder of a language "
            "model of transformers, or file.py:function.",
            rich_help_panel=o.TEST,
        ),
    ] = "small-infiller",
    units: Annotated[
        str,
        typer.Option(
            help="What to test: word, wordpiece (of the sampler, or wordpiece:TOKENIZER), sentence, phrase, "
            "match:PATTERN (a regular expression), or a JSON file of spans.",
            rich_help_panel=TEXTS,
        ),
    ] = "word",
    column: Annotated[
        str | None,
        typer.Option(help="Column or key with the texts. Default: the only one, or text.", rich_help_panel=TEXTS),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Column or key with the names of the texts. Default: row numbers.", rich_help_panel=TEXTS),
    ] = None,
    overlap: Annotated[
        str, typer.Option(help="refuse, or alone: test spans that overlap anyway, each alone.", rich_help_panel=TEXTS)
    ] = "refuse",
    on_error: Annotated[
        str,
        typer.Option(help="raise, or skip: leave out texts that cannot be used, with a note.", rich_help_panel=TEXTS),
    ] = "raise",
    tokenizer: Annotated[
        str | None,
        typer.Option(help="tokenizer.json, or a folder with one, of an ONNX model.", rich_help_panel=o.MODEL),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="Names of the outputs: negative,positive.", rich_help_panel=o.MODEL)
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="Pieces that an ONNX model takes; longer texts are refused.", rich_help_panel=o.MODEL),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(help="What a network's outputs go through: softmax, sigmoid or none.", rich_help_panel=o.MODEL),
    ] = None,
    trust_pickle: o.TrustPickle = False,
    trust: o.Trust = None,
    temperature: Annotated[
        float | None, typer.Option(help="Of the language model; 1 leaves it as it is.", rich_help_panel=o.TEST)
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw among so many fills only.", rich_help_panel=o.TEST)] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw among the likeliest fills of this mass only.", rich_help_panel=o.TEST)
    ] = None,
    among: Annotated[
        str | None,
        typer.Option(
            help="plain: small-infiller draws only words that are as common in praise as in blame; or a file of words.",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    listed: Annotated[
        int,
        typer.Option(
            help="Evaluate so many of the likeliest fills for an exact p-value instead of drawing (sequential, irt).",
            rich_help_panel=o.TEST,
        ),
    ] = 0,
    test: Annotated[
        str | None,
        typer.Option(
            help=f"One of {', '.join(get_args(Test))}. Default: few-shot, or sequential with --listed.",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    alternative: o.OneSided = None,
    rule: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Rule))}.", rich_help_panel=o.TEST)
    ] = None,
    family: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(get_args(Family))}.", rich_help_panel=o.TEST)
    ] = None,
    alpha: o.Alpha = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Which output: its label or number, predicted (the default where there are several), or "
            "observed-class (the paper's).",
            rich_help_panel=o.TEST,
        ),
    ] = None,
    link: o.Link = None,
    draws: Annotated[
        int | None, typer.Option(help="Counterfactuals per word, or the most of them.", rich_help_panel=o.TEST)
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects/--no-effects", help="Estimate effects from fresh draws.", rich_help_panel=o.TEST)
    ] = True,
    run_dir: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the model's answers, to go on after a crash.", rich_help_panel=o.MODEL),
    ] = None,
    batch_rows: o.BatchRows = None,
    threads: Annotated[int | None, typer.Option(help="Threads of small-infiller.", rich_help_panel=o.MODEL)] = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Test words of texts; write result.butfor, table.csv and report.html with the texts in it."""
    from butfor.cli.text_parts import named_model, named_sampler, units_of
    from butfor.report.folder import REPORT, RESULT, TABLE, check_folder, write_folder
    from butfor.text import explain, read_texts
    from butfor.text.models import text_model
    from butfor.text.terminal import found_in, harmless

    check_folder(out)
    with notes(quiet), redirect_stdout(sys.stderr):  # a model that prints must not get into the JSON
        found = read_texts(texts, column=column, name=name)
        box = text_model(named_model(model, tokenizer, classes, limit, function, trust_pickle, trust))
        drawing = named_sampler(sampler, temperature, top_k, top_p, listed, among, threads)
        settings = given(
            on_error=on_error,
            test=test,
            alternative=alternative,
            rule=rule,
            family=family,
            alpha=alpha,
            target=target_of(target, box),
            link=link,
            draws=draws,
            seed=seed,
            batch_rows=batch_rows,
            keep_effects=effects,
            run_dir=run_dir,
        )
        chosen = units_of(units, overlap, getattr(drawing, "tokenizer", None))  # type: ignore[arg-type]
        result = explain(box, found, drawing, units=chosen, progress=bar(quiet), **settings)
        result = replace(result, provenance={**result.provenance, "model": model, "data": texts})
        write_folder(result, out)
    if json:
        typer.echo(result.to_json())
    else:
        typer.echo(harmless(result.summary()))  # names are parts of texts
        typer.echo(found_in(result))
        print_written(out, {"Report": REPORT, "Table": TABLE, "Result": RESULT})
