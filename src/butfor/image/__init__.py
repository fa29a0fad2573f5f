"""Images: regions to test, samplers that redraw them, classifiers, and checks of both."""

from butfor.image.attributes import attributes
from butfor.image.boxes import boxes, detected_boxes, masks, random_boxes
from butfor.image.cache import cached
from butfor.image.detector import onnx_yolo
from butfor.image.donor import donor
from butfor.image.explain import explain
from butfor.image.files import ImageFiles, as_image, folder, read_image
from butfor.image.inpainters import diffusers_inpainter, diversify, navier_stokes, onnx_inpainter, telea
from butfor.image.models import huggingface_classifier, onnx_classifier, preprocess, torch_classifier, torchvision_model
from butfor.image.plausibility import Plausibility, judge
from butfor.image.ranks import Ranks, Sensitivity, ranks, sensitivity
from butfor.image.region import Attribute, RegionWarning, grid, superpixels, together, zoom

__all__ = [
    "Attribute",
    "ImageFiles",
    "Plausibility",
    "Ranks",
    "RegionWarning",
    "Sensitivity",
    "as_image",
    "attributes",
    "boxes",
    "cached",
    "detected_boxes",
    "diffusers_inpainter",
    "diversify",
    "donor",
    "explain",
    "folder",
    "grid",
    "huggingface_classifier",
    "judge",
    "masks",
    "navier_stokes",
    "onnx_classifier",
    "onnx_inpainter",
    "onnx_yolo",
    "preprocess",
    "random_boxes",
    "ranks",
    "read_image",
    "sensitivity",
    "superpixels",
    "telea",
    "together",
    "torch_classifier",
    "torchvision_model",
    "zoom",
]
