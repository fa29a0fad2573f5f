"""Images with a known answer: the false discovery rate holds with the exact sampler and breaks with a smearing one."""

import numpy as np
import pytest

pytest.importorskip("PIL", reason="the image extra is not installed")

import butfor.image as bi
from butfor.image import explain
from butfor.image.region import mask_of
from butfor.simulate.images import smear, textures

RUNS = {"osft": 60, "few-shot": 60, "sequential": 30}
ALPHA = 0.2
INPUTS = {"osft": 20, "few-shot": 20, "sequential": 10}
FLOOR = {"osft": 0.40, "few-shot": 0.45, "sequential": 0.30}  # power


def rates(test, seeds, sampler=None):
    """False discovery proportion and power of each run, (runs, 2)."""
    found = []
    for seed in seeds:
        bed = textures(seed, inputs=INPUTS[test])
        result = explain(
            bed.model,
            bed.inputs,
            sampler or bed.sampler,
            boxes=bed.boxes,
            test=test,
            alpha=ALPHA,
            seed=seed,
            batch_rows=1024,
        )
        assert result.record.target == "predicted"
        truth = bed.truth.ravel()
        found.append(
            ((result.chosen & ~truth).sum() / max(1, result.chosen.sum()), result.chosen[truth].mean()),
        )
    return np.array(found)


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
@pytest.mark.parametrize("test", ["osft", "few-shot", "sequential"])
def test_the_rate_holds_with_the_exact_sampler(test):
    false, power = rates(test, range(RUNS[test])).T
    assert false.mean() <= ALPHA + 2 * false.std(ddof=1) / np.sqrt(len(false))
    assert power.mean() >= FLOOR[test]


@pytest.mark.filterwarnings("ignore::butfor.ReachWarning")
@pytest.mark.parametrize("test", ["osft", "few-shot", "sequential"])
def test_an_inpainter_that_smears_makes_plain_patches_important(test):
    """The paper's airship: where fills are implausible, what they replace looks important."""
    false, _ = rates(test, range(3), smear).T
    assert false.mean() > 0.5


def test_patches_that_the_model_does_not_look_at_are_never_chosen():
    bed = textures(0, share=1.0)
    result = explain(bed.model, bed.inputs, smear, boxes=bed.boxes, alpha=ALPHA)
    unused = ~bed.truth.ravel()
    assert unused.sum() == 160
    assert not result.chosen[unused].any()


# A limit, pinned: regions that were picked by what they hold (docs/which-question.md, "Picked inputs")


def blocks(rng):
    """An image of 8 x 8 independent blocks of one grey each."""
    return np.repeat(np.kron(rng.integers(40, 216, (8, 8)), np.ones((12, 12), int))[..., None], 3, axis=2).astype("u1")


def redrawn(images, subset, draws, rng):
    """The exact law of what is in a region, whatever is around it: every null is true."""
    mask = mask_of(subset, 96, 96)[..., None]
    return [np.where(mask, blocks(rng), image) for image in images for _ in range(draws)]


def false_runs(boxes):
    found = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        images = [blocks(rng) for _ in range(8)]
        settings = {"alternative": "greater", "test": "few-shot", "seed": seed}
        result = bi.explain(light, images, redrawn, boxes=boxes, **settings)
        found += bool(result.chosen.any())
    assert result.record.data_dependent == ("picked by its content" in str(result.guarantee))
    return found, result.record.data_dependent


def light(batch):
    return [float(image.mean()) for image in batch]


def test_regions_that_follow_what_they_hold_are_chosen_falsely_and_the_guarantee_says_so():
    assert false_runs(bi.superpixels(16, method="felzenszwalb")) == (6, True)
    found, data_dependent = false_runs(bi.grid(3))
    assert found <= 2
    assert not data_dependent
