"""ImageNet100 and its like: classes, splits, crops that all parties share, parts that tile the picture."""

import numpy as np
import pytest
import torch
from PIL import Image

from flexray.core.errors import ConfigError, DataError
from flexray.data.base import SPLITS
from flexray.data.image_grid import ImageGrid
from flexray.data.pictures import IMAGENET, Look, middle_box
from helpers.drawing import draw, image_folder, noise

IDS = np.array([4, 0, 7])


def parts_of(dataset, split, ids, epoch, dtype=torch.float64):
    names = dataset.outline().parties
    return [dataset.features(k, dtype)[split].batch(ids, epoch) for k in range(len(names))]


def assembled(parts, columns):
    rows = [torch.cat(parts[i : i + columns], dim=3) for i in range(0, len(parts), columns)]
    return torch.cat(rows, dim=2).numpy()


def test_classes_are_numbered_by_name_and_val_is_the_test_split(tmp_path):
    dataset = ImageGrid(image_folder(tmp_path), size=8)
    outline = dataset.outline()
    assert outline.parties == ("upper_left", "upper_right", "lower_left", "lower_right")
    assert (outline.sizes, outline.source) == ({"train": 9, "val": 0, "test": 6}, "files")
    assert (outline.task.loss, outline.task.num_outputs) == ("cross_entropy", 3)
    assert dataset.labels()["train"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert dataset.sample_ids("test").tolist() == [f"n{c:02}/p{i}.png" for c in range(3) for i in range(2)]
    assert dataset.features(0, torch.float32)["test"].sample_shape == (3, 4, 4)


def test_a_val_folder_beside_test_is_for_validation(tmp_path):
    image_folder(image_folder(tmp_path), test=1, split="test")
    assert ImageGrid(tmp_path, size=8).outline().sizes == {"train": 9, "val": 6, "test": 3}
    with pytest.raises(ConfigError, match=r"^dataset.val_fraction: expected 0"):
        ImageGrid(tmp_path, size=8, val_fraction=0.2).outline()


def test_validation_samples_are_taken_from_the_training_samples(tmp_path):
    dataset = ImageGrid(image_folder(tmp_path), size=8, val_fraction=0.3)
    ids = [set(dataset.sample_ids(split).tolist()) for split in SPLITS]
    assert [len(part) for part in ids] == [6, 3, 6]
    assert not ids[0] & ids[1]
    assert [len(dataset.features(2, torch.float32)[split]) for split in SPLITS] == [6, 3, 6]


@pytest.mark.parametrize(("grid", "size"), [((2, 2), 8), ((2, 3), (8, 12)), ((1, 1), 8), ((4, 1), 8)])
@pytest.mark.parametrize("augment", [True, False])
def test_the_parts_tile_the_augmented_picture(tmp_path, grid, size, augment):
    image_folder(tmp_path, height=13, width=11)
    dataset = ImageGrid(tmp_path, size=size, grid=grid, augment=augment, scale="unit", seed=5)
    pair = (size, size) if isinstance(size, int) else size
    look = Look(pair, (0, 0, *pair), (0.08, 1.0) if augment else None, augment, 0.875, 5)
    files = [tmp_path / "train" / name for name in dataset.sample_ids("train")]
    for epoch in (0, 1):
        whole = assembled(parts_of(dataset, "train", IDS, epoch), grid[1]) * 255
        for place, sample in enumerate(IDS):
            with Image.open(files[sample]) as picture:
                wanted = look.whole(picture, int(sample), epoch).transpose(2, 0, 1)
            np.testing.assert_array_equal(np.round(whole[place]), wanted)


def test_crops_and_flips_follow_sample_epoch_and_seed_alone(tmp_path):
    image_folder(tmp_path, height=16, width=16)
    dataset = ImageGrid(tmp_path, size=8, seed=1)
    features = dataset.features(0, torch.float64)["train"]
    one = features.batch(IDS, 3)
    torch.testing.assert_close(features.batch(IDS[::-1].copy(), 3).flip(0), one, rtol=0, atol=0)
    assert not torch.equal(features.batch(IDS, 4), one)
    assert not torch.equal(ImageGrid(tmp_path, size=8, seed=2).features(0, torch.float64)["train"].batch(IDS, 3), one)
    test = dataset.features(0, torch.float64)["test"]
    assert torch.equal(test.batch(np.arange(6), 0), test.batch(np.arange(6), 1))


def test_half_of_the_pictures_are_flipped(tmp_path):
    draw(tmp_path / "p.png", noise(1))
    with Image.open(tmp_path / "p.png") as picture:
        plain = np.asarray(picture)
        seen = [Look((8, 8), (0, 0, 8, 8), None, True).whole(picture, sample, 0) for sample in range(200)]
    flipped = sum(np.array_equal(picture, plain[:, ::-1]) for picture in seen)
    assert flipped + sum(np.array_equal(picture, plain) for picture in seen) == 200
    assert 70 < flipped < 130


def test_pictures_of_the_right_size_are_left_as_they_are(tmp_path):
    image_folder(tmp_path)
    dataset = ImageGrid(tmp_path, size=8, grid=(1, 1), augment=False, middle=1.0, scale="unit")
    batch = dataset.features(0, torch.float64)["test"].batch(np.array([2]), 0)
    np.testing.assert_array_equal(batch[0].numpy() * 255, noise(100).transpose(2, 0, 1))


def test_imagenet_scale_and_shades_of_grey(tmp_path):
    image_folder(tmp_path)
    for channels in (1, 3):
        unit, normal = (
            parts_of(ImageGrid(tmp_path, size=8, channels=channels, scale=scale), "train", IDS, 0)[1]
            for scale in ("unit", "imagenet")
        )
        mean, deviation = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1) for v in IMAGENET[channels])
        assert unit.shape == (3, channels, 4, 4)
        torch.testing.assert_close(normal, (unit - mean) / deviation, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(7, 13), (13, 7), (1, 1), (333, 500)])
@pytest.mark.parametrize("size", [(8, 8), (6, 9), (7, 3)])
def test_the_middle_lies_within_the_picture_and_has_the_shape_of_the_size(shape, size):
    height, width = shape
    left, top, right, bottom = middle_box(width, height, size, 1.0)
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    assert (bottom - top) / (right - left) == pytest.approx(size[0] / size[1])
    assert right - left == pytest.approx(width) or bottom - top == pytest.approx(height)


def test_classes_of_a_list_or_drawn_by_the_seed(tmp_path):
    image_folder(tmp_path / "data", classes=12, train=1, test=1)
    (tmp_path / "list.txt").write_text("n07 some words\n\n# none\nn02\nn11\n")
    listed = ImageGrid(tmp_path / "data", size=8, class_list=tmp_path / "list.txt")
    assert [name[:3] for name in listed.sample_ids("train")] == ["n02", "n07", "n11"]
    assert listed.labels()["test"].tolist() == [0, 1, 2]
    drawn = [ImageGrid(tmp_path / "data", size=8, num_classes=5, seed=s).sample_ids("test").tolist() for s in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert (len(drawn[0]), drawn[0]) == (5, sorted(drawn[0]))


def test_a_class_list_takes_names_with_spaces_and_signs_and_what_follows_a_name(tmp_path):
    folder = image_folder(tmp_path / "data", classes=5)
    names = ["golden retriever", "no. 3 #2", "n02", "n03"]
    for split in ("train", "val"):
        for old, new in (("n00", names[0]), ("n01", names[1])):
            (folder / split / old).rename(folder / split / new)
    (tmp_path / "list.txt").write_text(
        "golden retriever  # a dog\nno. 3 #2\n\n# all others:\nn03 tench, Tinca\n n02 # x\n"
    )
    listed = ImageGrid(folder, size=8, class_list=tmp_path / "list.txt")
    assert listed.outline().task.classes == tuple(sorted(names))


@pytest.mark.parametrize(("grid", "size"), [([2, 3], (224, 222)), ([1, 5], (224, 220)), ([2, 2], (224, 224))])
def test_the_usual_size_gives_way_to_the_grid(tmp_path, grid, size):
    features = ImageGrid(image_folder(tmp_path), grid=grid).features(0, torch.float32)["test"]
    assert features.sample_shape == (3, size[0] // grid[0], size[1] // grid[1])


def test_a_palette_with_transparency_is_read_without_a_warning(tmp_path):
    folder = image_folder(tmp_path)
    file = sorted((folder / "val" / "n00").iterdir())[0]
    palette = Image.fromarray(noise(1)).quantize(8)
    palette.save(file, transparency=bytes([0, 100, 255]))
    dataset = ImageGrid(folder, size=8, grid=[1, 1], scale="unit", middle=1.0)
    batch = dataset.features(0, torch.float32)["test"].batch(np.array([0]), 0)
    assert np.array_equal((batch[0] * 255).round().numpy().transpose(1, 2, 0), np.asarray(palette.convert("RGB")))


def test_parties_may_be_chosen(tmp_path):
    dataset = ImageGrid(image_folder(tmp_path), size=8, parties=["lower_right", "upper_left"])
    assert dataset.outline().parties == ("lower_right", "upper_left")
    everyone = parts_of(ImageGrid(tmp_path, size=8), "train", IDS, 0)
    for part, place in zip(parts_of(dataset, "train", IDS, 0), (3, 0), strict=True):
        assert torch.equal(part, everyone[place])


def remove(path):
    for file in sorted(path.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    path.rmdir()


FAULTS = {
    "no folder": (lambda r: remove(r), ["{r}: no such folder (dataset.path)"]),
    "no train": (
        lambda r: (r / "train").rename(r / "training"),
        ["{r}: looked for train/CLASS/PICTURE and val/ or test/ the same; found training/, val/"],
    ),
    "no test": (lambda r: remove(r / "val"), ["{r}: looked for train/CLASS/PICTURE and val/ or", "found train/"]),
    "another layout": (
        lambda r: [remove(r / "train" / f"n0{c}") for c in range(3)] + [np.save(r / "train" / "a.npy", IDS)],
        ["{r}/train: looked for train/CLASS/PICTURE", "found a.npy"],
    ),
    "empty": (lambda r: [remove(r / s) for s in ("train", "val")], ["{r}: looked for", "found an empty folder"]),
    "empty class": (
        lambda r: [file.unlink() for file in (r / "train" / "n01").iterdir()],
        ["{r}/train/n01: has no pictures; expected files that end in .jpg"],
    ),
    "class in train only": (lambda r: remove(r / "val" / "n02"), ["{r}/val/n02: no such folder, but {r}/train/n02"]),
    "class in val only": (lambda r: draw(r / "val" / "n9" / "a.png", noise(1)), ["{r}/val/n9: no class of this name"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_folder_is_named(tmp_path, fault):
    root = image_folder(tmp_path / "data")
    damage, words = FAULTS[fault]
    damage(root)
    with pytest.raises(DataError) as caught:
        ImageGrid(root, size=8).outline()
    assert all(word.format(r=root) in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n", ["cannot be read as a picture"]),
        (b"", ["is empty (0 bytes)"]),
        (b"nothing of the kind", ["cannot be read as a picture", "cannot identify image file"]),
        (None, ["cannot be read as a picture"]),  # cut off
        (slice(40, 48), ["cannot be read as a picture"]),  # bytes changed in the middle
    ],
)
def test_an_unreadable_picture_is_named_in_one_line(tmp_path, content, words):
    file = image_folder(tmp_path, height=20, width=20) / "train" / "n01" / "p1.png"
    old = file.read_bytes()
    if content is None:
        content = old[: len(old) // 2]
    elif isinstance(content, slice):
        content = old[: content.start] + b"\0" * 8 + old[content.stop :]
    file.write_bytes(content)
    dataset = ImageGrid(tmp_path, size=8)
    assert dataset.outline().sizes["train"] == 9
    with pytest.raises(DataError, match=rf"^{file}: ") as caught:
        dataset.features(0, torch.float32)["train"].batch(IDS, 0)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_pixels_of_more_than_8_bits_are_refused(tmp_path):
    file = image_folder(tmp_path) / "val" / "n00" / "p0.png"
    Image.fromarray(np.full((8, 8), 5000, dtype=np.uint16)).save(file)
    with pytest.raises(DataError, match=rf"^{file}: has pixels of mode I;16; expected 8 bits"):
        ImageGrid(tmp_path, size=8).features(0, torch.float32)["test"].batch(np.array([0]), 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grid": [2, 3]}, ["dataset.grid: [2, 3] does not divide pictures of 8 x 8 pixels (dataset.size)"]),
        ({"grid": [2]}, ["dataset.grid: expected [rows,columns], got [2]"]),
        ({"grid": [0, 2]}, ["dataset.grid: expected a whole number of at least 1, got 0"]),
        ({"size": "big"}, ["dataset.size: expected [rows,columns], got 'big'"]),
        ({"size": 0}, ["dataset.size: expected a whole number of at least 1"]),
        ({"num_classes": 1}, ["dataset.num_classes: expected a whole number of at least 2"]),
        ({"channels": 4}, ["dataset.channels: expected 1 or 3, got 4"]),
        ({"scale": "unti"}, ["dataset.scale: unknown 'unti'; did you mean 'unit'?"]),
        ({"crop_scale": [1, 0.5]}, ["dataset.crop_scale: expected more than 0 and at most 1"]),
        ({"crop_scale": 0.5}, ["dataset.crop_scale: expected"]),
        ({"middle": 0}, ["dataset.middle: expected more than 0"]),
        ({"augment": "yes"}, ["dataset.augment: expected true or false"]),
        ({"workers": -1}, ["dataset.workers: expected a whole number of at least 0"]),
        ({"batches_ahead": 1.5}, ["dataset.batches_ahead: expected a whole"]),
        ({"synthetic_train": 1}, ["dataset.synthetic_train: expected"]),
        ({"parties": ["upper_lft"]}, ["dataset.parties: there is no party 'upper_lft'; did you mean 'upper_left'?"]),
        ({"class_list": "/nowhere.txt"}, ["/nowhere.txt: no such file"]),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, words):
    with pytest.raises((ConfigError, DataError)) as caught:
        ImageGrid(**{"path": image_folder(tmp_path), "size": 8} | arguments).outline()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n01\nn001\n", "names 'n001', which has no folder; did you mean 'n01'?"),
        ("n01\nn01\n", "names 'n01' twice"),
        ("# nothing\n", "names no class"),
    ],
)
def test_a_bad_class_list_is_named(tmp_path, text, words):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(ConfigError) as caught:
        ImageGrid(image_folder(tmp_path / "data"), size=8, class_list=tmp_path / "list.txt").outline()
    assert str(caught.value) == f"dataset.class_list: {tmp_path}/list.txt {words}"
