"""Check of a sampler: ranks of real words among their draws by the model's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.evaluation.evaluator import Evaluator
from butfor.evaluation.hypotheses import list_hypotheses, rounds
from butfor.evaluation.items import ListItems
from butfor.evaluation.samplers import Sampler, info_of
from butfor.results.result import Places
from butfor.text.explain import as_proposer, batch_rows_of, load_items, propose_spans
from butfor.text.models import text_model
from butfor.types import InputError, whole


@dataclass(frozen=True, eq=False)
class WordRanks(Places):
    """Counts of real words that rank first (output furthest from the mean of all), ... last. Made by `ranks`."""

    what = "words"


def ranks(
    model: Any, texts: Any, sampler: Sampler, *, units: Any = "word", draws: int = 5, seed: int = 0, each: int = 10
) -> WordRanks:
    """Rank real words among their draws, by how far the output is from the mean of all of them.

    Important words rank first. What is not important ranks anywhere, so an excess at the bottom says that fills are not
    like real words, whatever the model relies on. Ties are broken at random, and words that no draw changes the output
    of are left out.

    Parameters
    ----------
    model, texts, sampler, units : see `butfor.text.explain`
        As in `butfor.text.explain`; the model has one output.
    draws : int
        Draws that each word is ranked among.
    seed : int
        The same seed gives the same ranks.
    each : int
        Words of a text that are tested at most, picked at random.

    Returns
    -------
    WordRanks
        The counts, with `.ok` and `.summary()`.

    Examples
    --------
    >>> from butfor.simulate.texts import sentences
    >>> bed = sentences(seed=0, inputs=60)
    >>> check = ranks(bed.model, bed.inputs, bed.sampler)
    >>> check.ok, check.total > 300
    (True, True)
    """
    whole("draws", draws, 2)
    whole("each", each, 1)
    proposed = propose_spans(load_items(texts), as_proposer(units, info_of(sampler).tokenizer), "raise", [])
    pick = np.random.default_rng([seed, 1])
    picked = [[tested[i] for i in sorted(pick.permutation(len(tested))[:each].tolist())] for tested in proposed.subsets]
    hypotheses = list_hypotheses(ListItems(tuple(proposed.items)), proposed.names, picked, sampler, seed)
    call = text_model(model).call
    outputs = np.asarray(call(hypotheses.items.block(0, 1))).reshape(1, -1).shape[1]
    if outputs > 1:
        raise InputError(f"the model has {outputs} outputs; wrap it to return one: lambda texts: model(texts)[:, 1]")
    positions, rng = [], np.random.default_rng(seed)
    evaluator = Evaluator(call, batch_rows_of(proposed), 1)
    for _, answers in evaluator.outputs(hypotheses, rounds(hypotheses.blocks, draws, draws)):
        distance = np.abs(answers[0, :, 0] - answers[0, :, 0].mean())  # symmetric in the word and its draws
        if np.ptp(answers) > 0:
            further, ties = int((distance[1:] > distance[0]).sum()), int((distance[1:] == distance[0]).sum())
            positions.append(further + int(rng.integers(ties + 1)))
    if not positions:
        raise InputError("no draw changed any output: the model looks at none of these words")
    return WordRanks(np.bincount(positions, minlength=draws + 1))
