"""Pictures as features: from a file or stand-in to the part that a party sees.

Sample and epoch seed crops and flips, so that all parties of a picture crop and flip it alike. Then each cuts out its
own part; the parts of all parties tile the picture.

Shapes: b = samples of a batch, c = channels, h and w = height and width.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from flexray.core.errors import DataError
from flexray.core.seeds import generator
from flexray.data.ahead import Reader
from flexray.data.base import Array, IdArray, Split
from flexray.data.batches import Batch
from flexray.data.checks import reading
from flexray.data.stand_in import StandIn

if TYPE_CHECKING:  # a run without pictures does not import Pillow
    from PIL.Image import Image

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels."""
IMAGENET = {1: ((0.449,), (0.226,)), 3: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
"""Means and deviations of ImageNet's training pictures by number of channels, expected by pretrained ResNets."""
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF")
"""Formats of the known suffixes; for some others, such as PostScript, Pillow starts programs."""
RATIO = (3 / 4, 4 / 3)
TRIES = 10
CACHE_BYTES = 256 * 2**20
"""Memory of a process for pictures that will be read again."""


class Files:
    """Pictures in files, one per sample, converted to 3 channels (colour) or 1 (grey)."""

    def __init__(self, files: Sequence[str], channels: int) -> None:
        self._files = files
        self._mode = "RGB" if channels == 3 else "L"

    def __len__(self) -> int:
        return len(self._files)

    def open(self, sample: int) -> Image:
        """Read a picture; a file without one is refused by name."""
        from PIL import Image

        file = Path(self._files[sample])
        try:
            with reading(file, "a picture"), Image.open(file, formats=FORMATS) as picture:
                mode = picture.mode
                warns = mode == "P" and "transparency" in picture.info  # unless it becomes RGBA first
                converted = (picture.convert("RGBA") if warns else picture).convert(self._mode)
        except (SyntaxError, struct.error, IndexError, Image.DecompressionBombError) as error:  # Pillow's own
            raise DataError(f"{file}: cannot be read as a picture ({' '.join(str(error).split())})") from error
        if mode[0] in "IF":
            raise DataError(f"{file}: has pixels of mode {mode}; expected 8 bits per channel")
        return converted


Source = Files | StandIn
"""The pictures of one split, in their own sizes; opened by several threads at once."""


@dataclass(frozen=True)
class Look:
    """One party's view of a picture.

    Args:
        size: (h, w) of the whole picture after cropping and resizing.
        part: (top, left, h, w) of the party's part of it.
        crop_scale: Smallest and largest part of the area in a random crop; None crops the middle.
        flip: Flip left and right at random.
        middle: Part of the height and width in a crop of the middle.
        seed: Draws crops and flips, with sample and epoch.
    """

    size: tuple[int, int]
    part: tuple[int, int, int, int]
    crop_scale: tuple[float, float] | None = None
    flip: bool = False
    middle: float = 1.0
    seed: int = 0

    def whole(self, picture: Image, sample: int, epoch: int) -> Array:
        """Return the cropped, resized and flipped picture [h, w] or [h, w, c], the same for all parties."""
        from PIL.Image import Resampling

        width, height = picture.size
        box, flipped = middle_box(width, height, self.size, self.middle), False
        if self.is_random:
            draw = generator(self.seed, "crop", sample, epoch)
            if self.crop_scale is not None:
                box = random_box(draw, width, height, self.size, self.crop_scale)
            flipped = self.flip and bool(draw.random() < 0.5)
        pixels = np.asarray(picture.resize(self.size[::-1], Resampling.BILINEAR, box))
        return pixels[:, ::-1] if flipped else pixels

    @property
    def is_random(self) -> bool:
        """Whether another epoch sees something else."""
        return self.crop_scale is not None or self.flip

    def cut(self, whole: Array) -> Array:
        """Return the party's part [c, h, w] of a picture as :meth:`whole` returns it."""
        top, left, height, width = self.part
        part = whole[top : top + height, left : left + width]
        return part[None] if part.ndim == 2 else part.transpose(2, 0, 1)


def middle_box(width: int, height: int, size: tuple[int, int], part: float) -> Box:
    """Return the largest box of the shape of ``size`` in the middle of a picture, times ``part``."""
    scale = part * min(width / size[1], height / size[0])
    half_w, half_h = scale * size[1] / 2, scale * size[0] / 2
    left, top = max(0.0, width / 2 - half_w), max(0.0, height / 2 - half_h)
    return left, top, width - left, height - top


def random_box(
    draw: np.random.Generator, width: int, height: int, size: tuple[int, int], scale: tuple[float, float]
) -> Box:
    """Return a box with a random part of the area and a random ratio near that of ``size``, in whole pixels."""
    for _ in range(TRIES):
        area = width * height * draw.uniform(*scale)
        ratio = size[1] / size[0] * math.exp(draw.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = max(1, round(math.sqrt(area * ratio))), max(1, round(math.sqrt(area / ratio)))
        if w <= width and h <= height:
            left, top = draw.integers(width - w + 1), draw.integers(height - h + 1)
            return float(left), float(top), float(left + w), float(top + h)
    return middle_box(width, height, size, 1.0)


class PictureCache:
    """Pictures as they are before each party takes its part, shared by the parties of a process.

    The first ones stay for good and those that do not fit are read every time: evaluations go through a split in order,
    so giving up the oldest for the newest would find none of a split that fits in part.

    Args:
        most_bytes: Memory for pixels.
    """

    def __init__(self, most_bytes: int = CACHE_BYTES) -> None:
        self._left_bytes = most_bytes
        self._pictures: dict[tuple[Split, int, int], Array] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[Split, int, int], read: Callable[[], Array]) -> Array:
        """Return the picture of a split, a number and a sample; ``read`` gives it where it is not here."""
        found = self._pictures.get(key)
        if found is not None:
            return found
        picture = read()
        with self._lock:
            if key not in self._pictures and picture.nbytes <= self._left_bytes:
                self._pictures[key] = picture
                self._left_bytes -= picture.nbytes
        return picture


@dataclass(frozen=True)
class Pictures:
    """Reads one party's view of the pictures of one split: bytes [b, c, h, w].

    Args:
        source: The pictures.
        look: What the party sees of them.
        channels: 3 or 1.
        split: Which split they are, and
        number: which of a sample's pictures, for parties that have different ones.
        cache: For pictures that are the same in all epochs, and for those of the first, which evaluations read.
    """

    source: Source
    look: Look
    channels: int
    split: Split = "train"
    number: int = 0
    cache: PictureCache = field(default_factory=PictureCache)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (c, h, w) of one sample."""
        return (self.channels, *self.look.part[2:])

    def __call__(self, ids_b: IdArray, epoch: int) -> Tensor:
        """Read samples with the crops and flips of an epoch."""
        pixels = np.empty((len(ids_b), *self.shape), dtype=np.uint8)
        for place, sample in enumerate(ids_b.tolist()):
            pixels[place] = self.look.cut(self._whole(sample, epoch if self.look.is_random else 0))
        return torch.from_numpy(pixels)

    def _whole(self, sample: int, epoch: int) -> Array:
        def read() -> Array:
            return self.look.whole(self.source.open(sample), sample, epoch)

        return read() if epoch else self.cache.get((self.split, self.number, sample), read)


class PictureFeatures:
    """One party's pictures of one split; memory holds the batches ahead and a :class:`PictureCache`.

    Values are in [0, 1] or, with ``normalize``, less :data:`IMAGENET`'s means and divided by its deviations.
    """

    def __init__(
        self, split: Split, pictures: Pictures, reader: Reader, dtype: torch.dtype, normalize: bool = False
    ) -> None:
        self._split, self._pictures, self._reader, self._dtype = split, pictures, reader, dtype
        self._scaling: list[Tensor] = []
        if normalize:
            self._scaling = [torch.tensor(values, dtype=dtype).view(-1, 1, 1) for values in IMAGENET[pictures.channels]]

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape (c, h, w) of one sample."""
        return self._pictures.shape

    def __len__(self) -> int:
        return len(self._pictures.source)

    def expect(self, batches: Iterable[Batch]) -> None:
        """Start to read these batches."""
        self._reader.expect(self._split, batches)

    def batch(self, ids_b: IdArray, epoch: int) -> Tensor:
        """Return the party's view of samples ``ids_b``, [b, c, h, w], in [0, 1] or normalized."""
        batch = self._reader.take(self._split, Batch(ids_b, epoch)).to(self._dtype).div_(255)
        if not self._scaling:
            return batch
        mean, deviation = self._scaling
        return batch.sub_(mean).div_(deviation)
