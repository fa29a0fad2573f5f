"""Every kind of image file: read as a viewer shows it, or one clear sentence."""

import pickle

import numpy as np
import pytest
from PIL import Image

import butfor.image as bi
from butfor import InputError

PIXELS = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
SMALL = np.array([[[200, 0, 0], [0, 200, 0]]], np.uint8)  # a red and a green pixel


def saved(folder, name, picture, **options):
    picture.save(folder / name, **options)
    return bi.read_image(folder / name)


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.PNG", "a.webp"])
def test_rgb_comes_back_as_it_is(tmp_path, name):
    options = {"lossless": True} if name.endswith("webp") else {}
    found = saved(tmp_path, name, Image.fromarray(PIXELS), **options)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, PIXELS)


def test_grey_palette_and_black_and_white(tmp_path):
    grey = PIXELS[..., 0]
    np.testing.assert_array_equal(
        saved(tmp_path, "l.png", Image.fromarray(grey)), np.repeat(grey[..., None], 3, axis=2)
    )
    palette = saved(tmp_path, "p.png", Image.fromarray(SMALL).convert("P", palette=Image.Palette.ADAPTIVE))
    np.testing.assert_array_equal(palette, SMALL)
    ink = saved(tmp_path, "1.png", Image.fromarray(np.array([[True, False]])))
    assert ink[0, :, 0].tolist() == [255, 0]


def test_what_is_transparent_stands_on_white(tmp_path):
    layered = np.dstack([SMALL, np.array([[0, 255]], np.uint8)])
    assert saved(tmp_path, "rgba.png", Image.fromarray(layered)).tolist() == [[[255, 255, 255], [0, 200, 0]]]
    grey = Image.fromarray(np.array([[[10, 0], [10, 255]]], np.uint8), mode=None)
    assert saved(tmp_path, "la.png", grey)[0, :, 0].tolist() == [255, 10]
    picture = Image.fromarray(SMALL).convert("P", palette=Image.Palette.ADAPTIVE)
    hidden = picture.getpixel((0, 0))
    assert saved(tmp_path, "p.png", picture, transparency=hidden).tolist() == [[[255, 255, 255], [0, 200, 0]]]
    assert bi.as_image(layered).tolist() == [[[255, 255, 255], [0, 200, 0]]]


def test_cmyk(tmp_path):
    flat = Image.new("RGB", (16, 16), (200, 30, 60)).convert("CMYK")
    found = saved(tmp_path, "c.jpg", flat, quality=95)
    assert np.abs(found.astype(int) - [200, 30, 60]).max() < 6


def test_sixteen_bits_are_divided_not_stretched(tmp_path):
    deep = np.array([[0, 257, 20 * 257, 65535]], np.uint16)
    assert saved(tmp_path, "d.png", Image.fromarray(deep))[0, :, 0].tolist() == [0, 1, 20, 255]
    assert saved(tmp_path, "d.tif", Image.fromarray(deep))[0, :, 0].tolist() == [0, 1, 20, 255]
    assert bi.as_image(deep)[0, :, 0].tolist() == [0, 1, 20, 255]


@pytest.mark.parametrize("longest", [None, 20])
@pytest.mark.parametrize(("turn", "shape"), [(1, (30, 40, 3)), (3, (30, 40, 3)), (6, (40, 30, 3)), (8, (40, 30, 3))])
def test_exif_rotation_is_applied(tmp_path, turn, shape, longest):
    exif = Image.Exif()
    exif[274] = turn
    Image.fromarray(PIXELS).save(tmp_path / "r.jpg", exif=exif, quality=95)
    found = bi.read_image(tmp_path / "r.jpg", longest=longest)
    assert found.shape == (shape if longest is None else (shape[0] // 2, shape[1] // 2, 3))
    if longest is None:
        np.testing.assert_array_equal(bi.as_image(Image.open(tmp_path / "r.jpg")), found)


def test_one_pixel_and_forty_megapixels(tmp_path):
    assert saved(tmp_path, "one.png", Image.fromarray(SMALL[:, :1])).tolist() == [[[200, 0, 0]]]
    Image.new("L", (8000, 5000), 90).save(tmp_path / "huge.jpg")
    with pytest.raises(InputError, match=r"8000 x 5000 = 40 million pixels.*longest=2048"):
        bi.read_image(tmp_path / "huge.jpg")
    found = bi.read_image(tmp_path / "huge.jpg", longest=800)
    assert found.shape == (500, 800, 3)
    assert np.abs(found.astype(int) - 90).max() <= 1


def test_an_absurd_size_is_refused(tmp_path, monkeypatch):
    Image.new("L", (100, 100)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match="far too large"):
        bi.read_image(tmp_path / "bomb.png")


def test_broken_files_get_one_sentence(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "whole.jpg", quality=95)
    Image.fromarray(PIXELS).save(tmp_path / "whole.png")
    for suffix in ("jpg", "png"):
        content = (tmp_path / f"whole.{suffix}").read_bytes()
        (tmp_path / f"cut.{suffix}").write_bytes(content[: len(content) // 2])
        with pytest.raises(InputError, match="broken or cut short"):
            bi.read_image(tmp_path / f"cut.{suffix}")
    (tmp_path / "text.jpg").write_text("not an image")
    (tmp_path / "empty.png").write_bytes(b"")
    for name in ("text.jpg", "empty.png"):
        with pytest.raises(InputError, match="not an image that Pillow can read"):
            bi.read_image(tmp_path / name)
    for name in ("nowhere.png", "."):
        with pytest.raises(InputError, match=r"does not exist|is a directory"):
            bi.read_image(tmp_path / name)
    Image.fromarray(np.zeros((2, 2), np.float32)).save(tmp_path / "f.tif")
    with pytest.raises(InputError, match="decimal numbers"):
        bi.read_image(tmp_path / "f.tif")


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (np.zeros((4, 4, 3)), "multiply values between 0 and 1 by 255"),
        (np.zeros((3, 9, 9), np.uint8), "move the channels last"),
        (np.zeros((0, 4, 3), np.uint8), "must be"),
        (np.zeros((4, 4, 3), np.int64), "int64"),
    ],
)
def test_arrays_that_are_no_images(thing, message):
    with pytest.raises(InputError, match=message):
        bi.as_image(thing)


def test_what_as_image_takes(tmp_path):
    picture = Image.fromarray(PIXELS)
    picture.save(tmp_path / "a.png")
    for thing in (PIXELS, picture, tmp_path / "a.png", str(tmp_path / "a.png"), PIXELS.tolist() and PIXELS):
        np.testing.assert_array_equal(bi.as_image(thing), PIXELS)


def test_a_folder_is_a_lazy_list_in_natural_order(tmp_path):
    for number in (10, 2, 1):
        Image.fromarray(PIXELS[: number + 1]).save(tmp_path / f"img{number}.png")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".hidden.png").write_text("hello")
    (tmp_path / "img3.png").write_text("broken")
    images = bi.folder(tmp_path)
    assert images.names == ("img1.png", "img2.png", "img3.png", "img10.png")
    assert images.ignored == ("notes.txt",)
    assert len(images) == 4
    assert images[3].shape == images[-1].shape == (11, 40, 3)
    assert images[1:2].names == ("img2.png",)
    with pytest.raises(InputError, match=r"img3\.png is not an image"):
        images[2]
    with pytest.raises(IndexError):
        images[4]
    assert not images[0].flags.writeable
    assert pickle.loads(pickle.dumps(images)).names == images.names
    assert [image.shape[0] for image in images[:2]] == [2, 3]


def test_a_file_that_changes_is_read_again(tmp_path):
    import os

    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    images = bi.folder(tmp_path)
    assert images[0].shape == (30, 40, 3)
    Image.fromarray(PIXELS[:5]).save(tmp_path / "a.png")
    os.utime(tmp_path / "a.png", ns=(1, 1))
    assert images[0].shape == (5, 40, 3)


def test_folders_without_images(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        bi.folder(tmp_path / "nowhere")
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(InputError, match="has no images among 1 files"):
        bi.folder(tmp_path)
    (tmp_path / "cats").mkdir()
    Image.fromarray(PIXELS).save(tmp_path / "cats" / "1.jpg")
    with pytest.raises(InputError, match="recursive=True"):
        bi.folder(tmp_path)
    assert bi.folder(tmp_path, recursive=True).names == ("cats/1.jpg",)


def test_the_paper_s_photographs(assets):
    images = bi.folder(assets / "paper")
    assert len(images) == 50
    assert images.names[:3] == ("img1.jpg", "img2.jpg", "img3.jpg")
    assert set(images.ignored) == {"boxes.json", "imagenet_class_names.json"}
    assert images[0].shape == (480, 640, 3)
