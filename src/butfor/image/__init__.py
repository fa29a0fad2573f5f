"""Images: what to test in them, how to redraw it, which classifiers to ask, and how to show what was found."""

from butfor.image.attributes import attributes, with_attributes
from butfor.image.boxes import boxes
from butfor.image.cache import cached
from butfor.image.detectors import onnx_yolo
from butfor.image.diffusers_inpainter import diffusers_inpainter
from butfor.image.diversify import diversify
from butfor.image.donor import donor
from butfor.image.draw import Mark, photograph, photograph_axes, png, show
from butfor.image.explain import explain
from butfor.image.files import ImageFiles, as_image, folder, read_image
from butfor.image.found_boxes import detected_boxes, random_boxes
from butfor.image.gallery import contact_sheet, gallery
from butfor.image.masks import masks
from butfor.image.models import huggingface_classifier, onnx_classifier, torch_classifier, torchvision_model
from butfor.image.onnx_inpainter import onnx_inpainter
from butfor.image.opencv import navier_stokes, telea
from butfor.image.plausibility import Plausibility, judge
from butfor.image.preprocess import preprocess
from butfor.image.ranks import Ranks, ranks
from butfor.image.region import Attribute, RegionWarning
from butfor.image.segments import grid, superpixels
from butfor.image.sensitivity import Sensitivity, sensitivity
from butfor.image.shifts import mean_pairwise_iou, shifted
from butfor.image.subsets import together
from butfor.image.zoom import zoom

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
