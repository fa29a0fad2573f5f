"""Small ONNX networks with the inputs of real ones, and a folder like the one that docs/images.md takes for granted."""

import json

import numpy as np


def page(folder):
    """net.onnx, names.json, migan.onnx, photos and boxes.json in `folder`."""
    import onnx
    from PIL import Image

    save(onnx, folder / "net.onnx", classifier(onnx, "n", 224))
    save(onnx, folder / "migan.onnx", mean_fill(onnx, "UINT8", ["n", 3, "h", "w"], ["n", 1, "h", "w"]))
    (folder / "names.json").write_text(json.dumps(["red", "green", "blue"]), encoding="utf-8")
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for k in range(3):
        pixels = rng.integers(60, 120, (48, 64, 3), dtype=np.uint8)
        pixels[8:24, 8:24] = 250
        Image.fromarray(pixels).save(folder / "photos" / f"{k}.png")
    boxes = {f"{k}.png": {"bright": [8, 8, 24, 24], "dull": [40, 24, 60, 44]} for k in range(3)}
    (folder / "boxes.json").write_text(json.dumps(boxes), encoding="utf-8")


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


def classifier(onnx, batch, side=8):
    """Means of the three channels of all pixels."""
    helper, types = onnx.helper, onnx.TensorProto
    return helper.make_graph(
        [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)],
        "means",
        [helper.make_tensor_value_info("x", types.FLOAT, [batch, 3, side, side])],
        [helper.make_tensor_value_info("y", types.FLOAT, [batch, 3])],
    )
