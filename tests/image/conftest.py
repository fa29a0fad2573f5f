"""Small pictures, small networks, and the real ones where they are."""

import os
from pathlib import Path

import pytest

pytest.importorskip("cv2", reason="the image extra is not installed")
pytest.importorskip("PIL", reason="the image extra is not installed")


@pytest.fixture(scope="session")
def assets():
    """The folder of real networks and photographs (BUTFOR_ASSETS), or skip."""
    folder = Path(os.environ.get("BUTFOR_ASSETS", Path(__file__).parents[3] / "shared" / "assets")) / "image"
    if not folder.is_dir():
        pytest.skip(f"no image assets at {folder}; set BUTFOR_ASSETS")
    return folder


@pytest.fixture(scope="session")
def tiny_networks(tmp_path_factory):
    """ONNX files with the inputs of MI-GAN's pipeline, of LaMa (fixed and free size), and of a classifier."""
    onnx = pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("networks")
    save(onnx, folder / "migan.onnx", mean_fill(onnx, "UINT8", ["n", 3, "h", "w"], ["n", 1, "h", "w"]))
    save(onnx, folder / "lama.onnx", mean_fill(onnx, "FLOAT", [1, 3, 32, 32], [1, 1, 32, 32]))
    save(onnx, folder / "lama_free.onnx", mean_fill(onnx, "FLOAT", [1, 3, "h", "w"], [1, 1, "h", "w"]))
    save(onnx, folder / "classifier.onnx", classifier(onnx, "n"))
    save(onnx, folder / "fixed_batch.onnx", classifier(onnx, 3))
    return folder


def save(onnx, path, graph):
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def mean_fill(onnx, kind, image_shape, mask_shape):
    """A network that fills the hole with the mean of the known pixels."""
    helper, types = onnx.helper, onnx.TensorProto
    floats, numbers = types.FLOAT, getattr(types, kind)
    constants = {"one": 1.0, "white": 255.0}
    nodes = [
        helper.make_node("Cast", ["image"], ["pixels"], to=floats),
        helper.make_node("Cast", ["mask"], ["m"], to=floats),
    ]
    if kind == "UINT8":  # 255 where known
        nodes.append(helper.make_node("Div", ["m", "white"], ["known"]))
    else:  # 1 in the hole
        nodes.append(helper.make_node("Sub", ["one", "m"], ["known"]))
    nodes += [
        helper.make_node("Mul", ["pixels", "known"], ["shown"]),
        helper.make_node("ReduceSum", ["shown", "axes"], ["total"], keepdims=1),
        helper.make_node("ReduceSum", ["known", "axes"], ["count"], keepdims=1),
        helper.make_node("Max", ["count", "one"], ["some"]),
        helper.make_node("Div", ["total", "some"], ["mean"]),
        helper.make_node("Sub", ["one", "known"], ["hole"]),
        helper.make_node("Mul", ["mean", "hole"], ["filled"]),
        helper.make_node("Add", ["shown", "filled"], ["whole"]),
    ]
    if kind == "UINT8":
        nodes.append(helper.make_node("Cast", ["whole"], ["result"], to=numbers))
    else:
        nodes.append(helper.make_node("Mul", ["whole", "white"], ["result"]))
    given = [helper.make_tensor(name, floats, [], [value]) for name, value in constants.items()]
    given.append(helper.make_tensor("axes", types.INT64, [2], [2, 3]))
    return helper.make_graph(
        nodes,
        "mean_fill",
        [
            helper.make_tensor_value_info("image", numbers, image_shape),
            helper.make_tensor_value_info("mask", numbers, mask_shape),
        ],
        [helper.make_tensor_value_info("result", numbers, image_shape)],
        given,
    )


def classifier(onnx, batch):
    """Means of the three channels of 8 x 8 pixels."""
    helper, types = onnx.helper, onnx.TensorProto
    return helper.make_graph(
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
        "means",
        [helper.make_tensor_value_info("x", types.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", types.FLOAT, [batch, 3])],
    )
