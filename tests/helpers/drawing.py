"""Small pictures on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def noise(seed: int, height: int = 8, width: int = 8, channels: int = 3) -> np.ndarray:
    """Return a random picture [h, w, c], or [h, w] for one channel."""
    pixels = np.random.default_rng(seed).integers(256, size=(height, width, channels), dtype=np.uint8)
    return pixels if channels == 3 else pixels[:, :, 0]


def draw(file: Path, pixels: np.ndarray) -> None:
    """Save a picture without loss."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)


def image_folder(root: Path, classes: int = 3, train: int = 3, test: int = 2, split: str = "val", **size: int) -> Path:
    """Write ``root/{train,val}/CLASS/PICTURE``; return ``root``."""
    for c in range(classes):
        for part, count in (("train", train), (split, test)):
            for i in range(count):
                draw(root / part / f"n{c:02}" / f"p{i}.png", noise(100 * c + 10 * i + (part == "train"), **size))
    return root


LAYOUTS = {
    "items": "{c}/{s}/{c}_{i:04}/view_{v:02}.png",
    "flat": "{c}/{s}/{c}_{i:04}.obj.shaded_v{v:03}.png",
    "split first": "{s}/{c}/{c}_{i:04}/{c}_{i:04}_{v}.png",
    "split first, flat": "{s}/{c}/{c}_{i:04}_{v}.png",
}
VIEWS = (9, 10, 11)
"""As text, 10 and 11 come before 9."""


def view_folder(root: Path, layout: str = "items", views: tuple[int, ...] = VIEWS, size: int = 4) -> Path:
    """Write two classes of two training objects and one test object; return ``root``."""
    for c, name in enumerate(("sofa", "bed")):
        for split, items in (("train", (1, 2)), ("test", (3,))):
            for i in items:
                for v in reversed(views):
                    path = LAYOUTS[layout].format(c=name, s=split, i=i, v=v)
                    draw(root / path, noise(1000 * c + 100 * i + v, size, size))
    return root
