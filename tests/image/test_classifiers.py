"""Classifiers and what images become before they see them."""

import pickle
import sys
import types

import numpy as np
import pytest
from PIL import Image

import butfor.image as bi
from butfor import InputError, ModelError
from butfor.image.models import PRESETS, class_names

IMAGES = [np.random.default_rng(k).integers(0, 255, (20 + k, 30 - k, 3), dtype=np.uint8) for k in range(5)]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_by_hand(name):
    preset = PRESETS[name]
    batch = preset(IMAGES)
    assert batch.shape == (5, 3, preset.size, preset.size)
    assert batch.dtype == np.float32
    for image, got in zip(IMAGES, batch, strict=True):
        height, width = image.shape[:2]
        box = None
        if preset.crop is not None:
            side = min(height, width) * preset.crop
            box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
        method = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}[preset.interpolation]
        pixels = np.asarray(Image.fromarray(image).resize((preset.size, preset.size), method, box=box), np.float32)
        expected = (pixels - np.float32(preset.mean)) / np.float32(preset.scale)
        np.testing.assert_array_equal(got, expected.transpose(2, 0, 1))


def test_the_presets_of_the_paper_s_figures():
    assert PRESETS["whole"] == bi.preprocess(224, crop=None, interpolation="bicubic", mean=127, scale=128)
    assert PRESETS["crop"] == bi.preprocess(224, crop=224 / 256, interpolation="bicubic", mean=127, scale=128)


@pytest.mark.parametrize("crop", [None, 0.6])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [8, 60])
def test_what_is_resized_in_part_is_the_same_to_the_bit(crop, interpolation, size):
    """Counterfactuals differ from their image in a region: alone or after their image, they give the same batch."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (50, 37, 3), dtype=np.uint8)
    versions = [image]
    for x1, y1, x2, y2 in [(3, 4, 20, 30), (0, 0, 1, 1), (36, 49, 37, 50), (0, 0, 37, 50), (10, 0, 12, 50)]:
        changed = image.copy()
        changed[y1:y2, x1:x2] = rng.integers(0, 255, (y2 - y1, x2 - x1, 3))
        versions += [changed, changed, image]
    prepare = bi.preprocess(size, crop=crop, interpolation=interpolation)
    alone = np.concatenate([prepare([version]) for version in versions])
    np.testing.assert_array_equal(prepare(versions), alone)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (60, 50)])
def test_rows_are_resized_before_columns_whatever_pillow_does(shape):
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8)
    narrow = Image.fromarray(image).resize((40, shape[0]), Image.Resampling.BICUBIC)
    expected = np.asarray(narrow.resize((40, 40), Image.Resampling.BICUBIC), np.float32)
    got = bi.preprocess(40, mean=0, scale=1, channels_last=True)([image])[0]
    np.testing.assert_array_equal(got, expected)


def test_channels_last_and_one_pixel():
    assert bi.preprocess(4, channels_last=True)(IMAGES).shape == (5, 4, 4, 3)
    assert bi.preprocess(4, crop=0.5)([IMAGES[0][:1, :1]]).shape == (1, 3, 4, 4)


@pytest.mark.parametrize(
    "settings",
    [{"size": 0}, {"crop": 2}, {"interpolation": "cubic"}, {"mean": (1, 2)}, {"scale": 0}, {"scale": (1, 0, 1)}],
)
def test_bad_preprocessing(settings):
    with pytest.raises(InputError):
        bi.preprocess(**settings)


def test_onnx_in_batches_and_pickled(tiny_networks):
    prepare = bi.preprocess(8, mean=0, scale=255)
    expected = prepare(IMAGES).mean(axis=(2, 3))
    for name in ("classifier.onnx", "fixed_batch.onnx"):
        for batch in (1, 2, 50):
            net = bi.onnx_classifier(tiny_networks / name, prepare, classes=["r", "g", "b"], batch=batch, threads=1)
            assert net.classes == ("r", "g", "b")
            np.testing.assert_allclose(net(IMAGES), expected, rtol=1e-6)
            np.testing.assert_allclose(net(IMAGES[:1]), expected[:1], rtol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net))(IMAGES), net(IMAGES))
    assert repr(net) == "onnx_classifier(fixed_batch.onnx)"


def test_onnx_classifiers_that_do_not_fit(tiny_networks, tmp_path):
    assert bi.onnx_classifier(tiny_networks / "classifier.onnx")(IMAGES).shape == (5, 3)  # its size is in the file
    with pytest.raises(InputError, match=r"takes images of .* but the preprocessing gives 224 x 224"):
        bi.onnx_classifier(tiny_networks / "classifier.onnx", bi.preprocess(224))
    with pytest.raises(InputError, match="3 outputs but 2 class names"):
        bi.onnx_classifier(tiny_networks / "classifier.onnx", bi.preprocess(8), classes=["a", "b"])
    with pytest.raises(InputError, match="expected one, the images"):
        bi.onnx_classifier(tiny_networks / "migan.onnx")
    with pytest.raises(InputError, match="presets are whole"):
        bi.onnx_classifier(tiny_networks / "classifier.onnx", "other")
    (tmp_path / "x.onnx").write_text("hello")
    with pytest.raises(InputError, match="not an ONNX file that can be opened"):
        bi.onnx_classifier(tmp_path / "x.onnx")


def test_names_of_classes(tmp_path):
    (tmp_path / "a.json").write_text('["cat", "dog"]')
    (tmp_path / "b.json").write_text('{"1": "dog", "0": "cat"}')
    (tmp_path / "c.txt").write_text("cat\ndog\n")
    for given in (tmp_path / "a.json", tmp_path / "b.json", str(tmp_path / "c.txt"), ["cat", "dog"]):
        assert class_names(given) == ("cat", "dog")
    with pytest.raises(InputError, match="does not exist"):
        class_names("nowhere.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '["cat", ', "is not JSON that can be read"),
        ("b.json", '{"a": "cat"}', "must have numbers for keys"),
        ("c.json", '"cat"', "must be a list of names"),
        ("d.json", '[{"name": "cat"}]', "must be a list of names"),
        ("e.json", "3", "must be a list of names"),
        ("model.py", "import torch", "or a text file with one a line, got model.py"),
        ("f.txt", b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_files_that_hold_no_class_names(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message) as caught:
        class_names(tmp_path / name)
    assert "\n" not in str(caught.value)


def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.Dropout(0.5),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 2),
    )


def test_a_torch_module_in_evaluation_mode():
    net = bi.torch_classifier(network(), bi.preprocess(16), batch=2)
    one = net(IMAGES)
    assert one.shape == (5, 2)
    np.testing.assert_array_equal(one, net(IMAGES))  # no dropout
    np.testing.assert_allclose(one[:1], net(IMAGES[:1]), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net))(IMAGES), one)


def test_what_torch_modules_return():
    torch = pytest.importorskip("torch")

    class Returning(torch.nn.Module):
        def __init__(self, change):
            super().__init__()
            self.net, self.change = network(), change

        def forward(self, x):
            return self.change(self.net(x))

    def outputs(change, images=IMAGES, batch=2):
        return bi.torch_classifier(Returning(change), bi.preprocess(16), batch=batch)(images)

    plain = outputs(lambda y: y)
    np.testing.assert_array_equal(outputs(lambda y: y.squeeze()), plain)  # the last batch is one image
    np.testing.assert_array_equal(outputs(lambda y: y[:, :1].squeeze()), plain[:, :1])
    np.testing.assert_array_equal(outputs(lambda y: (y, 2 * y)), plain)
    np.testing.assert_array_equal(outputs(lambda y: {"loss": 2 * y, "logits": y}), plain)  # as of Hugging Face
    with pytest.raises(ModelError, match="the module returned str, expected a tensor"):
        outputs(lambda y: "cat")
    with pytest.raises(ModelError, match=r"gave outputs \(\) for 2 images; expected a row for each"):
        outputs(torch.sum)


def test_a_model_of_torchvision_by_name(monkeypatch):
    """torchvision cannot be had here: what stands in for it has its interface and an untrained network."""
    torch = pytest.importorskip("torch")

    class Weights:
        meta = {"categories": ["cat", "dog"]}  # noqa: RUF012

        def transforms(self):
            return lambda image: torch.nn.functional.adaptive_avg_pool2d(image.float() / 255, 16)

    models = types.ModuleType("torchvision.models")
    models.get_model_weights = lambda name: {"inception_v3": {"DEFAULT": Weights()}}[name]
    models.get_model = lambda name, weights: network()
    torchvision = types.ModuleType("torchvision")
    torchvision.models = models
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    net = bi.torchvision_model("inception_v3")
    assert net.classes == ("cat", "dog")
    assert net(IMAGES).shape == (5, 2)
    assert bi.torchvision_model("inception_v3", preprocess="inception-whole")(IMAGES[:1]).shape == (1, 2)
    with pytest.raises(InputError, match="has no model 'other'"):
        bi.torchvision_model("other")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "torchvision.models")
    with pytest.raises(InputError, match="needs torchvision"):
        bi.torchvision_model("inception_v3")


def test_a_hugging_face_pipeline():
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16, patch_size=8,
        id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip

    def processor(images, return_tensors):
        import torch

        return {"pixel_values": torch.from_numpy(bi.preprocess(16)(images))}

    pipe = types.SimpleNamespace(model=transformers.ViTForImageClassification(config), image_processor=processor)
    net = bi.huggingface_classifier(pipe)
    assert net.classes == ("cat", "dog")
    assert net(IMAGES).shape == (5, 2)
    with pytest.raises(InputError, match="pipe must be"):
        bi.huggingface_classifier(3)


def test_what_is_no_image_is_refused():
    with pytest.raises(InputError, match="uint8 array"):
        bi.preprocess(4)([IMAGES[0].astype(float)])
