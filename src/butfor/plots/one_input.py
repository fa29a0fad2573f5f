"""Plots of one input, or prompt: what each part does to its output, with intervals; what is no finding is grey."""

from __future__ import annotations

from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from butfor.plots import style
from butfor.plots.style import styled
from butfor.results import view
from butfor.results.result import NO_SETS, Result
from butfor.results.summary import are_probabilities, number
from butfor.results.words import listed
from butfor.types import Floats, InputError, Ints, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from butfor.context.result import ContextResult


@styled
def bar(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw a bar per subset of one input: its effect with the 95 % interval, unusual ones in blue.

    Parameters
    ----------
    input : object, optional
        The name of the input; by default the one with most to show.
    most : int, default=12
        Bars at most, unusual ones first.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> bar(result, 0).get_xlabel()
    'change in the output'
    """
    index, rows, left = _shown(result, input, most)
    effects, ax = result.effects, _bars(result, rows, 0.0, ax)
    style.intervals(ax, effects.low[rows], effects.high[rows])
    ax.axvline(0, color=style.INK, linewidth=0.7)
    style.x_label(ax, view.effect_label(result))
    more = f"; {left} more" if left else ""
    style.heading(ax, f"{style.short(view.input_title(result, index), 34)}: grey is not unusual{more}")
    return ax


@styled
def effects_from_output(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw a bar per subset of one input, from where the output would be but for the subset to where it is.

    Every bar ends at the observed output. Effects given the rest of the input do not add up to it, and are not drawn
    as if they did.

    Parameters
    ----------
    input : object, optional
        The name of the input; by default the one with most to show.
    most : int, default=12
        Bars at most, unusual ones first.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> effects_from_output(result, 0).get_xlabel()
    'output'
    """
    _, rows, _ = _shown(result, input, most)
    effects, observed = result.effects, result.evidence.observed[rows]
    without = observed - effects.effect[rows]
    ax = _bars(result, rows, without, ax)
    style.intervals(ax, observed - effects.high[rows], observed - effects.low[rows])
    ax.plot(without, range(len(rows)), "o", markersize=2.6, color=style.INK, label="but for it, on average")
    ax.axvline(float(observed[0]), color=style.OTHER, linewidth=1.2, label=f"observed {number(observed[0])}")
    style.x_label(ax, view.output_label(result))
    style.key(ax)
    return ax


def _shown(result: Result, input: object, most: int) -> tuple[int, Ints, int]:
    """Return the index of an input, its strongest rows with an effect, and how many are left out."""
    index = view.input_index(result, input)
    known = view.rows_of(result, index)
    known = known[np.isfinite(result.effects.effect[known])]
    if not len(known):
        raise InputError(style.NO_EFFECTS)
    rows = view.strongest(result, known, view.unusual(result), most)
    return index, rows, len(known) - len(rows)


def _bars(result: Result, rows: Ints, left: ArrayLike, ax: Axes | None) -> Axes:
    """Draw a bar per effect that begins at `left`: unusual ones in blue."""
    names = [style.label(result, row) for row in rows.tolist()]
    return style.bars(ax, names, result.effects.effect[rows], view.unusual(result)[rows], left)


@styled
def null(
    result: Result, input: object, subset: str, *, outputs: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the outputs of counterfactuals of one hypothesis, and mark the observed output.

    Parameters
    ----------
    input : object
        The name of the input, as in the table.
    subset : str
        The name of the subset, as in the table.
    outputs : array-like, optional
        The outputs of more counterfactuals, such as `model(result.counterfactuals(input, subset, 10))`; by default
        those of the few that the run kept, since a plot calls no model.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> null(result, 0, "x0").get_xlabel()
    'output'
    """
    row = result.row(input, subset)
    drawn = _tested(result, row, outputs)
    observed, ax = float(result.evidence.observed[row]), style.axes(ax, (style.WIDTH, 1.9))
    if len(drawn) >= 20:
        bins = min(40, max(10, len(drawn) // 12))
        ax.hist(drawn, bins=bins, color=style.REST, label=f"{len(drawn):,} counterfactuals")
        ax.set_ylabel("counterfactuals")
    else:
        ax.plot(drawn, np.zeros(len(drawn)), "o", color=style.SOFT, markersize=5, label=f"{len(drawn)} counterfactuals")
        ax.set_yticks([])
        ax.set_ylim(-1, 1.6)
    ax.axvline(observed, color=style.OTHER, linewidth=1.4, label=f"observed {number(observed)}")
    style.x_label(ax, view.output_label(result))
    evidence = f"{view.EVIDENCE[result.evidence.kind]} {number(result.evidence.values[row])}"
    status = "unusual" if result.chosen[row] else "not unusual"
    style.heading(ax, f"{style.label(result, row)}: {status} ({evidence})", pad=16)
    style.key(ax)
    return ax


def _tested(result: Result, row: int, outputs: ArrayLike | None) -> Floats:
    """Return what a hypothesis is about, on the scale of its test, of outputs (n,) or (n, outputs); None: of the run's
    draws."""
    if outputs is None and row not in result.kept:
        raise InputError("the run kept no counterfactuals of this hypothesis; give outputs= of some that you draw")
    every = np.asarray(result.kept.outputs(row) if outputs is None else outputs, dtype=np.float64)
    every = every.reshape(len(every), -1)
    drawn = every[:, int(result.evidence.classes[row]) if every.shape[1] > 1 else 0]
    if result.record.link == "logit":
        return np.asarray(np.log(np.clip(drawn, 1e-12, None)) - np.log(np.clip(1 - drawn, 1e-12, None)))
    return np.log(np.clip(drawn, 1e-300, None)) if result.record.link == "log" else drawn


@styled
def draws(
    result: Result, input: object, column: str, *, outputs: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the output against the value of one column: of the input itself, and of its counterfactuals.

    The rest of the input stays as it is: this is its individual conditional expectation (ICE), at values that the
    sampler draws for it. Shown are the first draws of the run, those nearest to the input that change its decision, and
    the threshold of the decision where it is one of two classes.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` on a table.
    input : object
        The name of the input, as in the table.
    column : str
        The name of a column that was tested by itself.
    outputs : array-like, optional
        The outputs of more draws, `model(result.counterfactuals(input, column, n))`; by default those of the few that
        the run kept, since a plot calls no model.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, subsets="columns")
    >>> draws(result, 0, "x0").get_ylabel()
    'output'
    """
    row = result.row(input, result.subset_names[style.one_column(result, column, "draws")])
    heights = _tested(result, row, outputs)
    index, items, decided = int(result.input_of[row]), result.hypotheses.items, result.decided
    observed, subset = items.block(index, index + 1), result.hypotheses.block_of(row).subset
    if outputs is None:
        drawn = items.shown(result.kept.whole(result.hypotheses, row))
    else:
        drawn = result.counterfactuals(input, column, len(heights))
    batches, count = [items.shown(observed), drawn], len(heights)
    if decided is not None and row in decided.nearest:
        made = np.asarray(items.unpack(decided.nearest[row].pieces, observed[0], subset))
        batches.append(items.shown(items.whole(made, observed, subset)))
        heights = np.append(heights, _tested(result, row, decided.nearest[row].outputs))
    cells = np.concatenate([np.asarray(rows, dtype=object) for rows in batches])[:, int(subset.index[0])].tolist()
    ax, y = style.axes(ax, (style.WIDTH, 2.3)), np.append(result.evidence.observed[row], heights)
    x, numbers = style.column_axis(ax, column, cells)
    if numbers:  # the rest stays, so the output is a function of them
        order = np.argsort(x)
        ax.plot(x[order], y[order], color=style.REST, linewidth=0.8, zorder=1)
    ax.plot(x[1 : count + 1], y[1 : count + 1], "o", color=style.SOFT, markersize=3, label=f"{count} draws")
    if len(y) > count + 1:
        near = "nearest with another decision"
        ax.plot(x[count + 1 :], y[count + 1 :], "o", color=style.CHOSEN, markersize=4, label=near)
    ax.plot(x[:1], y[:1], "D", color=style.OTHER, markersize=5, label=f"observed {view.value_text(cells[0])}")
    by_class = decided is not None and not result.record.decisions and result.outputs.shape[1:] == (2,)
    if by_class and are_probabilities(result.outputs):
        half = float(_tested(result, row, [[0.5, 0.5]])[0])
        ax.axhline(half, color=style.OTHER, linewidth=1.0, linestyle="--", label="decision changes")
    ax.set_ylabel("\n".join(wrap(view.output_label(result), 30)), parse_math=False)
    style.heading(
        ax, f"{style.short(view.input_title(result, index), 30)}: all but {style.short(column)} as it is", pad=26
    )
    style.key(ax)
    return ax


@styled
def decision(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw the probability that the decision would have been otherwise, but for each subset, and the level.

    Of one input: with intervals, in blue where a part is decisive. Of all (no input named, and more than one in the
    run): a dot per input, with for how many a part is decisive.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with a decision (a classifier, or `decide=`).
    input : object, optional
        The name of the input; by default all of them.
    most : int, default=12
        Lines at most.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, decide=lambda outputs: outputs > 2)
    >>> decision(result, 0).get_xlabel()
    'probability of another\\ndecision, but for it'
    """
    decided = result.decided
    if decided is None:
        raise InputError("this run asked about no decision; give decide=, such as lambda outputs: outputs >= 0.4")
    if input is None and len(result.input_names) > 1:
        size, known = len(result.subset_names), np.isfinite(decided.share)
        needed = np.bincount(result.subset_of, weights=decided.necessary, minlength=size).astype(np.int64)
        mean = np.bincount(result.subset_of[known], weights=decided.share[known], minlength=size)
        subsets = np.lexsort((-mean, -needed))[:most]
        names = [result.subset_names[j] for j in subsets]
        ax = style.axes(ax, style.tall(names, 0.12, 0.85))
        for line, subset in enumerate(subsets.tolist()):
            rows = np.flatnonzero((result.subset_of == subset) & known)
            style.dots(ax, decided.share[rows], line + style.beside(len(rows), 0.3), decided.necessary[rows])
        style.name_lines(ax, names, needed[subsets] > 0)
        style.counts_beside(ax, needed[subsets], len(result.input_names))
        style.heading(ax, "a dot is an input; blue: decisive, for so many", pad=13)
    else:
        index = view.input_index(result, input)
        rows = view.rows_of(result, index)
        rows = rows[np.lexsort((-np.nan_to_num(decided.share[rows], nan=-1.0), ~decided.necessary[rows]))][:most]
        names, sure = [style.label(result, row) for row in rows.tolist()], decided.necessary[rows]
        ax = style.axes(ax, style.tall(names, rest=0.85))
        style.with_intervals(ax, decided.share[rows], decided.low[rows], decided.high[rows], sure)
        style.name_lines(ax, names, sure)
        title = style.short(view.input_title(result, index), 34)
        style.heading(ax, f"{title}: blue is decisive; 95 % intervals", pad=13)
    ax.axvline(decided.level, color=style.OTHER, linewidth=1.0, linestyle="--", zorder=1)
    place: Any = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom", "fontsize": 6.5}
    ax.text(decided.level, 1.005, f"level {decided.level:g}", color=style.OTHER, **place)
    ax.set_xlim(-0.03, 1.03)
    style.x_label(ax, "probability of another decision, but for it")
    return ax


@styled
def enough(result: Result, input: object = None, *, most: int = 12, ax: Axes | None = None) -> Axes:
    """Draw which columns are enough for the decision: kept, with all others redrawn, the decision stays.

    Of one input: the probability of that with its 95 % interval, in blue where it is surely above the level, for its
    smallest sets or for the one that comes closest; and the base rate, how often the decision comes up anyway. Of all
    (no input named, and more than one in the run): for how many inputs each set is enough.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with a decision (a classifier, or `decide=`) and reference data.
    input : object, optional
        The name of the input; by default all of them.
    most : int, default=12
        Sets at most.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 2))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0], rows, decide=lambda outputs: outputs > 2)
    >>> enough(result, 0).get_xlabel()
    'probability that the decision\\nstays, if only this is kept'
    """
    sets, total = result.sets, len(result.input_names)
    if sets is None:
        raise InputError(NO_SETS)
    by_input = [sets.enough(index) for index in range(total)]
    if input is None and total > 1:
        count = Counter(one.columns for kept in by_input for one in kept)
        if not count:
            raise InputError(f"no set is enough for any of {total} inputs; name one of them to see what comes closest")
        names = [listed(columns) or "no column" for columns, _ in count.most_common(most)]
        numbers, none = [number for _, number in count.most_common(most)], sum(not kept for kept in by_input)
        ax = style.axes(ax, style.tall(names))
        ax.barh(range(len(names)), numbers, color=style.CHOSEN, height=0.64)
        style.name_lines(ax, names, [True] * len(names))
        style.counts_beside(ax, numbers, total)
        style.x_label(ax, "inputs for which it is enough")
        more = len(count) - len(names)
        style.heading(ax, f"{more} more sets; " * bool(more) + f"no set is enough for {none} of {total}")
        return ax
    index = view.input_index(result, input)
    kept = (by_input[index] or tuple(one for one in sets.sets if one.input == index))[:most]
    if not kept:
        raise InputError(f"no set of columns was tried for input {result.input_names[index]!r}; its status says why")
    names = [listed(one.columns) or "no column" for one in kept]
    stay, low, high = (np.array([getattr(one, name) for one in kept]) for name in ("stay", "low", "high"))
    ax = style.axes(ax, style.tall(names, rest=1.0))
    ax.axvspan(sets.base_low[index], sets.base_high[index], color=style.REST, alpha=0.3, linewidth=0)
    ax.axvline(sets.base[index], color=style.SOFT, linewidth=0.8, linestyle=":")
    ax.axvline(sets.level, color=style.OTHER, linewidth=1.0, linestyle="--", label=f"level {sets.level:g}")
    ax.fill_between([], [], [], color=style.REST, alpha=0.3, linewidth=0, label=f"base rate {number(sets.base[index])}")
    style.with_intervals(ax, stay, low, high, np.array([one.enough for one in kept]))
    style.name_lines(ax, names, [one.enough for one in kept])
    ax.set_xlim(-0.03, 1.03)
    style.x_label(ax, "probability that the decision stays, if only this is kept")
    style.heading(ax, f"{style.short(view.input_title(result, index), 34)}: blue is enough", pad=16)
    style.key(ax)
    return ax


@styled
def resolutions(result: Result, input: object = None, *, ax: Axes | None = None) -> Axes:
    """Draw the tree of subsets from coarse (left) to fine (right), and what is unusual at each resolution.

    Of one input: blue where unusual. Of all: the darker the blue, the more inputs, with their number.

    Parameters
    ----------
    result : Result
        Of `butfor.explain` with reference data, or `subsets="zoom"`, or a nested mapping.
    input : object, optional
        The name of the input; by default all of them, or the only one.

    Examples
    --------
    >>> import butfor
    >>> rows = np.random.default_rng(0).normal(size=(60, 3))
    >>> result = butfor.explain(lambda X: X[:, 0], rows[:3] + [4, 0, 0], rows)
    >>> resolutions(result, 0).get_xlabel()
    'resolution'
    """
    from matplotlib.patches import Rectangle

    layers, size = result.hypotheses.layers, len(result.subset_names)
    if layers is not None and result.hypotheses.size != size * len(result.input_names):
        raise InputError("each input of this run has subsets of its own and no tree is common; see result.report")
    if layers is None:
        zoom = {"image": "boxes='zoom'", "text": "units='zoom'"}
        option = zoom.get(result.modality, "subsets='zoom' or a nested mapping")
        raise InputError(f"this run has one resolution only; use {option}")
    parent, depth = view.parents(result), layers.resolution[:size]
    single = input is not None or len(result.input_names) == 1
    index = view.input_index(result, input) if single else -1
    sure = result.chosen & (result.input_of == index) if single else result.chosen
    count, total = np.bincount(result.subset_of[sure], minlength=size), 1 if single else len(result.input_names)
    top, height, order = _stacked(result)
    ax, last = style.axes(ax, style.tall([""] * len(order), 0.05)), int(depth.max())
    right = np.full(size, last + 1)  # a box ends where its parts begin
    np.minimum.at(right, parent[parent >= 0], depth[parent >= 0])
    for j in range(size):
        wide, share = int(right[j] - depth[j]), count[j] / total
        colour, alpha = (style.CHOSEN, 0.35 + 0.65 * share) if count[j] else (style.FAINT, 1.0)
        corner = (int(depth[j]), top[j])
        look: Any = {"facecolor": colour, "edgecolor": style.PAPER, "linewidth": 0.8, "alpha": alpha}
        ax.add_patch(Rectangle(corner, wide, height[j], **look))
        if not single:
            ink = style.PAPER if share > 0.45 else style.INK if count[j] else style.SOFT
            middle = (corner[0] + wide / 2, corner[1] + height[j] / 2)
            ax.text(*middle, f"{count[j]}", ha="center", va="center", color=ink, fontsize=6.5)
    if single:
        rows = view.rows_of(result, index)
        names = [style.label(result, int(rows[result.subset_of[rows] == j][0])) for j in order]
    else:
        names = [result.subset_names[j] for j in order]
    style.name_lines(ax, names, count[order] > 0, at=[top[j] + 0.5 for j in order])
    ax.yaxis.tick_right()
    ax.set_ylim(len(order), 0)
    ax.set_xlim(0, last + 1)
    ax.set_xticks(np.arange(last + 1) + 0.5, ["all", *map(str, range(1, last))] + (["finest"] if last else []))
    ax.set_xlabel("resolution")
    ax.spines[["left", "bottom"]].set_visible(False)
    name = f"{style.short(view.input_title(result, index), 34)}: blue is unusual"
    style.heading(ax, name if single else "inputs in which it is unusual")
    return ax


def _stacked(result: Result) -> tuple[Ints, Ints, Ints]:
    """Return of each subset (S,) where its box begins and how high it is, in lines; and the finest, top to bottom."""
    order, parent = view.tree_order(result)[0], view.parents(result)
    finest = order[np.isin(order, style.leaves(result))]
    top, height = np.full(len(parent), len(finest)), np.zeros(len(parent), np.int64)
    for line, subset in enumerate(finest.tolist()):
        while subset >= 0:
            top[subset], height[subset] = min(top[subset], line), height[subset] + 1
            subset = int(parent[subset])
    return top, height, finest


@styled
def context(result: ContextResult, input: str | None = None, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how often the answer of a prompt would have been another, but for each part, with 95 % intervals.

    Parameters
    ----------
    result : ContextResult
        Of `butfor.context.explain`.
    input : str, optional
        The name of the prompt; the first one by default.
    most : int, default=20
        Parts at most: the largest shares, in the order of the prompt.

    Examples
    --------
    >>> import butfor
    >>> made = butfor.context.prompt({"passage 1": "Lisbon: 4417.", "passage 2": "Rome: 2290."}, question="Lisbon?")
    >>> reader = lambda prompts: ["4417" if "4417" in one else "unknown" for one in prompts]
    >>> result = butfor.context.explain(reader, made, ["Oslo: 1200.", "Bern: 9310.", "Riga: 5000."])
    >>> [label.get_text() for label in context(result).get_yticklabels()]
    ['passage 1', 'passage 2']
    """
    whole("most", most, 1)
    if not hasattr(result, "questions"):
        raise InputError(f"context draws a result of butfor.context.explain, got {result!r:.60}; decision draws others")
    index = 0 if input is None else result.position(input)
    parts = [part for part in result.parts if part.prompt == index and part.draws and len(part.members) == 1]
    if not parts:
        raise InputError(f"no single part of {result.names[index]!r} was tested; run without parts='zoom' or a budget")
    shown = sorted(sorted(range(len(parts)), key=lambda k: -parts[k].flip)[:most])
    kept = [parts[k] for k in shown]
    sure = [part.necessary for part in kept]
    ax = style.axes(ax, style.tall([part.name for part in kept], rest=1.0))
    ax.axvline(result.level, color=style.OTHER, linewidth=1.0, linestyle="--", label=f"level {result.level:g}")
    flip, low, high = (np.array([getattr(part, name) for part in kept]) for name in ("flip", "flip_low", "flip_high"))
    style.with_intervals(ax, flip, low, high, np.array(sure))
    style.name_lines(ax, [part.name for part in kept], sure)
    ax.set_xlim(-0.03, 1.03)
    style.x_label(ax, "share of foils with another answer")
    more = f"; {len(parts) - len(kept)} more parts" * (len(parts) > len(kept))
    answer = style.short(" ".join(result.answers[index].split()), 24)
    style.heading(ax, f"{style.short(result.names[index], 24)}: {answer!r}, blue is decisive{more}", pad=16)
    style.key(ax)
    return ax
