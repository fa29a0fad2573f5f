"""Images as they come (files, folders, Pillow images, arrays) -> uint8 RGB arrays by name, opened one at a time."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, overload

import numpy as np

from butfor.evaluation.hypotheses import Proposer
from butfor.evaluation.items import Items, ListItems
from butfor.image.attributes import BUILT_IN
from butfor.image.region import Attribute, Image, RegionPacking, RegionWarning, is_mask, mask_of
from butfor.models.wrap import loaded, one_line
from butfor.results.record import ImageInputs
from butfor.results.words import Note
from butfor.run.proposed import NamedItems, Proposed, Words, check_names, propose
from butfor.settings import OnError
from butfor.types import Array, InputError, Subset, warn_user
from butfor.untrusted import natural_order

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jp2")
MOST_PIXELS = 30_000_000  # 90 MB an image; a run holds a few copies of it at a time
WIDEST = 2**24  # pixels


def read_image(path: str | Path, *, longest: int | None = None, most_pixels: int = MOST_PIXELS) -> Image:
    """Read a file as a uint8 array (height, width, 3), the way a viewer shows it.

    EXIF rotation is applied; grey and palette images become RGB; transparent ones are laid on white; CMYK is
    converted without its colour profile; 16 bits become 8 (divided by 257, never stretched); only the first frame of
    an animation is read.

    Parameters
    ----------
    path : str or Path
        The file.
    longest : int, optional
        Shrink images whose longer side has more pixels; boxes of COCO and VOC files are scaled, others are not.
    most_pixels : int
        Larger images are refused, unless they are shrunk.

    Returns
    -------
    ndarray
        Pixels, uint8 (height, width, 3).

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

    def shrunk(picture: Picture, longest: int) -> Picture:
        scale, mode = longest / max(picture.size), picture.mode
        if scale >= 1:
            return picture
        exif = picture.getexif()
        wide = None if mode != "P" else "RGBA" if "transparency" in picture.info else "RGB"
        small = (picture.convert(wide) if wide else picture).resize(
            (max(1, round(picture.width * scale)), max(1, round(picture.height * scale))),
            Pictures.Resampling.BICUBIC if not mode.startswith("I") else Pictures.Resampling.NEAREST,
            reducing_gap=3.0,
        )
        small.info["exif"] = exif.tobytes()  # the rotation is applied after shrinking
        return small

    path = Path(path)
    if not path.is_file():
        raise InputError(f"the image {path} {'is a directory' if path.is_dir() else 'does not exist'}; give a file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's on large images: ours follows
            with Pictures.open(path) as picture:
                width, height = picture.size
                if longest is not None:
                    if longest < 1:
                        raise InputError(f"longest must be at least 1 pixel, got {longest}")
                    picture.draft(None, (longest, longest))  # JPEG decodes to about the right size at once
                    return _rgb(ImageOps.exif_transpose(shrunk(picture, longest)), str(path))
                if width * height > most_pixels:
                    raise InputError(
                        f"the image {path} has {width} x {height} = {width * height / 1e6:.0f} million pixels, more "
                        f"than {most_pixels / 1e6:g} million, and every counterfactual is a whole copy; shrink it with "
                        "longest=2048, or raise most_pixels"
                    )
                return _rgb(ImageOps.exif_transpose(picture), str(path))
    except InputError:
        raise
    except Pictures.DecompressionBombError as error:
        raise InputError(f"the image {path} is far too large ({error}); shrink it first") from error
    except UnidentifiedImageError as error:
        raise InputError(f"{path} is not an image that Pillow can read; save it as PNG or JPEG") from error
    except (OSError, SyntaxError, ValueError, EOFError, IndexError) as error:
        raise InputError(f"the image {path} is broken or cut short: {one_line(error)}") from error


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
    key = blake2b(str(image.shape).encode(), digest_size=8)
    key.update(np.ascontiguousarray(image).data)
    return key.hexdigest()


def is_pillow(thing: object) -> TypeGuard[Picture]:
    pillow = loaded("PIL.Image")  # no Pillow image can exist while Pillow is not loaded
    return pillow is not None and isinstance(thing, pillow.Image)


def as_image(thing: object) -> Image:
    """Convert an image to a uint8 array (height, width, 3).

    Parameters
    ----------
    thing : str, Path, PIL.Image.Image or ndarray
        A file, a Pillow image (rotated as its EXIF says), or an array of uint8 or uint16, (height, width) grey, or with
        1, 3 (RGB) or 4 (RGB and opacity) channels last.

    Returns
    -------
    ndarray
        Pixels, uint8 (height, width, 3).

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
        advice = "; move the channels last" if array.ndim == 3 and array.shape[0] in (1, 3, 4) else ""
        raise InputError(f"an image must be (height, width) with 1, 3 or 4 channels last, got {array.shape}{advice}")
    if array.shape[2] == 4:
        opacity = array[:, :, 3:].astype(np.uint32)
        return ((array[:, :, :3] * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
    return np.ascontiguousarray(np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array)


@dataclass(frozen=True)
class ImageFiles(Sequence[Image]):
    """A sequence of images on disk, each read when it is needed. Made by `folder`."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]
    longest: int | None = None  # as in `read_image`
    most_pixels: int = MOST_PIXELS
    ignored: tuple[str, ...] = ()  # files of the folder that are not images

    def __repr__(self) -> str:
        return f"ImageFiles({len(self.paths)} images)"

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> Image: ...
    @overload
    def __getitem__(self, index: slice) -> ImageFiles: ...
    def __getitem__(self, index: int | slice) -> Image | ImageFiles:
        if isinstance(index, slice):
            return replace(self, paths=self.paths[index], names=self.names[index])
        return recent_image(self.paths[index], self.longest, self.most_pixels)


def recent_image(path: Path, longest: int | None, most_pixels: int) -> Image:
    """Read a file's image, read-only; the last two stay in memory until they change on disk."""
    changed = path.stat().st_mtime_ns if path.exists() else 0  # read_image raises
    return _recent(path, changed, longest, most_pixels)


@lru_cache(maxsize=2)  # the subsets of one image come one after the other
def _recent(path: Path, changed: int, longest: int | None, most_pixels: int) -> Image:  # noqa: ARG001
    image = read_image(path, longest=longest, most_pixels=most_pixels)
    image.setflags(write=False)
    return image


def folder(
    path: str | Path, *, recursive: bool = False, longest: int | None = None, most_pixels: int = MOST_PIXELS
) -> ImageFiles:
    """List the images of a directory in natural order (img2 before img10), named by their file names.

    Files that are not named like images are left out and listed in `.ignored`; a broken image raises when it is read.

    Parameters
    ----------
    path : str or Path
        The directory.
    recursive : bool
        Search the directories inside as well; names are then paths such as "cats/1.jpg".
    longest, most_pixels : int
        As in `read_image`.

    Returns
    -------
    ImageFiles
        The images, read one at a time.

    Examples
    --------
    >>> import tempfile; from PIL import Image
    >>> with tempfile.TemporaryDirectory() as path:
    ...     Image.new("RGB", (3, 2)).save(f"{path}/cat.png")
    ...     folder(path).names
    ('cat.png',)
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"the image folder {root} {'is a file' if root.is_file() else 'does not exist'}")
    files = [file for file in (root.rglob("*") if recursive else root.iterdir()) if file.is_file()]
    by_name = {file.relative_to(root).as_posix(): file for file in files if not file.name.startswith(".")}
    names = sorted((name for name in by_name if name.lower().endswith(SUFFIXES)), key=natural_order)
    if not names:
        deeper = any(file.name.lower().endswith(SUFFIXES) for file in root.rglob("*"))
        advice = "the directories inside have some: use recursive=True" if deeper else f"expected {', '.join(SUFFIXES)}"
        raise InputError(f"the image folder {root} has no images among {len(by_name)} files; {advice}")
    ignored = tuple(sorted(set(by_name) - set(names)))
    return ImageFiles(tuple(by_name[name] for name in names), tuple(names), longest, most_pixels, ignored)


@dataclass(frozen=True)
class OpenImage:
    """Opens one image of a run: a file from disk, a Pillow image or an array as it is."""

    longest: int | None = None
    most_pixels: int = MOST_PIXELS
    ignored: tuple[str, ...] = ()  # files of the folder that are not images

    def __call__(self, name: str, source: object) -> Image:
        if isinstance(source, Path):
            return recent_image(source, self.longest, self.most_pixels)
        try:
            image = as_image(source).view()
        except InputError as error:
            raise InputError(f"image {name!r} cannot be used: {error}") from error
        image.setflags(write=False)  # nobody may write into an observed image
        return image


def load_items(images: Any) -> NamedItems:
    """Name the images of a folder or a file, a list of files, Pillow images or arrays, or a mapping name -> image.

    Files are named by their file names (by their paths where two are alike), others "image 1", "image 2" and so on.

    >>> load_items([np.zeros((2, 2, 3), np.uint8)] * 2).names
    ('image 1', 'image 2')
    """
    if isinstance(images, NamedItems):
        return images
    if isinstance(images, str | Path):
        images = [images] if Path(images).is_file() else folder(images)
    if isinstance(images, ImageFiles):
        return NamedItems(images.names, images.paths, OpenImage(images.longest, images.most_pixels, images.ignored))
    if is_pillow(images) or getattr(images, "ndim", 4) < 4:  # an array of NumPy, torch, ...
        raise InputError("images is one image; give a list of images: [image]")
    try:
        given = list(images.values()) if isinstance(images, Mapping) else list(images)
    except TypeError as error:
        raise InputError(
            "images must be a folder, a list of files or arrays, or a mapping name -> image, got "
            f"{type(images).__name__}"
        ) from error
    sources = tuple(Path(source) if isinstance(source, str) else source for source in given)
    if isinstance(images, Mapping):
        names = tuple(map(str, images))
    else:
        files = [source.name for source in sources if isinstance(source, Path)]
        short = len(set(files)) == len(files)
        names = tuple(
            (source.name if short else source.as_posix()) if isinstance(source, Path) else f"image {number}"
            for number, source in enumerate(sources, start=1)
        )
    check_names(names, "images")
    return NamedItems(names, sources, OpenImage())


def propose_regions(
    images: NamedItems,
    proposer: Proposer,
    on_error: OnError,
    *,
    whole: bool = False,
    pixels: dict[str, str] | None = None,
) -> Proposed:
    """Return the regions of every image; raise at what cannot be used, or leave it out. `whole` allows entire images.

    `pixels` is given the checksum of each image by name: here all of them are read, one after the other.
    """

    def check(name: str, image: Image, subsets: Sequence[Subset]) -> None:
        for subset in subsets:  # an inpainter would refuse it in the middle of the run
            region = not whole and not isinstance(subset.index, Attribute)
            if region and mask_of(subset, *image.shape[:2]).all():
                raise InputError(
                    f"region {subset.name!r} of image {name!r} is the whole image: nothing is left around it"
                )
        if pixels is not None:
            pixels[name] = checksum(image)

    ignored = images.open.ignored if isinstance(images.open, OpenImage) else ()
    notes = [Note("files-ignored", "info", {"names": list(ignored)})] if ignored else []
    words = Words(one="image", many="images", argument="boxes", nothing="no region", sign=" ")
    return propose(images, proposer, words, on_error, check, notes, RegionWarning)


def source_record(boxes: str, items: NamedItems, pixels: Mapping[str, str]) -> ImageInputs:
    """Return the files, if all are files, and checksums: `butfor.load` opens them again and checks them."""
    files = tuple(str(source.absolute()) for source in items.sources if isinstance(source, Path))
    opener = items.open
    assert isinstance(opener, OpenImage)
    on_disk = files if len(files) == len(items) else None
    return ImageInputs(boxes, on_disk, opener.longest, opener.most_pixels, tuple(pixels[name] for name in items.names))


def images_of(
    inputs: object, record: ImageInputs, images_in: Sequence[str | Path] | None = None
) -> Sequence[Image] | None:
    """Return the images of a saved run, as given or from their files; None where those are gone.

    A result from somebody else may name any file: with `images_in` none outside those folders is opened.
    """
    if inputs is not None:
        given = load_items(inputs)
        if len(given) == len(record.pixels):
            for image, name, known in zip(given, given.names, record.pixels, strict=True):
                if checksum(image) != known:
                    how = "" if record.longest is None else f", shrunk as then (longest={record.longest})"
                    raise InputError(
                        f"the image {name!r} is not the one of the run; give those of the run, in their order{how}"
                    )
        return given
    files = tuple(map(Path, record.files or ()))
    if not files or not all(file.is_file() for file in files):
        return None
    if images_in is not None:
        allowed = [Path(path).resolve() for path in images_in]
        for file in files:
            if not any(file.resolve().is_relative_to(path) for path in allowed):
                raise InputError(
                    f"the result names the image {file}, which is in none of the folders given; if it is yours, name "
                    f"its folder: --images {file.parent} (images_in= of butfor.load)"
                )
    opener = OpenImage(record.longest, record.most_pixels)
    same = SameImage(opener, dict(zip(files, record.pixels, strict=True)))
    return NamedItems(tuple(file.name for file in files), files, same)


@dataclass(frozen=True)
class SameImage:
    """Opens an image of a saved run; one that has changed counts as gone."""

    open: OpenImage
    pixels: Mapping[Path, str]
    warned: set[Path] = field(default_factory=set)

    def __call__(self, name: str, path: Path) -> Image:
        image = self.open(name, path)
        if checksum(image) == self.pixels[path]:
            return image
        changed = f"the image {path} is not as it was when the run read it"
        if path not in self.warned:  # a report goes on without its pictures, and should say why
            self.warned.add(path)
            warn_user(f"{changed}; it is left out", UserWarning)
        raise InputError(f"{changed}; use butfor.load(..., inputs=...)")


def list_items(images: Sequence[Image] | None, names: Sequence[object]) -> ListItems:
    """Return the images of a saved run as items; where they are gone, the rest of the result can be used."""
    given = NamedItems(tuple(names), tuple(names), _gone) if images is None else images
    return ListItems(given, costly=True, packing=RegionPacking())


def _gone(*_: object) -> NoReturn:  # not nested: results are pickled
    raise InputError("the images of this result are no longer where they were; use butfor.load(..., inputs=...)")


def can_be_read(items: Items) -> bool:
    try:
        for index in range(len(items)):
            items.block(index, index + 1)
    except InputError:
        return False
    return True


def region(index: object) -> object:
    """Restore the index of a saved subset; ValueError where it is no region of an image.

    >>> region("Attribute('colour')"), region((0, 0, 2, 2))
    (Attribute('colour'), (0, 0, 2, 2))
    """
    if isinstance(index, str):  # built-in attributes are saved by name
        name = index.removeprefix("Attribute('").removesuffix("')")
        return Attribute(name, BUILT_IN[name]) if name in BUILT_IN else index
    if is_mask(index) and index.any():
        return index
    if isinstance(index, tuple) and len(index) == 4 and all(type(side) is int for side in index):
        x1, y1, x2, y2 = index
        if 0 <= x1 < x2 < WIDEST and 0 <= y1 < y2 < WIDEST:
            return index
    raise ValueError(f"a region is {index!r:.60}, neither a box nor a mask nor an attribute")


def check_kept(pieces: Sequence[Array]) -> None:
    for piece in pieces:
        if piece.dtype != np.uint8 or piece.ndim not in (3, 4) or piece.shape[-1] != 3:
            raise ValueError(f"a counterfactual is {piece.dtype} of shape {piece.shape}, not pixels")
