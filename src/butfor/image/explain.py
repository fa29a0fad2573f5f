"""The public edge for images: one call from a classifier and photographs to regions with a guarantee."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from butfor.run.settings import checked, is_ours, labels_left, model_name, one_of
from butfor.run.progress import Progress
from butfor.run.run import Setting, run
from butfor.core.draw.blocks import list_problem
from butfor.core.result.result import Result
from butfor.core.types import Alternative, Batch, Family, InputError, Sampler, Test
from butfor.image.attributes import WithAttributes, with_attributes
from butfor.image.cache import Cached, cached
from butfor.image.checked import check_drawn
from butfor.image.models import huggingface_classifier, torch_classifier
from butfor.image.opened import opened
from butfor.image.proposed import OnError, Proposed, as_subsets, proposed
from butfor.image.view import View
from butfor.models import Wrapped, wrap

HELD_VALUES = 2**26  # values of the images that the model is given at a time: 64 MB
MOST_ROWS = 32


def explain(
    model: Any,
    images: Any,
    sampler: Any,
    *,
    boxes: Any = None,
    test: Test | None = None,
    alternative: Alternative | None = None,
    rule: str | None = None,
    family: Family = "run",
    target: Any = None,
    y: Any = None,
    link: Literal["logit", "log"] | None = None,
    alpha: float = 0.1,
    draws: int | None = None,
    center: int | None = None,
    h: int = 10,
    early_stop: bool = False,
    delta: float = 0.01,
    scale: Literal["shrunk"] | None = None,
    picked: Callable[[Any], Any] | None = None,
    seed: int = 0,
    batch_rows: int | None = None,
    run_dir: str | Path | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    keep_effects: bool = False,
    fills: str | Path | None = None,
    on_error: OnError = "raise",
) -> Result:
    """Which regions of each image the classifier relies on: those but for which its answer would be surprising.

    `images` is a folder, a list of files or arrays, a mapping name -> image, or `butfor.image.folder(...)`; files are
    opened one at a time. `boxes` says what to test: a list, mapping or file for `butfor.image.boxes`, masks, "grid"
    (three by three, the default), "superpixels", "random", or any function (name, image) -> subsets such as
    `detected_boxes(detector)`. `sampler` redraws a region given the rest of its image: an inpainter, `donor`, your own
    `(images, subset, draws, rng) -> images`. `fills` is a folder that keeps its draws, so that another alpha, test or
    model costs no inpainting.

    `test=None` is "few-shot" (1/alpha draws a region), and "osft" for a sampler that always draws the same: that is how
    the paper did it, but Q is then a single point and nothing is promised. `target=None` is the class with the largest
    output over the image *and* its counterfactuals; "observed-class" is the paper's, which inflates discoveries. For
    classes the alternative is "greater" unless you say otherwise. Effects need 16 fresh draws for each region chosen
    (200 after "irt" and "sequential"), so they are estimated only with `keep_effects=True`, and never for a sampler
    that always draws the same. `on_error="skip"` leaves out images that cannot be read or whose regions do not fit,
    with a warning and a note. Everything else is as in `butfor.explain`.

    >>> from butfor.image import donor
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.integers(90, 110, (12, 24, 24, 3), dtype=np.uint8)
    >>> noise[:, :8, :8] += 100  # a bright corner, which is all that the model looks at
    >>> result = explain(lambda batch: [x[:8, :8].mean() for x in batch], list(noise), donor(), alternative="greater")
    >>> result.table[result.chosen].subset.unique().tolist()
    ['row 1 column 1']
    """
    one_of("on_error", on_error, ("raise", "skip"))
    fixed = bool(getattr(sampler, "deterministic", False))
    if keep_effects and fixed:
        raise InputError(
            f"keep_effects needs fresh draws, but {sampler!r} always draws the same; wrap it in butfor.image.diversify"
        )
    asked = checked(
        test=test or ("osft" if fixed else "few-shot"),
        alternative=alternative or (None if target in (None, "output") else "greater"),
        rule=rule,
        family=family,
        link=link,
        alpha=alpha,
        draws=draws,
        center=center,
        h=h,
        early_stop=early_stop,
        delta=delta,
        scale=scale,
        picked=picked,
        seed=seed,
        batch_rows=batch_rows,
    )
    wrapped, chosen = classifier(model), as_subsets(boxes, asked.seed)
    given = opened(images)
    found = proposed(given, chosen, on_error)
    y = labels_left(y, given.names, found.images.names)
    drawing = prepared(sampler, found, fills)
    check = None if is_ours(sampler) else check_drawn
    problem = list_problem(found.images, found.images.names, found.subsets, drawing, asked.seed, check)
    setting = Setting(
        problem=problem,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=rows_at_a_time(found),
        describe=lambda row: f"image {found.images.names[row]!r}",
        show=_as_list,
        look=cache(partial(_look, found, sampler)),  # judging all regions takes seconds
        facts={
            "modality": "image",
            "boxes": repr(chosen),
            "looked": not getattr(chosen, "blind", False),
            "files": found.images.paths(),
            "longest": found.images.longest,
            "most_pixels": found.images.most_pixels,
        },
        view=View(wrapped.call),
    )
    return run(setting, asked, target=target, y=y, progress=progress, keep_effects=keep_effects, run_dir=run_dir)


def classifier(model: Any) -> Wrapped:
    """A model of images: torch modules and Hugging Face pipelines as images go into them, others as they are."""
    if any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__):
        model = huggingface_classifier(model)
    elif any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__):
        model = torch_classifier(model)
    names = getattr(model, "classes", None)
    return Wrapped(model, tuple(names)) if names is not None and callable(model) else wrap(model)


def prepared(sampler: Any, found: Proposed, fills: str | Path | None) -> Sampler:
    """The sampler, able to redraw attributes where there are some, with its fills kept where that is asked for."""
    if not callable(sampler):
        raise InputError(
            f"sampler must be a function (images, subset, draws, rng) -> images such as butfor.image.donor(), got "
            f"{type(sampler).__name__}"
        )
    inner = sampler.sampler if isinstance(sampler, Cached) else sampler
    some = any(hasattr(subset.index, "transform") for own in found.subsets for subset in own)
    if some and not isinstance(inner, WithAttributes):
        sampler = with_attributes(sampler)
    return sampler if fills is None else cached(sampler, fills)


def rows_at_a_time(found: Proposed) -> int:
    """Images the model gets at a time where the user does not say: about 64 MB of them."""
    return int(np.clip(HELD_VALUES // max(1, found.largest), 1, MOST_ROWS))


def _look(found: Proposed, sampler: Any) -> list[str]:
    """Sentences on the images, and on regions that a filter of draws would not let through."""
    notes = list(found.notes)
    inner = sampler.sampler if isinstance(sampler, Cached) else sampler
    below = inner.unlike(found.images, found.subsets) if hasattr(inner, "unlike") else 0
    if below:
        notes.append(
            f"{below} of {sum(map(len, found.subsets))} regions are not plausible as they are: no counterfactual can "
            "be like them, so a discovery there may say no more than that; leave them out, or lower the threshold."
        )
    return notes


def _as_list(batch: Batch) -> Batch:
    return list(batch)
