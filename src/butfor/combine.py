"""One selection over many saved results: the chunks of a large table, the jobs of a cluster.

Two passes. The first collects the evidence of every file, a few dozen bytes for each hypothesis (10^7 hypotheses of
single columns with BH are 100 MB), and applies one rule to all of it. The second reads the files again, one at a time,
and keeps the rows of what was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.inference.guarantees import check_alpha, check_rule
from butfor.inference.irt import many_vary
from butfor.inference.selection import Choice, Layers, LearningUnits
from butfor.load import load
from butfor.results.io import write_whole
from butfor.results.result import Result, drops_unvarying
from butfor.results.words import Guarantee, Note
from butfor.types import Array, Bools, Floats, InputError

if TYPE_CHECKING:
    import pandas as pd


SETTINGS = ("test", "alternative", "target", "link", "h", "delta", "picked", "min_effect", "sampler", "controlled")
COLUMNS = ("input", "subset", "resolution", "value", "observed", "draws", "p", "z", "w", "e", "q", "effect",
           "effect_low", "effect_high", "output")  # fmt: skip
INDEPENDENT = ("knockoff+", "seqstep", "adaptive", "adaptive-strict")  # rules that need draws of each file for itself


@dataclass(frozen=True, eq=False)
class Combined:
    """One selection over several results; made by `butfor.combine`."""

    files: tuple[str, ...]  # in the order given; a result that is no file is called by its position
    chosen: tuple[Bools, ...]  # of each file, a value for each row of its table
    table: pd.DataFrame  # the chosen hypotheses: file, input, subset, evidence, q, effect
    alpha: float
    rule: str
    guarantee: Guarantee

    def __repr__(self) -> str:
        size = sum(map(len, self.chosen))
        return f"<butfor.Combined: {len(self.table)} of {size} hypotheses of {len(self.files)} files chosen>"

    def summary(self) -> str:
        """Return the selection in a few lines: how many, which subsets most often, the guarantee."""
        size, most = sum(map(len, self.chosen)), Counter(self.table["subset"].tolist()).most_common(10)
        return "\n".join(
            [
                f"{len(self.table):,} of {size:,} hypotheses of {len(self.files):,} files chosen "
                f"({self.rule}, alpha={self.alpha:g}).",
                *(f"  {name}: {count:,} inputs" for name, count in most),
                str(self.guarantee),
            ]
        )

    def write(self, path: str | Path) -> Path:
        """Write the table of chosen hypotheses and return the path.

        Parameters
        ----------
        path : str or Path
            A file that ends in .csv or .parquet (which needs pyarrow).
        """
        path = Path(path).expanduser()
        if path.suffix.lower() not in (".csv", ".parquet"):
            raise InputError(f"the table is written as .csv or .parquet, got {path.name!r}")
        table = self.table
        if path.suffix.lower() == ".csv":
            return write_whole(path, lambda part: table.to_csv(part, index=False))
        names = {name: str for name in ("input", "value") if table[name].dtype == object}
        try:
            return write_whole(path, lambda part: table.astype(names).to_parquet(part, index=False))  # of one type each
        except ImportError as error:
            raise InputError(f"{path} needs pyarrow; pip install 'butfor[parquet]', or name a .csv file") from error


def combine(results: Sequence[Result | str | Path], alpha: float = 0.1, rule: str | None = None) -> Combined:
    """Choose over many results at once: one rule, one family, one guarantee.

    Each result is an ordinary run on some of the inputs, of the same test, target and sampler, saved by `result.save`.
    What is chosen is what the rule chooses from the evidence of all of them together, as if it came from one run; what
    a run chose by itself does not count. One file is in memory at a time, and of the others their evidence.

    A sequential run stops drawing once its own choice is settled, so its p-values are seldom below 0.001: run chunks
    with `bounds=True`, or with `test="irt"` and enough draws, where few of all hypotheses are signals.

    Parameters
    ----------
    results : sequence of Result, str or Path
        Results of `butfor.explain`, or the files they were saved to. Give each run a `seed` of its own.
    alpha : float, default=0.1
        The error rate to control, over all hypotheses of all results.
    rule : str, default=None
        As in `butfor.explain`; None takes that of the results, and "bh" for sequential runs: their p-values depend on
        the other inputs of their run, so that "adaptive" may not learn from them again.

    Returns
    -------
    Combined
        With `chosen`, `table`, `guarantee`, `summary()` and `write(path)`.

    Examples
    --------
    >>> import butfor, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> rows, reference = pd.DataFrame(rng.normal([5, 0], 1, (60, 2))), rng.normal(size=(200, 2))
    >>> sampler = butfor.tabular.gaussian(pd.DataFrame(reference))
    >>> runs = [butfor.explain(lambda x: x[0], rows[k : k + 30], sampler, seed=k) for k in (0, 30)]
    >>> combine(runs).table.groupby("subset").size().to_dict()
    {'0': 60}
    """
    import pandas as pd

    if isinstance(results, str | Path | Result) or not len(results):
        raise InputError("combine takes a list of results or of files written by result.save; give at least one")
    files = tuple(str(one) if isinstance(one, str | Path) else f"result {k}" for k, one in enumerate(results))
    chosen, q, rule, guarantee = _chosen(files, _read(results), check_alpha(alpha), rule)
    tables = []
    for file, result, bits, least in zip(files, _read(results), chosen, q, strict=True):
        rows = result.table.loc[bits, [name for name in COLUMNS if name in result.table.columns]]
        rows["q"] = least[bits]  # over all results
        rows.insert(0, "file", file)
        tables.append(rows)
    table = pd.concat([rows for rows in tables if len(rows)] or tables[:1], ignore_index=True)
    return Combined(files, chosen, table, alpha, rule, guarantee)


def _read(results: Sequence[Result | str | Path]) -> Iterator[Result]:
    """Yield the results one by one; a file is read anew each time."""
    for one in results:
        result = one if isinstance(one, Result) else load(one)
        if result.record.importance is not None:
            raise InputError(f"combine takes results of butfor.explain, {one} is one of global_importance")
        yield result


def _chosen(
    files: Sequence[str], results: Iterator[Result], alpha: float, rule: str | None
) -> tuple[tuple[Bools, ...], list[Floats], str, Guarantee]:
    """Apply one rule to the evidence of all results; what it chooses of each, q, its name and its guarantee."""
    arrays: dict[str, list[Array]] = {}
    names: set[Any] = set()
    sizes, seeds, promises = list[int](), list[Any](), list[Guarantee]()
    settings: dict[str, Any] | None = None
    for file, result in zip(files, results, strict=True):
        rule = _rule(result, rule) if settings is None else rule
        assert rule is not None
        kind = result.evidence.kind
        here = {name: getattr(result.record, name) for name in SETTINGS} | {
            "evidence": kind,
            "draws": result.record.draws if kind == "w" else None,  # rivals of a few-shot competition
            "zoom": result.hypotheses.layers is not None,
            "subsets": result.subset_names if rule.startswith("adaptive") else None,  # weights are of subsets
        }
        settings = here if settings is None else settings
        for name, value in settings.items():
            if here[name] != value:
                got, before = f"{here[name]!r:.80}", f"{value!r:.80}"
                raise InputError(f"{file} has {name}={got}, {files[0]} has {before}; combine runs of the same settings")
        if twice := [name for name in result.input_names if name in names]:
            raise InputError(f"input {twice[0]!r} of {file} is in another result, too; combine each input once")
        for name, values in _evidence(result, rule, sum(sizes), len(names)).items():
            arrays.setdefault(name, []).append(values)
        names.update(result.input_names)
        sizes.append(len(result.chosen))
        seeds.append(result.record.seed)
        promises.append(replace(result, rule=rule, alpha=alpha, family="run").guarantee)
    assert rule is not None
    assert settings is not None
    joined = {name: np.concatenate(arrays.pop(name)) for name in list(arrays)}
    tested = joined["drawable"]
    varied = tested & joined["varied"]
    if drops_unvarying(rule, "run") and many_vary(varied, joined["input"]):
        tested = varied
    choice = Choice(
        rule,
        alpha,
        layers=Layers(joined["resolution"], joined["parent"]) if "resolution" in joined else None,
        calibrated=joined.get("calibrated"),
        draws=settings["draws"] or 1,
        floor=joined.get("floor"),
        units=LearningUnits(joined["cluster"], joined["label"]) if "cluster" in joined else None,
    )
    chosen, q = choice.chosen(joined["values"], tested), choice.least_alpha(joined["values"], tested)
    filtered = bool((joined["drawable"] & ~tested).any())
    promise = _guarantee(promises, rule, len(set(seeds)) < len(seeds), filtered)
    ends = np.cumsum(sizes)[:-1]
    return tuple(np.split(chosen, ends)), np.split(q, ends), rule, promise


def _rule(result: Result, rule: str | None) -> str:
    """Return the rule to apply, after checking that it has a guarantee for this result's test."""
    test = "irt" if result.exact else result.record.test
    if rule is None:
        rule = "bh" if test == "sequential" and result.rule == "adaptive" else result.rule
    check_rule(test, rule)
    if test == "sequential" and rule == "adaptive":
        raise InputError(
            "rule='adaptive' learns from p-values of a fixed number of draws; use rule='bh', or test='irt'"
        )
    if result.choice is None or result.record.delta is not None:
        raise InputError("a run with early_stop=True stopped drawing once its own choice was settled; run it without")
    return rule


def _evidence(result: Result, rule: str, hypotheses: int, inputs: int) -> dict[str, Array]:
    """Return the arrays (H,) that the rule needs; so many hypotheses and inputs are in the results before."""
    evidence, choice, layers = result.evidence, result.choice, result.hypotheses.layers
    assert choice is not None
    kept: dict[str, Array] = {"values": evidence.scaled, "varied": evidence.varied, "drawable": evidence.drawable}
    kept["input"] = result.input_of + inputs
    if choice.calibrated is not None:
        kept["calibrated"] = choice.calibrated
    if choice.floor is not None:
        kept["floor"] = choice.floor
    if layers is not None:
        kept["resolution"] = layers.resolution
        kept["parent"] = np.where(layers.parent >= 0, layers.parent + hypotheses, -1)
    if rule.startswith("adaptive"):
        clusters = result.input_of if choice.units is None else choice.units.cluster
        kept |= {"cluster": clusters + inputs, "label": result.subset_of}
    return kept


def _guarantee(promises: Sequence[Guarantee], rule: str, same_seed: bool, filtered: bool) -> Guarantee:
    """Return the promise over all results, with the caveats of each."""
    weakest = next((one for one in promises if one.controls == "nothing"), promises[0])
    dropped, shared = Note("filtered", "warning"), Note("same-seed", "warning")
    caveats = [caveat for one in promises for caveat in one.caveats if caveat != dropped]
    distinct = [caveat for k, caveat in enumerate(caveats) if caveat not in caveats[:k]]
    caveats_told = (*((dropped,) if filtered else ()), *distinct)
    over = f"{weakest.family}, {len(promises)} results taken together"
    if same_seed and rule in INDEPENDENT:
        return Guarantee("nothing", weakest.level, over, str(shared).rstrip("."), "nobody", caveats_told, "same-seed")
    return replace(weakest, family=over, caveats=(shared, *caveats_told) if same_seed else caveats_told)
