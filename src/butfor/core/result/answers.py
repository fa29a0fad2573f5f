"""The answer of a run in a few sentences: about decisions, about subsets over all inputs, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.evaluate.outputs import Target, averaged_target
from butfor.core.result.reasons import finest_of, flip_sentence
from butfor.core.types import Bools, Ints

if TYPE_CHECKING:
    from butfor.core.result.result import Result

MOST_INPUTS = 3  # inputs with a sentence of their own in a summary
MOST_NAMED = 3
NEAR = 0.05  # flips of a part that are worth a word
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def answers(result: Result) -> list[str]:
    """What was found, the most telling first; never nothing."""
    decisions, others = decision_sentences(result), [*feature_sentences(result), *row_sentences(result)]
    decided = result.decided
    found = [*decisions, *others] if decided is None or decided.necessary.any() else [*others, *decisions]
    return [*found, *next_steps(result)]


def decision_sentences(result: Result, most: int = MOST_INPUTS) -> list[str]:
    """How many decisions hang on what, and a sentence on an input for each of what they hang on most often."""
    decided = result.decided
    if decided is None:
        return []
    needed = finest_of(result, decided.necessary)
    inputs = np.unique(result.input_of[decided.necessary])
    total = len(result.input_names)
    if not inputs.size:
        none = f"for none of {total} inputs is it" if total > 1 else "it is not"
        return [f"Decision: {none} established what it hangs on.{_nearest(result)}"]
    first = (
        f"Decision: for {_of(len(inputs), total)} it is established what the decision hangs on. {_most(result, needed)}"
    )
    examples = _examples(result, needed, most)
    return [first, *(f"  {result.input_names[i]!r}: {input_sentence(result, i)}" for i in examples)]


def _examples(result: Result, marked: Bools, most: int) -> list[int]:
    """An input for each of the subsets that are marked most often: the one that is surest of it, or of a part of it."""
    decided, rows = result.decided, np.flatnonzero(marked)
    assert decided is not None
    part, layers = np.zeros(len(marked)), result.problem.layers
    if layers is not None:
        np.maximum.at(part, layers.parent, np.nan_to_num(decided.share) * (layers.parent >= 0))
    count = np.bincount(result.subset_of[rows], minlength=len(result.subset_names))
    order = np.argsort(-count, kind="stable")[:most]
    found = []
    for subset in order[count[order] > 0]:
        own = rows[result.subset_of[rows] == subset]
        found.append(int(result.input_of[own[np.lexsort((-part[own], -decided.low[own]))[0]]]))
    return list(dict.fromkeys(found))


def _nearest(result: Result) -> str:
    """The likeliest change of a decision, where none is established; nothing where none was seen."""
    decided = result.decided
    assert decided is not None
    share = np.nan_to_num(decided.share, nan=-1.0)
    if not share.size or share.max() <= 0:
        return ""
    row = int(np.argmax(share))
    return f" The nearest is {result.input_names[int(result.input_of[row])]!r}: {flip_sentence(result, row)}"


def input_sentence(result: Result, place: int) -> str:
    """The strongest but-for reason of one input in words."""
    row = telling_row(result, place)
    return flip_sentence(result, row) + which_of(result, row)


def telling_row(result: Result, place: int) -> int:
    """The strongest but-for reason of one input: its finest necessary subset, else the likeliest one."""
    decided = result.decided
    assert decided is not None
    own = result.input_of == place
    needed = finest_of(result, decided.necessary) & own
    rows = np.flatnonzero(needed if needed.any() else own)
    return int(rows[np.argmax(np.nan_to_num(decided.share[rows], nan=-1.0))])


def which_of(result: Result, row: int) -> str:
    """Of a group none of whose parts is established: that it is not known which of them it is."""
    layers, decided = result.problem.layers, result.decided
    if layers is None or decided is None:
        return ""
    index = getattr(result.problem.block_of(row).subset.index, "size", 1)
    if index < 2:
        return ""
    parts = np.flatnonzero(layers.parent == row)
    parts = parts[np.nan_to_num(decided.share[parts], nan=-1.0) >= NEAR]
    words = f" Which of the {NUMBERS[index] if index < len(NUMBERS) else index} it hangs on is not established"
    if not parts.size:
        return f"{words}."
    likest = int(parts[np.argmax(decided.share[parts])])
    name = result.subset_names[int(result.subset_of[likest])]
    return f"{words}; of its parts {name} comes nearest ({100 * decided.share[likest]:.0f} %)."


def _most(result: Result, marked: Bools) -> str:
    """The subsets that are marked for most inputs; of a single input those that are."""
    one = len(result.input_names) == 1
    count = np.bincount(result.subset_of[marked], minlength=len(result.subset_names))
    strength = np.zeros(len(count))
    if one and result.decided is not None:
        strength[result.subset_of] = np.nan_to_num(result.decided.share)
    order = np.lexsort((-strength, -count))[:MOST_NAMED]
    named = [f"{result.subset_names[j]}" + ("" if one else f" ({count[j]})") for j in order if count[j]]
    left = int((count > 0).sum()) - len(named)
    more = f" and {left} more" if one and left > 0 else ""
    return f"{'In its finest parts' if one else 'Most often'}: {'; '.join(named)}{more}." if named else ""


def feature_sentences(result: Result) -> list[str]:
    """Which subsets set the inputs apart from the reference, in their finest established parts."""
    over = result.over_inputs
    if over is None:
        return []
    chosen = finest_subsets(result, over.chosen)
    if not chosen.size:
        return _averaged_out(result)
    order = chosen[np.argsort(-np.abs(over.effect[chosen]), kind="stable")][:6]
    named = [f"{result.subset_names[j]} ({over.effect[j]:+.3g})" for j in order]
    more = f" and {chosen.size - len(order)} more" if chosen.size > len(order) else ""
    return [
        "Over all inputs: what sets them apart from the reference, and by how much on average"
        f"{_of_class(result)} (established, approximate): {'; '.join(named)}{more}."
    ]


def _of_class(result: Result) -> str:
    """Which of two classes means over inputs are of, where inputs are called either."""
    averaged = features_target(result)
    if averaged.classes is None or (result.outputs.argmax(axis=1) == averaged.classes[0]).all():
        return ""
    return f" for {_called(result, averaged.classes)[0]!r}"


def features_target(result: Result) -> Target:
    """What means over inputs are of, where nothing but the predicted class was asked about."""
    if result.provenance["target"] != "predicted":
        return Target("output")
    return averaged_target(Target("predicted"), result.outputs, result.provenance["link"])


def _called(result: Result, classes: Ints) -> list[Any]:
    names = result.output_names or range(result.outputs.shape[1])
    return [names[place] for place in classes.tolist()]


def _averaged_out(result: Result) -> list[str]:
    """Why nothing may be established over inputs that are called by several classes."""
    called = _called(result, np.unique(result.outputs.argmax(axis=1)))
    if features_target(result).kind != "predicted" or len(called) < 2:
        return []
    return [
        f"Over all inputs nothing is established. They are called {' or '.join(map(str, called))} and each is asked "
        "about its own class, so what speaks for one class and against another averages out; "
        f"target={called[0]!r} asks about one of them for all."
    ]


def finest_subsets(result: Result, chosen: Bools) -> Ints:
    """The subsets chosen (S,) of which no part is chosen."""
    layers, size = result.problem.layers, len(chosen)
    if layers is None:
        return np.flatnonzero(chosen)
    parent = layers.parent[:size]
    return np.flatnonzero(chosen & ~np.isin(np.arange(size), parent[chosen]))


def row_sentences(result: Result) -> list[str]:
    """For how many inputs something was established, in its finest parts."""
    if not result.chosen.any():
        return []
    finest = finest_of(result, result.chosen)
    inputs = len(np.unique(result.input_of[result.chosen]))
    return [
        f"Input by input: something is established for {_of(inputs, len(result.input_names))}. {_most(result, finest)}"
    ]


def next_steps(result: Result) -> list[str]:
    """After a run that established nothing input by input: which depth has an answer, and the call that looks there."""
    steps = next_calls(result, largest=True) if len(result.chosen) and not result.chosen.any() else []
    return [f"Nothing is established input by input. To look at: {'; '.join(steps)}."] if steps else []


def next_calls(result: Result, *, largest: bool) -> list[str]:
    """Where a run that established nothing input by input has an answer or comes near one; its largest effect."""
    steps = []
    over, decided = result.over_inputs, result.decided
    if over is not None and over.chosen.any():
        steps.append("result.features has what is established over all inputs together")
    if decided is not None and decided.necessary.any():
        steps.append("result.table.necessary has what decisions hang on")
    known = np.flatnonzero(np.isfinite(result.effects.effect))
    if known.size:
        row = int(known[np.argmax(np.abs(result.effects.effect[known]))])
        name, subset = result.input_names[int(result.input_of[row])], result.subset_names[int(result.subset_of[row])]
        effect = f"the largest effect is {result.effects.effect[row]:+.3g}, of {subset!r} on input {name!r}"
        steps += [f"{effect} (not established)"] if largest else []
        steps.append(f"result.reasons({name!r}) lists what comes near")
    if decided is None and result.modality == "table":
        one, edge = "outputs" if result.outputs.shape[1] == 1 else "outputs[:, 0]", np.median(result.outputs[:, :1])
        steps.append(f"decide=lambda outputs: {one} >= {edge:.4g} asks what such a decision hangs on, without pooling")
    return steps


def _of(count: int, total: int) -> str:
    return f"{count} of {total} inputs" if total != 1 else "the input"
