"""`butfor bench ...`: each command makes a measurement, prints its table, and writes it where asked to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from butfor.bench.output import Figures
    from butfor.evaluation.progress import Progress

    Study = tuple[Callable[..., Figures], Callable[[Figures], str]]  # measures, and says it in Markdown

app = typer.Typer(no_args_is_help=True, help="Measure: the paper's Table 1, the methods beyond it, samplers, speed.")

Out = Annotated[Path | None, typer.Option("--out", help="Folder for the figures as JSON and Markdown.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON on standard output.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same data.")]
Runs = Annotated[int, typer.Option(help="Data sets per bed.")]
Workers = Annotated[int, typer.Option(help="Processes.")]
Quick = Annotated[bool, typer.Option("--quick", help="A smaller trial, to see that it works.")]
Threads = Annotated[int | None, typer.Option(help="Threads of each network.")]


@app.command()
def table1(
    runs: Runs = 10, quick: Quick = False, seed: Seed = 0, workers: Workers = 2, out: Out = None, json: Json = False
) -> None:
    """FDR and TPR of every cell of the paper's Table 1, beside the paper's figures."""
    from butfor.bench import table1 as bench

    options = {"runs": runs, "quick": quick, "seed": seed, "workers": workers, "progress": sys.stderr.isatty()}
    _measure("table1", (bench.run, bench.markdown), out, json, **options)


@app.command()
def methods(
    runs: Runs = 20, quick: Quick = False, seed: Seed = 0, workers: Workers = 2, out: Out = None, json: Json = False
) -> None:
    """Sequential, early stop and few-shot beside IRT with 10,000 draws: FDR, TPR and rows, with standard errors."""
    from butfor.bench import methods as bench

    options = {"runs": runs, "quick": quick, "seed": seed, "workers": workers, "progress": sys.stderr.isatty()}
    _measure("methods", (bench.run, bench.markdown), out, json, **options)


@app.command("global")
def global_(runs: Runs = 40, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """One decision per feature: the contrast with a foil, and the holdout randomisation test beside knockoffs."""
    from butfor.bench import global_ as bench

    _measure("global", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def samplers(runs: Runs = 20, out: Out = None, json: Json = False) -> None:
    """How often check_sampler flags a wrong sampler, and passes the true one."""
    from butfor.bench import samplers as bench

    _measure("samplers", (bench.run, bench.markdown), out, json, seeds=runs)


@app.command()
def tables(runs: Runs = 20, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """Samplers of tables: false discoveries on correlated columns with known truth, and speed on one core."""
    from butfor.bench import tables as bench

    _measure("tables", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def questions(
    splits: Annotated[int, typer.Option(help="Splits on which the reference's own kind is tried.")] = 20,
    only: Annotated[list[str] | None, typer.Option(help="One of the questions; may be repeated.")] = None,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Ordinary questions on tables: what the one-line call answers, and what it says of the reference's own kind."""
    from butfor.bench import questions as bench

    _measure("questions", (bench.run, bench.markdown), out, json, splits=splits, seed=seed, only=tuple(only or ()))


@app.command()
def nulls(
    runs: Runs = 100,
    test: Annotated[list[str] | None, typer.Option(help="A test; may be repeated.")] = None,
    reference: Annotated[list[int] | None, typer.Option(help="Rows of the reference; may be repeated.")] = None,
    inputs: Annotated[list[int] | None, typer.Option(help="Rows explained; may be repeated.")] = None,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Every null true and the sampler fitted: how often the one-line call finds anything."""
    from butfor.bench import nulls as bench

    asked = {"tests": tuple(test or ()), "references": tuple(reference or ()), "inputs": tuple(inputs or ())}
    given = {name: value for name, value in asked.items() if value}
    _measure("nulls", (bench.run, bench.markdown), out, json, runs=runs, seed=seed, **given)


@app.command()
def decisions(runs: Runs = 200, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """The but-for test of a decision where q is known: coverage of all intervals of a run, and draws."""
    from butfor.bench import decisions as bench

    _measure("decisions", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def shifted(runs: Runs = 20, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """Inputs that are shifted where it is known: false discoveries of the one-line call at every resolution."""
    from butfor.bench import shifted as bench

    _measure("shifted", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def spoilt(runs: Runs = 100, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """The negative control on samplers that are wrong on purpose: how often it says so."""
    from butfor.bench import spoilt as bench

    _measure("spoilt", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def conditionals(seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """How well each sampler redraws a column given all others: CRPS on held-out rows of real tables."""
    from butfor.bench import conditionals as bench

    _measure("conditionals", (bench.conditionals, bench.markdown), out, json, seed=seed)


@app.command()
def adaptive(runs: Runs = 200, seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """Weights learned across inputs beside BH: FDR and TPR on known beds, and what breaks it."""
    from butfor.bench import adaptive as bench

    _measure("adaptive", (bench.run, bench.markdown), out, json, runs=runs, seed=seed)


@app.command()
def speed(seed: Seed = 0, out: Out = None, json: Json = False) -> None:
    """Processor time over bare model calls on the same rows, a first result, and the memory of a million hypotheses."""
    from butfor.bench import speed as bench

    _measure("speed", (bench.run, bench.markdown), out, json, seed=seed)


@app.command()
def growth(
    most: Annotated[int, typer.Option(min=10_000, help="The largest number of hypotheses.")] = 1_000_000,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """By which power of hypotheses, inputs, features and draws the time of a run grows."""
    from butfor.bench import growth as bench

    _measure("growth", (bench.run, bench.markdown), out, json, seed=seed, most=most)


@app.command()
def scale(
    part: Annotated[
        list[str] | None, typer.Option(help="One of workers, journal, million, stream, columns; repeat for more.")
    ] = None,
    share: Annotated[float, typer.Option(help="Of the full sizes: 0.01 to see that it works.")] = 1.0,
    repeats: Annotated[int, typer.Option(min=1, help="Pairs of runs with and without a run directory.")] = 5,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Several workers over one, the cost of a run directory, a million hypotheses, ten million from a file."""
    from butfor.bench import scale as bench
    from butfor.types import one_of

    parts = tuple(part or bench.PARTS)
    for one in parts:
        one_of("--part", one, bench.PARTS)
    options = {"seed": seed, "parts": parts, "share": share, "repeats": repeats}
    _measure("scale", (bench.run, bench.markdown), out, json, **options)


@app.command()
def trees(
    most: Annotated[int, typer.Option(min=100, help="The largest number of inputs.")] = 10_000,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Exact tests of tree ensembles beside SHAP's TreeExplainer and our sequential test: processor time, memory."""
    from butfor.bench import trees as bench

    _measure("trees", (bench.run, bench.markdown), out, json, seed=seed, most=most)


@app.command()
def stability(
    seeds: Annotated[int, typer.Option(min=2, help="Seeds of the run, on the same data.")] = 10,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Overlap of what is chosen with other seeds on the same data, and of the top of SHAP where it is installed."""
    from butfor.bench import stability as bench

    _measure("stability", (bench.run, bench.markdown), out, json, seed=seed, seeds=seeds)


@app.command()
def zoom(
    runs: Runs = 50,
    beds: Annotated[
        list[str] | None,
        typer.Option(help='documents, "weak words" or images; may be repeated. length: seconds of long documents.'),
    ] = None,
    seed: Seed = 100,
    out: Out = None,
    json: Json = False,
) -> None:
    """Coarse to fine on documents and images of known truth: FDR and power at every resolution, beside a flat run."""
    from butfor.bench import zoom as bench

    _measure("zoom", (bench.run, bench.markdown), out, json, runs=runs, seed=seed, beds=tuple(beds or bench.RUNS))


@app.command()
def images(
    assets: Annotated[Path | None, typer.Option(help="Networks and photographs. Default: BUTFOR_ASSETS.")] = None,
    fills: Annotated[Path | None, typer.Option(help="Folder that keeps the fills.")] = None,
    sensitivity: Annotated[bool, typer.Option("--sensitivity", help="Four runs more, boxes moved by a pixel.")] = False,
    draws: Annotated[int | None, typer.Option(help="Ranks and few-shot on so many diversified draws.")] = None,
    automatic: Annotated[bool, typer.Option("--automatic", help="A detector's boxes and random ones, too.")] = False,
    lime: Annotated[list[str] | None, typer.Option(help="A photograph to run LIME on; may be repeated.")] = None,
    images: Annotated[int | None, typer.Option(help="Only the first so many photographs.")] = None,
    threads: Threads = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """The paper's 50 photographs and 222 boxes with EfficientNet-Lite0 and MI-GAN: counts, sensitivity, cost."""
    from butfor.bench import images as bench

    adding = {"sensitivity": sensitivity, "draws": draws, "automatic": automatic, "lime": lime or ()}
    study = {"assets": assets, "fills": fills, "images": images, "threads": threads, **adding}
    figures = _measure("images", (bench.run, bench.markdown), out, json, **study)
    if out is not None and "ranks" in figures:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 3.9), layout="constrained")
        bench.places(figures).plot(figure.add_subplot())
        figure.savefig(out / "ranks.png", dpi=120)


@app.command()
def heatmaps(
    assets: Annotated[Path | None, typer.Option(help="Networks and photographs. Default: BUTFOR_ASSETS.")] = None,
    images: Annotated[list[str] | None, typer.Option(help="A photograph by its name; may be repeated.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Textures of known truth.")] = 4,
    threads: Threads = 1,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Zoom beside LIME and SHAP on photographs and textures: seconds, and which mark the object; --out keeps sheets."""
    from butfor.bench import heatmaps as bench

    study = {"assets": assets, "names": tuple(images or bench.PHOTOGRAPHS), "count": count, "seed": seed}
    _measure("heatmaps", (bench.run, bench.markdown), out, json, **study, threads=threads, sheets=out)


@app.command()
def judge(
    assets: Annotated[Path | None, typer.Option(help="Folder with the photographs. Default: BUTFOR_ASSETS.")] = None,
    images: Annotated[int | None, typer.Option(help="Only the first so many photographs.")] = None,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Real patches of the paper's photographs and planted faults: which share of them `butfor.image.judge` flags."""
    from butfor.bench import judge as bench

    _measure("judge", (bench.run, bench.markdown), out, json, assets=assets, images=images, seed=seed)


@app.command()
def texts(
    assets: Annotated[Path | None, typer.Option(help="Folder with the reviews. Default: BUTFOR_ASSETS.")] = None,
    reviews: Annotated[int, typer.Option(min=1, help="How many test reviews of under 256 pieces.")] = 1000,
    threads: Threads = None,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """The paper's study of film reviews with the embedded pair: words tested, chosen, which ones, time and memory."""
    from butfor.bench import texts as bench

    study = (bench.run, bench.markdown)
    _measure("texts", study, out, json, assets=assets, reviews=reviews, seed=seed, threads=threads)


@app.command()
def curves(
    runs: Runs = 5,
    beds: Annotated[list[str] | None, typer.Option(help="A bed; may be repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="A method; may be repeated.")] = None,
    dear_runs: Annotated[int, typer.Option(min=1, help="Data sets for LIME, kernel and permutation SHAP, L2X.")] = 2,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """The paper's figure 2: TPR against FDR of our tests and of other methods. `--out` keeps scores and pictures."""
    from butfor.bench import curves as bench
    from butfor.bench.curves_shown import markdown, write_pictures

    asked = {"beds": tuple(beds or bench.BEDS), "methods": tuple(methods or bench.METHODS)}
    scores = None if out is None else out / "scores"
    options = {"runs": runs, "dear_runs": dear_runs, "seed": seed, "scores": scores, "progress": _lines, **asked}
    figures = _measure("curves", (bench.run, markdown), out, json, **options)
    if out is not None:
        write_pictures(figures, out)


@app.command()
def peers(
    runs: Annotated[int, typer.Option(min=0, help="Tables of the global question; 0 leaves it out.")] = 10,
    beds: Annotated[list[str] | None, typer.Option(help="A bed; may be repeated.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="A method; may be repeated.")] = None,
    sizes: Annotated[list[int] | None, typer.Option(min=3, help="A number of inputs; may be repeated.")] = None,
    limit: Annotated[float, typer.Option(help="Seconds at 100 inputs, above which a method is not run on more.")] = 20,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Rows, processor seconds, memory and error control of butfor and of other packages, side by side."""
    from butfor.bench.peers import costs
    from butfor.bench.peers import study as bench

    names = {"beds": tuple(beds or costs.BEDS), "methods": tuple(methods or costs.METHODS)}
    options = {"runs": runs, "seed": seed, "sizes": tuple(sizes or costs.SIZES), "limit": limit}
    options |= {"progress": _lines, **names}
    _measure("peers", (bench.run, bench.markdown), out, json, **options)


def _lines(now: Progress) -> None:
    """A line per stage on standard error: these studies take minutes, and may be watched in a log."""
    typer.echo(now.stage, err=True)


def _measure(name: str, study: Study, out: Path | None, json: bool, **options: object) -> Figures:
    """Run a study, write its figures where asked to, and print them."""
    from butfor.bench.output import write_figures
    from butfor.report.write import check_folder

    if out is not None:
        check_folder(out)
    run, markdown = study
    figures = run(**options)
    if out is not None:
        write_figures(name, figures, markdown(figures), out)
    typer.echo(dumps(figures) if json else markdown(figures))
    return figures
