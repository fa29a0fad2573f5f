"""Fills on disk: found again when nothing that decides them has changed, and only then."""

import os
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest

import butfor
import butfor.image as bi
from butfor import InputError, Subset
from butfor.evaluation.samplers import info_of
from butfor.image.attributes import WithAttributes
from butfor.streams import stream

IMAGE = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
BOX = Subset("box 1", (5, 5, 20, 15))


@dataclass(frozen=True)
class Counting:
    """Random pixels, and how often they were asked for."""

    name: str = "counting"
    deterministic: bool = False
    asked: list = field(default_factory=list, repr=False, compare=False)
    spawns: bool = False

    def __call__(self, inputs, subset, draws, rng):
        self.asked.append(draws)
        x1, y1, x2, y2 = subset.index
        out = [image.copy() for image in inputs for _ in range(draws)]
        for image in out:
            source = rng.spawn(1)[0] if self.spawns else rng
            image[y1:y2, x1:x2] = 7 if self.deterministic else source.integers(0, 255, (y2 - y1, x2 - x1, 3))
        return out


def same(one, other):
    return len(one) == len(other) and all((a == b).all() for a, b in zip(one, other, strict=True))


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("generator", [lambda: np.random.default_rng(1), lambda: stream(1, "box 1", "cat.jpg", 0)])
@pytest.mark.parametrize("spawns", [False, True])
def test_a_second_run_asks_for_nothing_and_gives_the_same(tmp_path, generator, spawns):
    inner = Counting(spawns=spawns)
    plain = inner([IMAGE, IMAGE[::-1].copy()], BOX, 3, generator())
    inner.asked.clear()
    sampler = bi.cached(inner, tmp_path)
    rng = generator()
    one = sampler([IMAGE, IMAGE[::-1].copy()], BOX, 3, rng)
    after = rng.random()
    assert same(one, plain)  # keeping fills changes nothing
    assert inner.asked == [1] * 6
    again = generator()
    assert same(pickle.loads(pickle.dumps(sampler))([IMAGE, IMAGE[::-1].copy()], BOX, 3, again), one)
    assert len(inner.asked) == 6
    assert again.random() == after  # the stream goes on as if it had been drawn from
    assert len({image.tobytes() for image in one}) == 6


def test_more_draws_find_those_of_fewer(tmp_path):
    inner = Counting()
    sampler = bi.cached(inner, tmp_path)
    few = sampler([IMAGE], BOX, 1, np.random.default_rng(1))
    more = sampler([IMAGE], BOX, 4, np.random.default_rng(1))
    assert same(few, more[:1])
    assert len(inner.asked) == 4


@pytest.mark.parametrize("change", ["image", "outside", "box", "sampler", "stream"])
def test_whatever_decides_a_fill_is_part_of_its_name(tmp_path, change):
    inner = Counting("other" if change == "sampler" else "counting")
    bi.cached(Counting(), tmp_path)([IMAGE], BOX, 1, np.random.default_rng(1))
    image = IMAGE.copy()
    if change in ("image", "outside"):
        image[(10, 10) if change == "image" else (0, 0)] ^= 1
    box = Subset("box 1", (5, 5, 20, 16)) if change == "box" else BOX
    bi.cached(inner, tmp_path)([image], box, 1, np.random.default_rng(2 if change == "stream" else 1))
    assert len(inner.asked) == 1
    assert len(files(tmp_path)) == 2


def test_a_deterministic_fill_serves_every_seed(tmp_path):
    inner = Counting(deterministic=True)
    sampler = bi.cached(inner, tmp_path)
    assert info_of(sampler).deterministic
    for seed in range(3):
        sampler([IMAGE], Subset(f"box {seed}", BOX.index), 2, np.random.default_rng(seed))
    assert len(inner.asked) == 1


def test_damaged_files_are_drawn_again(tmp_path):
    inner = Counting()
    sampler = bi.cached(inner, tmp_path)
    one = sampler([IMAGE], BOX, 1, np.random.default_rng(1))
    (file,) = files(tmp_path)
    content = file.read_bytes()
    for damage in (b"", b"hello", content[: len(content) // 2], content.replace(b"bits", b"bots")):
        file.write_bytes(damage)
        assert same(sampler([IMAGE], BOX, 1, np.random.default_rng(1)), one)
        assert file.read_bytes() == content
    assert len(inner.asked) == 5


def test_only_the_box_is_kept_and_nothing_half_written(tmp_path, monkeypatch):
    from PIL import Image

    sampler = bi.cached(Counting(), tmp_path)
    sampler([IMAGE], BOX, 1, np.random.default_rng(1))
    (file,) = files(tmp_path)
    with Image.open(file) as picture:
        assert picture.size == (15, 10)

    def interrupted(*paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sampler([IMAGE], BOX, 1, np.random.default_rng(2))
    assert files(tmp_path) == [file]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("hello")
    with pytest.raises(InputError, match="choose another folder"):
        bi.cached(Counting(), tmp_path / "file")([IMAGE], BOX, 1, np.random.default_rng(1))


def test_samplers_without_a_lasting_name_must_be_named(tmp_path):
    def own(inputs, subset, draws, rng):
        return Counting()(inputs, subset, draws, rng)

    for sampler in (own, bi.diversify(own), WithAttributes(own)):
        with pytest.raises(InputError, match="name it"):
            bi.cached(sampler, tmp_path)
    bi.cached(own, tmp_path, name="mine, first version")([IMAGE], BOX, 1, np.random.default_rng(1))
    assert len(files(tmp_path)) == 1


def test_the_content_of_a_network_is_its_name(tiny_networks, tmp_path):
    one = bi.onnx_inpainter(tiny_networks / "migan.onnx", threads=1)
    copied = tmp_path / "same.onnx"
    copied.write_bytes((tiny_networks / "migan.onnx").read_bytes())
    assert bi.cached(one, tmp_path).name == bi.cached(bi.onnx_inpainter(copied, threads=1), tmp_path).name
    other = bi.onnx_inpainter(tiny_networks / "lama.onnx", threads=1)
    assert bi.cached(one, tmp_path).name != bi.cached(other, tmp_path).name
    assert bi.cached(bi.diversify(one), tmp_path).name != bi.cached(bi.diversify(other), tmp_path).name
    blind = bi.onnx_inpainter(copied, threads=1, blind=True)
    assert bi.cached(one, tmp_path).name != bi.cached(blind, tmp_path).name


def test_references_of_donor_are_part_of_its_name(tmp_path):
    assert bi.cached(bi.donor([IMAGE]), tmp_path).name != bi.cached(bi.donor([IMAGE[::-1].copy()]), tmp_path).name


# Was wrong once: a sampler that never touches rng got its first draw back for all others, and 69 of 108 nulls chosen.
def test_draws_that_take_nothing_from_rng_are_not_kept(tmp_path):
    own = np.random.default_rng(5)

    def noise(images, subset, draws, rng):
        out = [image.copy() for image in images for _ in range(draws)]
        for image in out:
            image[2:6, 2:6] = own.integers(0, 256, (4, 4, 3))
        return out

    kept = bi.cached(noise, tmp_path, name="noise")
    image, subset = np.zeros((8, 8, 3), np.uint8), Subset("box", (2, 2, 6, 6))
    with pytest.warns(bi.RegionWarning, match="takes no randomness from the rng"):
        one, two = kept([image], subset, 2, np.random.default_rng(0))
    assert (one != two).any()
    assert not list(tmp_path.rglob("*.png"))


def test_filters_are_told_apart(tmp_path):
    dark, bright = np.full((20, 20, 3), 9, np.uint8), np.full((20, 20, 3), 200, np.uint8)
    made = [butfor.plausible(bi.donor([image]), level, 0.5) for image in (dark, bright)]
    assert info_of(bi.cached(made[0], tmp_path)).identity != info_of(bi.cached(made[1], tmp_path)).identity
    with pytest.raises(InputError, match="name it: cached"):
        bi.cached(butfor.plausible(bi.donor(), lambda batch: np.ones(len(batch)), 0.5), tmp_path)


def level(batch):
    return np.ones(len(batch))
