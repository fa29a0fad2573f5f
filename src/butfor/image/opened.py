"""What a user calls images -> a sequence that opens one when it is asked for, with a name for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from butfor.core.types import InputError
from butfor.image.files import MOST_PIXELS, ImageFiles, as_image, folder
from butfor.image.region import Image


@dataclass(frozen=True, eq=False)
class Opened(Sequence[Image]):
    """Images by name; files are read when asked for, so that they are never all in memory. Made by `opened`."""

    names: tuple[str, ...]
    sources: tuple[Any, ...]  # paths, Pillow images or arrays
    longest: int | None = None
    most_pixels: int = MOST_PIXELS
    ignored: tuple[str, ...] = ()  # files of the folder that are no images

    def __repr__(self) -> str:
        return f"{len(self.names)} images"

    def __len__(self) -> int:
        return len(self.sources)

    @overload
    def __getitem__(self, place: int) -> Image: ...
    @overload
    def __getitem__(self, place: slice) -> Opened: ...
    def __getitem__(self, place: int | slice) -> Image | Opened:
        if isinstance(place, slice):
            return self.some(range(*place.indices(len(self))))
        source = self.sources[place]
        if isinstance(source, Path):  # the last two files stay open: see ImageFiles
            return ImageFiles((source,), (self.names[place],), self.longest, self.most_pixels)[0]
        try:
            image = as_image(source).view()
        except InputError as error:
            raise InputError(f"image {self.names[place]!r} cannot be used: {error}") from error
        image.setflags(write=False)  # nobody may write into what is observed
        return image

    def some(self, places: Iterable[int]) -> Opened:
        """Only the images at these places."""
        kept = list(places)
        names, sources = tuple(self.names[i] for i in kept), tuple(self.sources[i] for i in kept)
        return replace(self, names=names, sources=sources)

    def paths(self) -> list[str] | None:
        """Where the files are; None if some image is no file."""
        files = [str(source.absolute()) for source in self.sources if isinstance(source, Path)]
        return files if len(files) == len(self) else None


def opened(images: Any) -> Opened:
    """Images from a folder or a file, a list of files, Pillow images or arrays, a mapping name -> one of these.

    Files are named by their file names (by their paths where two are alike), others "image 1", "image 2" and so on.

    >>> import numpy as np
    >>> opened([np.zeros((2, 2, 3), np.uint8)] * 2).names
    ('image 1', 'image 2')
    """
    if isinstance(images, Opened):
        return images
    if isinstance(images, str | Path):
        images = [images] if Path(images).is_file() else folder(images)
    if isinstance(images, ImageFiles):
        return Opened(images.names, images.paths, images.longest, images.most_pixels, images.ignored)
    if isinstance(images, Mapping):
        found = Opened(tuple(map(str, images)), tuple(map(_source, images.values())))
    else:
        sources = tuple(map(_source, _listed(images)))
        found = Opened(_names(sources), sources)
    if not found.names:
        raise InputError("there are no images; give at least one")
    if len(set(found.names)) < len(found.names):
        twice = next(name for name in found.names if found.names.count(name) > 1)
        raise InputError(f"two images are called {twice!r}; names must differ")
    return found


def _listed(images: Any) -> list[Any]:
    if (hasattr(images, "ndim") and images.ndim < 4) or hasattr(images, "convert"):
        raise InputError("images is one image; give a list of images: [image]")
    try:
        return list(images)
    except TypeError as error:
        raise InputError(
            "images must be a folder, a list of files or arrays, or a mapping name -> image, got "
            f"{type(images).__name__}"
        ) from error


def _source(thing: Any) -> Any:
    return Path(thing) if isinstance(thing, str) else thing


def _names(sources: Sequence[Any]) -> tuple[str, ...]:
    files = [source.name for source in sources if isinstance(source, Path)]
    short = len(set(files)) == len(files)
    return tuple(
        (source.name if short else source.as_posix()) if isinstance(source, Path) else f"image {number}"
        for number, source in enumerate(sources, start=1)
    )
