"""Kinds of fixtures of conftest.py, and the small bundle that most tests run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from flexray.config.job import Job
from flexray.core.messages import Record

SHAPES = {"a": (2, 3), "b": (4,), "c": (5,)}

Compose = Callable[..., Job]
Run = Callable[[Job], list[Record]]
WriteBundle = Callable[..., Path]


def save_bundle(
    folder: Path, shapes: Mapping[str, Sequence[int]], train: int = 24, test: int = 9, classes: int | None = 4
) -> Path:
    """Write random float64 features, and class numbers (or, without ``classes``, numbers) as labels."""
    draw = np.random.Generator(np.random.PCG64(11))
    for split, rows in (("train", train), ("test", test)):
        (folder / split).mkdir(parents=True)
        for name, shape in shapes.items():
            np.save(folder / split / f"{name}.npy", draw.normal(size=(rows, *shape)))
        labels = draw.normal(size=rows) if classes is None else np.arange(rows) % classes
        np.save(folder / split / "labels.npy", labels)
    return folder
