"""Small good files of every format, and how each is read to its end."""

from __future__ import annotations

import gzip
import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image
from safetensors.numpy import save

import flexray
from flexray.data.base import SPLITS, Dataset
from flexray.data.bundle import Bundle
from flexray.data.folders import chosen_classes
from flexray.data.off import read_off
from flexray.data.outlines import check_outline, load_labels
from flexray.data.pictures import Files
from flexray.data.sentiment import Sentiment
from flexray.data.table import Table
from flexray.run.watch.folder import load_state
from flexray.traces.formats.base import Request
from flexray.traces.importing import import_trace
from flexray.traces.reading import read_trace, trace_info
from helpers import sentiment_files as writing
from helpers.made_runs import write_run

Write = Callable[[Path], Path]
Use = Callable[[Path], object]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Args:
        write: Makes it, with what belongs to it, in an empty folder; returns it.
        use: Reads it to its end.
    """

    write: Write
    use: Use


def use(dataset: Dataset) -> None:
    """Do what a run does before its first round, and read all samples."""
    outline = check_outline(dataset.outline(), dataset, predicts=False)
    load_labels(dataset, outline, predicts=False)
    for party in range(len(outline.parties)):
        for split, features in dataset.features(party, torch.float32).items():
            features.batch(np.arange(outline.sizes[split]), 0)
    for split in SPLITS:
        assert len(dataset.sample_ids(split)) == outline.sizes[split]


def bundle(name: str) -> Write:
    """Return how to write a bundle of which ``name`` is to be damaged."""

    def write(root: Path) -> Path:
        draw = np.random.default_rng(1)
        for split, rows in (("train", 24), ("test", 8)):
            (root / split).mkdir()
            np.save(root / split / "a.npy", draw.normal(size=(rows, 2, 3)).astype(np.float32))
            np.save(root / split / "b.npy", draw.integers(0, 255, size=(rows, 3), dtype=np.uint8))
            np.save(root / split / "labels.npy", np.arange(rows) % 3)
            np.save(root / split / "ids.npy", np.array([f"sample-{row}" for row in range(rows)]))
        return root / "train" / f"{name}.npy"

    return write


def table(suffix: str) -> Write:
    """Return how to write a table."""

    def write(root: Path) -> Path:
        draw, rows = np.random.default_rng(1), 30
        columns = {"id": [f"{row:03}" for row in range(rows)], "x": draw.normal(size=rows), "n": np.arange(rows)}
        frame = pd.DataFrame({**columns, "y": np.arange(rows) % 3, "word": ["cat", "dog"] * 15, "z": draw.random(rows)})
        file = root / f"table{suffix}"
        frame.to_csv(file, index=False) if suffix == ".csv" else frame.to_parquet(file, index=False)
        return file

    return write


def use_table(**options: str) -> Use:
    """Return how to read a table."""
    parties = {"left": ["x"], "right": ["n"]}
    return lambda file: use(Table(file, parties=parties, id="id", **options))  # type: ignore[arg-type]


def sentiment(write_all: Callable[[Path], Path], name: str = "") -> Write:
    """Return how to write a layout of sentiment of which ``name`` is to be damaged."""
    return lambda root: write_all(root / "data") if not name else write_all(root / "data") / name


def use_sentiment(file: Path) -> None:
    """Read all of it but the tokens of its texts, which need a BERT."""
    root = next(path for path in (file, *file.parents) if path.name == "data")
    place = file if file.name.startswith("aligned") else root
    dataset = Sentiment(place, cache=root.parent / "cache", bert=str(root.parent / "bert"))
    store = dataset._store
    dataset.labels()
    for split in dataset._splits:
        assert len(store.sentences(split)) == len(dataset.sample_ids(split))
    for party in range(2):
        for split, features in dataset.features(party, torch.float32).items():
            features.batch(np.arange(len(dataset.sample_ids(split))), 0)


def stored(name: str) -> Write:
    """Return how to clean and store data, of which a file of the store is to be damaged."""

    def write(root: Path) -> Path:
        use_sentiment(writing.infomax(root / "data"))
        return next((root / "cache").iterdir()) / name

    return write


def use_store(file: Path) -> None:
    """Read data whose store is damaged: it is made again."""
    use_sentiment(file.parents[2 if file.parent.name not in ("train", "test") else 3] / "data")


def picture(form: str, mode: str = "RGB") -> Write:
    """Return how to write a picture."""

    def write(root: Path) -> Path:
        pixels = np.random.default_rng(1).integers(0, 256, size=(12, 16, 3), dtype=np.uint8)
        file = root / f"picture.{form}"
        Image.fromarray(pixels).convert(mode).save(file)
        return file

    return write


def mesh(root: Path) -> Path:
    """Write a mesh."""
    (root / "mesh.off").write_text("OFF\n4 3 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2\n3 0 1 3\n4 0 1 2 3\n")
    return root / "mesh.off"


CPU = np.random.default_rng(1).integers(1, 100, size=(3, 6)) / 100


def trace(name: str) -> Write:
    """Return how to write a trace, ``name`` saying in which form."""

    def write(root: Path) -> Path:
        file, machines = root / name, ("one", "two", "three")
        if file.suffix == ".npy":
            np.save(file, CPU)
        elif name == "wide.csv":
            rows = [[300 * t, *CPU[:, t]] for t in range(6)]
            pd.DataFrame(rows, columns=["time", *machines]).to_csv(file, index=False)
        else:
            rows = [(machine, 300 * t, CPU[m, t]) for m, machine in enumerate(machines) for t in range(6)]
            frame = pd.DataFrame(rows, columns=["machine", "time", "cpu"])
            if file.suffix == ".csv":
                frame.to_csv(file, index=False)
            else:
                long = root / "long.csv"
                frame.to_csv(long, index=False)
                import_trace("long", Request((long,), workers=1), file)
        return file

    return write


def use_trace(file: Path) -> None:
    """Read a trace."""
    trace_info(file)
    read_trace(file)


def packed(name: str, content: str) -> Write:
    """Return how to write a text, gzipped if its name says so."""

    def write(root: Path) -> Path:
        data = content.encode()
        (root / name).write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
        return root / name

    return write


def imports(form: str) -> Use:
    """Return how to import a trace."""
    return lambda file: import_trace(form, Request((file,), workers=1), file.parent / "imported.parquet")


def weights(root: Path) -> Path:
    """Write a participant's saved model."""
    arrays = {"layer.weight": np.ones((3, 4), np.float32), "layer.bias": np.zeros(3), "steps": np.array(7)}
    (root / "left.safetensors").write_bytes(save(arrays))
    return root / "left.safetensors"


def class_list(root: Path) -> Path:
    """Write a list of classes."""
    (root / "classes.txt").write_text("n01 cat\nn02  # dog\n\nn03\n")
    return root / "classes.txt"


USAGE = "".join(
    f'{{"start_time":"{t * 300_000_000}","end_time":"{(t + 1) * 300_000_000}","machine_id":"{m}",'
    f'"collection_id":"5","instance_index":"{m}","average_usage":{{"cpus":0.{m + t}}}}}\n'
    for t in range(5)
    for m in range(1, 4)
)
ALIBABA = "".join(f"m_{m},{10 * t},{10 * m + t},1,,,,,\n" for t in range(90) for m in range(1, 4))


def use_run(file: Path) -> None:
    """Read all that Python has of a run folder, which always shows itself."""
    run = flexray.read(file.parent)
    assert repr(run)
    assert run._repr_html_()
    assert all(len(table) >= 0 for table in (run.summary, run.evals, run.rounds, run.participants, run.timeline))


KINDS = {
    **{
        f"run {name}": Kind(lambda root, name=name: write_run(root / "run", values=(0.1, 0.2)) / name, use_run)
        for name in ("summary.json", "rounds.csv", "evals.csv", "timeline.json")
    },
    **{
        f"bundle {name}": Kind(bundle(name), lambda file: use(Bundle(file.parents[1])))
        for name in ("a", "b", "labels", "ids")
    },
    "csv": Kind(table(".csv"), use_table(label="y")),
    "csv words": Kind(table(".csv"), use_table(label="word")),
    "csv numbers": Kind(table(".csv"), use_table(label="z", loss="l1")),
    "parquet": Kind(table(".parquet"), use_table(label="y")),
    "parquet words": Kind(table(".parquet"), use_table(label="word")),
    "pickle infomax": Kind(sentiment(writing.infomax, "train.pkl"), use_sentiment),
    "pickle mmsa": Kind(lambda root: writing.mmsa(root / "data" / "aligned_50.pkl"), use_sentiment),
    "pickle old": Kind(lambda root: old_pickle(root), use_sentiment),
    **{
        f"sentiment {name}": Kind(sentiment(writing.arrays, f"train/{name}"), use_sentiment)
        for name in ("video.npy", "video_lengths.npy", "ids.npy", "labels.npy", "sentences.csv")
    },
    **{
        f"store {name}": Kind(stored(name), use_store)
        for name in ("report.json", "train/video.npy", "train/text.json", "train/audio_lengths.npy", "train/labels.npy")
    },
    **{
        f"picture {form}": Kind(picture(form), lambda file: Files([str(file)], 3).open(0))
        for form in ("png", "jpg", "bmp", "webp", "ppm", "tif")
    },
    "picture palette": Kind(picture("png", "P"), lambda file: Files([str(file)], 1).open(0)),
    "mesh": Kind(mesh, read_off),
    **{f"trace {name}": Kind(trace(name), use_trace) for name in ("t.parquet", "long.csv", "wide.csv", "t.npy")},
    "import google2019": Kind(packed("usage.json.gz", USAGE), imports("google2019")),
    "import alibaba": Kind(packed("machine_usage.csv", ALIBABA), imports("alibaba2018")),
    "import long": Kind(trace("long.csv"), imports("long")),
    "import wide": Kind(trace("wide.csv"), imports("wide")),
    "weights": Kind(weights, load_state),
    "class list": Kind(class_list, lambda file: chosen_classes(["n01", "n02", "n03"], str(file), None, 0)),
}


def old_pickle(root: Path) -> Path:
    """Write a pickle as Python 2 did."""
    folder = writing.infomax(root / "data")
    content = pickle.loads((folder / "train.pkl").read_bytes())
    (folder / "train.pkl").write_bytes(pickle.dumps(content, protocol=2))
    return folder / "train.pkl"


def npy(descr: object, fortran: object, shape: object, body: bytes) -> bytes:
    """Return an ``.npy`` file with any header."""
    stream = io.BytesIO()
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode("latin-1")
    stream.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body)
    return stream.getvalue()
