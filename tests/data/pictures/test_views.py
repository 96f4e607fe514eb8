"""ModelNet40 and its like: views by number, each at its party; and the same batches as from a bundle."""

import shutil

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError, DataError, UserError
from flexray.data.bundle import Bundle
from flexray.data.views import Views
from helpers.drawing import LAYOUTS, draw, noise, view_folder

ALL = np.arange(4)


def of_party(dataset, party, split="train"):
    return dataset.features(party, torch.float64)[split].batch(ALL[: 4 if split == "train" else 2], 0).numpy()


def views(root, **arguments):
    return Views(root, **{"views": 3, "size": 4, "middle": 1.0, "scale": "unit", "augment": False} | arguments)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_are_matched_by_number_in_every_layout(tmp_path, layout):
    dataset = views(view_folder(tmp_path, layout))
    outline = dataset.outline()
    assert outline.parties == ("view_09", "view_10", "view_11")
    assert (outline.sizes, outline.task.num_outputs) == ({"train": 4, "val": 0, "test": 2}, 2)
    assert dataset.labels()["train"].tolist() == [0, 0, 1, 1]  # bed, then sofa
    assert [name.split("/")[0] for name in dataset.sample_ids("train")] == ["bed", "bed", "sofa", "sofa"]
    for party, number in enumerate((9, 10, 11)):
        wanted = [noise(1000 * c + 100 * i + number, 4, 4) for c in (1, 0) for i in (1, 2)]
        np.testing.assert_array_equal(of_party(dataset, party) * 255, np.stack(wanted).transpose(0, 3, 1, 2))
        test = np.stack([noise(1000 * c + 300 + number, 4, 4) for c in (1, 0)]).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(of_party(dataset, party, "test") * 255, test)


def test_a_party_reads_the_files_of_its_own_view_only(tmp_path):
    view_folder(tmp_path)
    for file in tmp_path.rglob("view_*.png"):
        if "view_10" not in file.name:
            file.write_bytes(b"of another party")
    assert of_party(views(tmp_path), 1).shape == (4, 3, 4, 4)
    with pytest.raises(DataError, match=r"view_11.png: cannot be read as a picture"):
        of_party(views(tmp_path), 2)


def test_parties_may_be_chosen_by_view(tmp_path):
    dataset = views(view_folder(tmp_path), parties=["view_11"])
    assert dataset.outline().parties == ("view_11",)
    np.testing.assert_array_equal(of_party(dataset, 0), of_party(views(tmp_path), 2))


def save_both(folder, pictures_kn, labels):
    """Write objects [k, n, h, w] as a bundle and as a folder of views."""
    for split, part in (("train", slice(0, None, 2)), ("test", slice(1, None, 2))):
        (folder / "bundle" / split).mkdir(parents=True)
        np.save(folder / "bundle" / split / "labels.npy", labels[part])
        for k, views_n in enumerate(pictures_kn):
            np.save(folder / "bundle" / split / f"view_{k:02}.npy", views_n[part])
            for i, (picture, label) in enumerate(zip(views_n[part], labels[part], strict=True)):
                draw(folder / "views" / f"c{label}" / split / f"o{i:03}" / f"{k}.png", picture)


def test_a_folder_of_views_gives_the_batches_and_the_model_that_a_bundle_gives(tmp_path, compose_job, run_inline):
    draw_ = np.random.default_rng(4)
    pictures = draw_.integers(256, size=(3, 24, 8, 8), dtype=np.uint8)
    save_both(tmp_path, pictures, np.repeat(np.arange(4), 6))
    folder = views(tmp_path / "views", size=8, channels=1)
    bundle = Bundle(tmp_path / "bundle", scale="unit")
    for party in range(3):
        for split in ("train", "test"):
            ids = np.array([3, 0, 11])
            one, other = (d.features(party, torch.float32)[split].batch(ids, 0) for d in (folder, bundle))
            assert torch.equal(one, other[:, None])
    common = ["target_metric=test_top1", "model=strided_cnn", "dataset.batch_size=5", "rounds=3"]
    picture_keys = ["dataset.views=3", "dataset.size=8", "dataset.channels=1", "dataset.scale=unit"]
    jobs = [
        compose_job("dataset=modelnet40", f"dataset.path={tmp_path}/views", *picture_keys, *common, "embedding=4"),
        compose_job("dataset=bundle", f"dataset.path={tmp_path}/bundle", "dataset.scale=unit", *common, "embedding=4"),
    ]
    digests = [list(run_inline(job)[-1].digests.values()) for job in jobs]
    assert digests[0] == digests[1]


def file_of(root, name):
    return root / "sofa" / "train" / "sofa_0002" / name


FAULTS = {
    "no folder": (lambda r: r.rename(r.parent / "gone"), ["{r}: no such folder (dataset.path)"]),
    "missing view": (
        lambda r: file_of(r, "view_10.png").unlink(),
        ["{r}/sofa/train: object 'sofa_0002' has no view 10, which others have"],
    ),
    "more views": (
        lambda r: draw(file_of(r, "view_12.png"), noise(1)),
        ["view_12.png: there are 4 views (9 to 12), more than the 3 parties of dataset.views"],
    ),
    "fewer views": (
        lambda r: [file.unlink() for file in r.rglob("view_11.png")],
        ["dataset.views: expected the number of views that there are, 9, 10; got 3"],
    ),
    "view twice": (
        lambda r: draw(file_of(r, "view_9.png"), noise(1)),
        ["view_9.png: is view 9, as view_09.png is"],
    ),
    "no number": (lambda r: draw(file_of(r, "front.png"), noise(1)), ["front.png: expected a name that ends with"]),
    "no split": (lambda r: shutil.rmtree(r / "bed" / "test"), ["{r}/bed/test: no such folder, but other"]),
    "no split at all": (
        lambda r: [shutil.rmtree(r / c / "test") for c in ("bed", "sofa")],
        ["{r}: looked for CLASS/train/ITEM/VIEW.png", "train/CLASS/...", "found bed/, sofa/"],
    ),
    "empty class": (
        lambda r: [shutil.rmtree(folder) for folder in (r / "bed" / "train").iterdir()],
        ["{r}/bed/train: looked for", "found an empty folder"],
    ),
    "empty item": (
        lambda r: [file.unlink() for file in (r / "bed" / "test" / "bed_0003").iterdir()],
        ["{r}/bed/test/bed_0003: has no pictures"],
    ),
    "arrays": (
        lambda r: [shutil.rmtree(r / c) for c in ("bed", "sofa")] + [np.save(r / "a.npy", ALL)],
        ["{r}: looked for", "found a.npy"],
    ),
    "meshes": (
        lambda r: [file.rename(file.with_suffix(".off")) for file in r.rglob("*.png")],
        ["{r}/bed/train/bed_0001: has no pictures"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_folder_is_named(tmp_path, fault):
    root = view_folder(tmp_path / "data")
    damage, words = FAULTS[fault]
    damage(root)
    with pytest.raises(UserError) as caught:
        views(root).outline()
    assert all(word.format(r=root) in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"views": 0}, "dataset.views: expected a whole number of at least 1, got 0"),
        ({"parties": ["view_8"]}, "dataset.parties: there is no party 'view_8'; did you mean 'view_"),
        ({"num_classes": 1}, "dataset.num_classes: expected"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, words):
    with pytest.raises(ConfigError) as caught:
        views(view_folder(tmp_path), **arguments).outline()
    assert str(caught.value).startswith(words)
