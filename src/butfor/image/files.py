"""Image files -> uint8 RGB arrays, as a viewer would show them; folders of them, read one at a time."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, overload

import numpy as np

from butfor.image.region import Image
from butfor.models.wrap import loaded, one_line
from butfor.types import InputError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jp2")
MOST_PIXELS = 30_000_000  # 90 MB an image; a run holds a few copies of it at a time


def read_image(path: str | Path, *, longest: int | None = None, most_pixels: int = MOST_PIXELS) -> Image:
    """The file as a uint8 array (height, width, 3), the way a viewer shows it.

    EXIF rotation is applied; grey and palette images become RGB; transparent ones are laid on white; CMYK is
    converted without its colour profile; 16 bits become 8 (divided by 257, never stretched); of an animation the first
    frame is taken.

    Parameters
    ----------
    path : the file.
    longest : images whose longer side has more pixels are shrunk to that: boxes in pixels are then those of the smaller
        image, unless their file says on which size they were drawn (COCO and VOC do).
    most_pixels : larger images are refused, unless they are shrunk.

    Examples
    --------
    >>> import tempfile; from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (3, 2), 7).save(f"{folder}/grey.png")
    ...     read_image(f"{folder}/grey.png").shape
    (2, 3, 3)
    """
    from PIL import Image as Pictures
    from PIL import ImageOps, UnidentifiedImageError

    path = Path(path)
    if not path.is_file():
        raise InputError(f"the image {path} {'is a directory' if path.is_dir() else 'does not exist'}; give a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's word on large images: ours follows
            with Pictures.open(path) as picture:
                _check_size(picture.size, path, longest, most_pixels)
                if longest is not None:
                    picture.draft(None, (longest, longest))  # JPEG decodes to about the right size at once
                    return _rgb(ImageOps.exif_transpose(_shrunk(picture, longest)), str(path))
                return _rgb(ImageOps.exif_transpose(picture), str(path))
    except Pictures.DecompressionBombError as error:
        raise InputError(f"the image {path} is far too large ({error}); shrink it first") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path} is not an image that Pillow can read; save it as PNG or JPEG") from error
    except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the image {path} is broken or cut short: {one_line(error)}") from error


def _check_size(size: tuple[int, int], path: Path, longest: int | None, most_pixels: int) -> None:
    if longest is not None and longest < 1:
        raise InputError(f"longest must be at least 1 pixel, got {longest}")
    if longest is None and size[0] * size[1] > most_pixels:
        raise InputError(
            f"the image {path} has {size[0]} x {size[1]} = {size[0] * size[1] / 1e6:.0f} million pixels, more than "
            f"{most_pixels / 1e6:g} million, and every counterfactual is a whole copy; shrink it with longest=2048, or "
            "raise most_pixels"
        )


def _shrunk(picture: Picture, longest: int) -> Picture:
    scale = longest / max(picture.size)
    if scale >= 1:
        return picture
    from PIL.Image import Resampling

    exif = picture.getexif()
    wide = "RGBA" if picture.mode == "P" and "transparency" in picture.info else "RGB" if picture.mode == "P" else None
    small = (picture.convert(wide) if wide else picture).resize(
        (max(1, round(picture.width * scale)), max(1, round(picture.height * scale))),
        Resampling.BICUBIC if not picture.mode.startswith("I") else Resampling.NEAREST,
        reducing_gap=3.0,
    )
    small.info["exif"] = exif.tobytes()  # the rotation is applied after shrinking
    return small


def _rgb(picture: Picture, name: str) -> Image:
    mode = picture.mode
    if mode == "F":
        raise InputError(f"the image {name} holds decimal numbers (mode F); save it with 8 or 16 bits a channel")
    if mode.startswith("I"):  # 16 or 32 bits of grey
        grey = np.asarray(picture).astype(np.int64)
        if grey.min() < 0 or grey.max() > 65535:
            raise InputError(f"the image {name} holds values from {grey.min()} to {grey.max()}; expected 8 or 16 bits")
        return np.repeat(((grey + 128) // 257).astype(np.uint8)[:, :, None], 3, axis=2)
    if mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        from PIL.Image import new

        full = picture.convert("RGBA")
        picture = new("RGBA", full.size, "white")
        picture.alpha_composite(full)
    return np.array(picture.convert("RGB"))


def checksum(image: Image) -> str:
    """A few characters that tell whether the pixels are still the same.

    >>> one = np.zeros((2, 3, 3), np.uint8)
    >>> checksum(one) == checksum(one.copy()) != checksum(one + 1)
    True
    """
    found = blake2b(str(image.shape).encode(), digest_size=8)
    found.update(np.ascontiguousarray(image).data)
    return found.hexdigest()


def is_pillow(thing: object) -> TypeGuard[Picture]:
    """Whether it is a Pillow image: nobody can hold one while Pillow is not loaded."""
    pillow = loaded("PIL.Image")
    return pillow is not None and isinstance(thing, pillow.Image)


def as_image(thing: object) -> Image:
    """Whatever is an image -> a uint8 array (height, width, 3).

    Parameters
    ----------
    thing : a path, a Pillow image (turned as its EXIF says, like files), or an array of uint8 or uint16, (height,
        width) grey, or with 1, 3 (RGB) or 4 (RGB and opacity) channels last.

    Examples
    --------
    >>> as_image(np.zeros((2, 5), np.uint8)).shape
    (2, 5, 3)
    """
    if isinstance(thing, str | Path):
        return read_image(thing)
    if is_pillow(thing):
        from PIL import ImageOps

        return _rgb(ImageOps.exif_transpose(thing), "given")
    array = np.asarray(thing)
    if array.dtype == object:
        came = " ".join(f"{thing!r:.60}".split())
        raise InputError(f"an image must be a file, a Pillow image or an array of pixels, got {came}")
    if array.dtype == np.uint16:
        array = ((array.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if array.dtype != np.uint8:
        scaled = "; multiply values between 0 and 1 by 255 and round them" if array.dtype.kind == "f" else ""
        raise InputError(f"an image must hold uint8 or uint16 pixels, got {array.dtype} of shape {array.shape}{scaled}")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        turned = "; move the channels last" if array.ndim == 3 and array.shape[0] in (1, 3, 4) else ""
        raise InputError(f"an image must be (height, width) with 1, 3 or 4 channels last, got {array.shape}{turned}")
    if array.shape[2] == 4:
        opacity = array[:, :, 3:].astype(np.uint32)
        return ((array[:, :, :3] * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
    return np.ascontiguousarray(np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array)


@dataclass(frozen=True)
class ImageFiles(Sequence[Image]):
    """Images on disk that look like a list, read when asked for, so that they are never all in memory.

    Parameters
    ----------
    paths, names : of the files.
    longest, most_pixels : as in `read_image`.
    ignored : files of the folder that are no images.
    """

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    longest: int | None = None
    most_pixels: int = MOST_PIXELS
    ignored: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ImageFiles({len(self.paths)} images)"

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, place: int) -> Image: ...
    @overload
    def __getitem__(self, place: slice) -> ImageFiles: ...
    def __getitem__(self, place: int | slice) -> Image | ImageFiles:
        if isinstance(place, slice):
            return replace(self, paths=self.paths[place], names=self.names[place])
        return recent_image(self.paths[place], self.longest, self.most_pixels)

    def __iter__(self) -> Iterator[Image]:
        return (self[i] for i in range(len(self)))


def recent_image(path: Path, longest: int | None, most_pixels: int) -> Image:
    """A file's image, read-only; the last two stay in memory until they change on disk."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0  # read_image says what is the matter
    return _recent(path, changed, longest, most_pixels)


@lru_cache(maxsize=2)  # the subsets of one image are asked for one after the other
def _recent(path: Path, changed: int, longest: int | None, most_pixels: int) -> Image:  # noqa: ARG001
    image = read_image(path, longest=longest, most_pixels=most_pixels)
    image.setflags(write=False)
    return image


def folder(
    path: str | Path, *, recursive: bool = False, longest: int | None = None, most_pixels: int = MOST_PIXELS
) -> ImageFiles:
    """The images of a directory in their natural order (img2 before img10), named by their file names.

    Files that are not called like images are left out and listed in `.ignored`; a broken image raises when it is read.

    Parameters
    ----------
    path : the directory.
    recursive : search the directories inside, too; names are then paths such as "cats/1.jpg".
    longest, most_pixels : as in `read_image`.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"the image folder {root} {'is a file' if root.is_file() else 'does not exist'}")
    files = [file for file in (root.rglob("*") if recursive else root.iterdir()) if file.is_file()]
    names = {file.relative_to(root).as_posix(): file for file in files if not file.name.startswith(".")}
    found = sorted((name for name in names if name.lower().endswith(SUFFIXES)), key=_natural)
    if not found:
        deeper = any(file.name.lower().endswith(SUFFIXES) for file in root.rglob("*"))
        advice = "the directories inside have some: use recursive=True" if deeper else f"expected {', '.join(SUFFIXES)}"
        raise InputError(f"the image folder {root} has no images among {len(names)} files; {advice}")
    ignored = tuple(sorted(set(names) - set(found)))
    return ImageFiles(tuple(names[name] for name in found), tuple(found), longest, most_pixels, ignored)


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    parts = re.findall(r"\d+|\D+", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts], name
