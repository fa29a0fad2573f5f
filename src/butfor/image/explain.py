"""`butfor.image.explain`: from a classifier and photographs to regions with a guarantee, in one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from butfor.evaluation.hypotheses import ProposesTree, is_blind, list_hypotheses
from butfor.evaluation.items import ListItems
from butfor.evaluation.progress import Progress
from butfor.evaluation.samplers import HasNotes, Sampler, SeesRun, info_of
from butfor.image.attributes import with_attributes
from butfor.image.boxes import as_proposer
from butfor.image.cache import cached
from butfor.image.donor import Donor, donor
from butfor.image.files import load_items, propose_regions, source_record
from butfor.image.models import huggingface_classifier, torch_classifier
from butfor.image.plausibility import fills_judged
from butfor.image.region import RegionPacking, check_drawn, kept_regions
from butfor.image.where import Output, explain_where
from butfor.models import Wrapped, wrap
from butfor.models.wrap import model_name
from butfor.results.result import Result
from butfor.results.summary import are_logits, are_probabilities
from butfor.results.words import Note, as_note
from butfor.run.overlap import overlap_note
from butfor.run.proposed import NamedItems, Proposed
from butfor.run.run import RunContext, check_zoom, output_names, resolve, run, target_name, with_layers
from butfor.settings import EffectsOf, Link, OnError, Procedure, RunOptions, Settings, default_test, documented
from butfor.types import Alternative, Family, Floats, InputError


@documented
def explain(
    model: object,
    images: object,
    sampler: object = None,
    *,
    boxes: object = None,
    donors: object = None,
    fills: str | Path | None = None,
    test: str | Procedure | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    groups: ArrayLike | Mapping[Any, Hashable] | None = None,
    weights_by: ArrayLike | Callable[[Any, str], Hashable] | None = None,
    target: Hashable = None,
    y: ArrayLike | None = None,
    link: Link | None = None,
    alpha: float = 0.1,
    decide: Callable[[Any], Any] | Literal[False] | None = None,
    level: float = 0.5,
    simultaneous: bool = False,
    enough: float | None = None,
    min_effect: float | None = None,
    draws: int | None = None,
    bounds: bool = False,
    picked: Callable[[Any], Any] | None = None,
    effects: EffectsOf | None = None,
    seed: int = 0,
    rng: np.random.Generator | np.random.SeedSequence | int | None = None,
    options: RunOptions | None = None,
    workers: object = None,
    run_dir: str | PathLike[str] | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    batch_rows: int | None = None,
    timeout: float | None = None,
    on_error: OnError | None = None,
) -> Result:
    """Test which regions of each image the classifier relies on: but for them its answer would be surprising.

    `test=None` is "few-shot" (1/alpha draws a region), or `butfor.sequential(h=1)` with fewer than 10 images or
    `family="input"`, where few-shot promises nothing. With `boxes="zoom"` it is "sequential", and "osft" for a sampler
    that always draws the same: that is how the paper did it, but Q is then a single point and nothing is promised.
    `target=None` is the class with the largest output over the image *and* its counterfactuals; "observed-class" is the
    paper's, which inflates discoveries. For classes the alternative is "greater" unless you say otherwise. Effects need
    16 fresh draws for each region chosen (200 after "irt" and "sequential"), so they are estimated only on request, and
    never for a sampler that always draws the same.

    Parameters
    ----------
    model : callable, torch.nn.Module or pipeline
        A classifier of `butfor.image`, a torch module, a Hugging Face pipeline, or a function of a list of images.
    images : str, Path, list, dict or ImageFiles
        A folder, a list of files or arrays, a mapping name -> image, or `butfor.image.folder(...)`; files are opened
        one at a time.
    sampler : callable, optional
        Redraws a region given the rest of its image: an inpainter, `donor`, or any function
        `(images, subset, draws, rng) -> images`. Not needed for `boxes="where"`, which makes its own fills.
    boxes : str, Path, list, dict or callable, optional
        What to test: "where" (the default without a sampler: finds the places by itself, from `draws` evaluations of
        each photograph, 250 if None; see `Result.where`), a list, mapping or file for `butfor.image.boxes`, one list of
        boxes for each image, masks, "grid" (three by three, the default with a sampler), "zoom" (coarse to fine: cells
        that split in four where they are chosen), "superpixels", "random", or any function (name, image) -> subsets
        such as `detected_boxes(detector)`.
    donors : str, Path, list or dict, optional
        For "where": further photographs that fills are cut from, beside those of the run without the same class.
    fills : str or Path, optional
        A folder that keeps the sampler's draws, so that another alpha, test or model costs no inpainting.
    effects : {"chosen", "all"}, optional
        Estimate effects from fresh draws for the regions chosen, or for all; None saves those draws.
    {settings}

    Returns
    -------
    Result
        A row of `result.table` for each region of each image; `result.report(path)` has the pictures.

    Examples
    --------
    >>> from butfor.image import donor
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.integers(90, 110, (12, 24, 24, 3), dtype=np.uint8)
    >>> noise[:, :8, :8] += 100  # a bright corner, which is all that the model looks at
    >>> result = explain(lambda batch: [x[:8, :8].mean() for x in batch], list(noise), donor(), alternative="greater")
    >>> result.table[result.chosen].subset.unique().tolist()
    ['row 1 column 1']
    """
    named = locals()
    wrapped, given = classifier(model), load_items(images)
    if boxes is None and sampler is None:
        named["boxes"] = boxes = "where"
    if isinstance(boxes, str) and boxes == "where":
        return _where(wrapped, given, named)
    if donors is not None:
        raise InputError("donors= is for boxes='where'; here the sampler has them: butfor.image.donor(photographs)")
    fixed = info_of(sampler).deterministic
    if fixed and effects is not None:
        raise InputError(
            f"effects need fresh draws, but {sampler!r} always draws the same; wrap it in butfor.image.diversify"
        )
    zooms = isinstance(boxes, ProposesTree) or (isinstance(boxes, str) and boxes == "zoom")
    usual = "sequential" if zooms else "osft" if fixed else default_test(len(given), family, dear=True)
    settings = Settings.of(named, test=usual, alternative=None if target in (None, "output") else "greater")
    whole = info_of(sampler).fills_whole
    proposer = as_proposer(boxes, settings.seed, given.names, whole=whole)
    check_zoom(proposer, settings)
    pixels: dict[str, str] = {}
    proposed = propose_regions(given, proposer, settings.options.on_error, whole=whole, pixels=pixels)
    drawing = prepared(sampler, proposed, fills)
    check = None if info_of(drawing).changes_subset_only else check_drawn
    items = ListItems(proposed.items, check, costly=True, packing=RegionPacking())
    hypotheses = list_hypotheses(items, proposed.names, proposed.subsets, drawing, settings.seed)
    hypotheses = with_layers(hypotheses, proposer, proposed)

    def notes() -> list[Note]:
        given = (proposed.items, proposed.subsets, settings.seed)
        return [*proposed.notes, *map(as_note, drawing.notes(*given) if isinstance(drawing, HasNotes) else [])]

    context = RunContext(
        hypotheses=hypotheses,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=batch_images(proposed),
        describe=lambda row: f"image {proposed.names[row]!r}",
        sampler_notes=notes,
        inputs=source_record(repr(proposer), proposed.items, pixels),
        data_dependent=not is_blind(proposer),
        keep=(3, 2**28),  # counterfactuals of each hypothesis, and values of all of them
        judge=fills_judged,
        other_sampler=None if isinstance(sampler, Donor) else donor().for_run(proposed.items, proposed.subsets),
        parts=None if settings.enough is None else kept_regions(hypotheses),
    )
    result = run(context, settings.for_inputs(given.names, proposed.names))
    more = overlap_note(result) if test is None else []
    return replace(result, run_notes=(*result.run_notes, *more))


NOT_WHERE = ("test", "alternative", "rule", "groups", "weights_by", "link", "enough", "picked", "effects", "fills")


def _where(wrapped: Wrapped, given: NamedItems, named: Mapping[str, Any]) -> Result:
    for name in NOT_WHERE:
        if named[name] is not None:
            raise InputError(
                f"{name}= asks about given regions, and boxes='where' finds its own; give boxes, or drop it"
            )
    donors = getattr(named["sampler"], "reference", None) if named["donors"] is None else named["donors"]
    if named["sampler"] is not None and donors is None:
        raise InputError(
            "boxes='where' makes fills that know nothing of the region, so it takes no sampler; give "
            "donors=photographs to cut fills from, or boxes='grid' with this sampler"
        )
    settings = Settings.of({**named, "min_effect": None, "draws": None}, test="sequential")
    if named["min_effect"] is not None:
        settings = replace(settings, min_effect=Settings.of({"min_effect": named["min_effect"]}).min_effect)

    def outputs(observed: Floats) -> tuple[list[Output], tuple[Any, ...] | None, object]:
        """Return the output that is asked about of each photograph, names of all outputs, the name of the target."""
        count = observed.shape[1]
        if count > 1 and settings.target is None and not wrapped.decides:
            raise InputError(f"the model predicts {count} numbers of each image; name the one to explain: target=0")
        name = target_name(settings.target, count)
        target = resolve(name, settings.y, observed, wrapped)
        columns = observed.argmax(axis=1) if target.classes is None else np.broadcast_to(target.classes, len(observed))
        logits = count > 1 and wrapped.decides and are_logits(observed)
        inside = bool(observed.min() >= 0 and observed.max() <= 1)
        probable = count > 1 and (logits or (inside and wrapped.decides) or are_probabilities(observed))
        return [Output(int(column), logits, probable) for column in columns], output_names(wrapped, count), name

    return explain_where(wrapped, given, donors, settings, named["draws"], outputs)


def classifier(model: Any) -> Wrapped:
    """Wrap a model of images: torch modules and Hugging Face pipelines as images go into them, others as they are."""
    if any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__):
        model = huggingface_classifier(model)
    elif any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__):
        model = torch_classifier(model)
    names = getattr(model, "classes", None)
    return Wrapped(model, tuple(names)) if names is not None and callable(model) else wrap(model)


def prepared(sampler: Any, proposed: Proposed, fills: str | Path | None) -> Sampler:
    """Return the sampler as the run uses it: it can redraw attributes, and its fills are kept in `fills`."""
    if not callable(sampler):
        raise InputError(
            f"sampler must be a function (images, subset, draws, rng) -> images such as butfor.image.donor(), got "
            f"{type(sampler).__name__}"
        )
    able = with_attributes(sampler, proposed.subsets)
    able = able.for_run(proposed.items, proposed.subsets) if isinstance(able, SeesRun) else able
    return able if fills is None else cached(able, fills)


def batch_images(proposed: Proposed) -> int:
    """Return the number of images the model gets at a time where the user does not say."""
    return int(np.clip(2**26 // max(1, proposed.largest), 1, 32))  # 64 MB
