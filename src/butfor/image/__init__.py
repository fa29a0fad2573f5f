"""Images: what to test in them, how to redraw it, which classifiers to ask, and how to show what was found."""

from butfor.image.attributes import attributes, with_attributes
from butfor.image.boxes import boxes, detected_boxes, masks, onnx_yolo, random_boxes
from butfor.image.cache import cached
from butfor.image.donor import donor
from butfor.image.draw import Mark, contact_sheet, gallery, photograph, photograph_axes, png, show
from butfor.image.explain import explain
from butfor.image.files import ImageFiles, as_image, folder, read_image
from butfor.image.inpainters import diffusers_inpainter, diversify, navier_stokes, onnx_inpainter, telea
from butfor.image.models import huggingface_classifier, onnx_classifier, preprocess, torch_classifier, torchvision_model
from butfor.image.plausibility import Plausibility, judge
from butfor.image.ranks import Ranks, Sensitivity, mean_pairwise_iou, ranks, sensitivity, shifted
from butfor.image.region import Attribute, RegionWarning, grid, superpixels, together, zoom

__all__ = [
    "Attribute",
    "ImageFiles",
    "Mark",
    "Plausibility",
    "Ranks",
    "RegionWarning",
    "Sensitivity",
    "as_image",
    "attributes",
    "boxes",
    "cached",
    "contact_sheet",
    "detected_boxes",
    "diffusers_inpainter",
    "diversify",
    "donor",
    "explain",
    "folder",
    "gallery",
    "grid",
    "huggingface_classifier",
    "judge",
    "masks",
    "mean_pairwise_iou",
    "navier_stokes",
    "onnx_classifier",
    "onnx_inpainter",
    "onnx_yolo",
    "photograph",
    "photograph_axes",
    "png",
    "preprocess",
    "random_boxes",
    "ranks",
    "read_image",
    "sensitivity",
    "shifted",
    "show",
    "superpixels",
    "telea",
    "together",
    "torch_classifier",
    "torchvision_model",
    "with_attributes",
    "zoom",
]
