"""Folders of pictures that cannot be used, from the command line: one line, exit status 2."""

import shutil

import numpy as np
import pytest

from helpers.drawing import image_folder, noise, view_folder

COMMON = ("rounds=1", "dataset.batch_size=4", "embedding=2", "target_metric=test_top1")
GRID = ("dataset=imagenet100", "dataset.path=data", "dataset.size=8", *COMMON)
VIEWS = ("dataset=modelnet40", "dataset.path=data", "dataset.size=8", "dataset.views=3", *COMMON)


def unreadable(name):
    def damage(root):
        (root / name).write_bytes((root / name).read_bytes()[:60])

    return damage


FAULTS = {
    "corrupt": (GRID, unreadable("train/n01/p1.png"), ["{r}/train/n01/p1.png: cannot be read as a picture"]),
    "corrupt in test": (GRID, unreadable("val/n01/p1.png"), ["{r}/val/n01/p1.png: cannot be read as a picture"]),
    "missing split": (
        GRID,
        lambda r: shutil.rmtree(r / "val"),
        ["{r}: looked for train/CLASS/PICTURE", "found train/"],
    ),
    "grid": ((*GRID, "dataset.grid=[2,3]"), lambda r: None, ["dataset.grid: [2, 3] does not divide pictures of 8 x 8"]),
    "bundle": (
        GRID,
        lambda r: [shutil.rmtree(r / s) for s in ("train", "val")] + [np.save(r / "x.npy", noise(1))],
        ["{r}: looked for train/CLASS/PICTURE and val/ or test/ the same; found x.npy"],
    ),
    "few classes": (
        (*GRID, "target_metric=test_top5"),
        lambda r: None,
        ["target_metric: unknown metric 'test_top5'; expected one of: test_loss, test_top1", "no top5 of five classes"],
    ),
    "views missing": (
        VIEWS,
        lambda r: (r / "bed/train/bed_0001/view_10.png").unlink(),
        ["{r}/bed/train: object 'bed_0001' has no view 10"],
    ),
    "corrupt view": (VIEWS, unreadable("bed/train/bed_0001/view_11.png"), ["bed_0001/view_11.png: cannot be read"]),
    "more views": (
        (*VIEWS, "dataset.views=2"),
        lambda r: None,
        ["there are 3 views (9 to 11), more than the 2 parties"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(command, tmp_path, fault):
    arguments, damage, words = FAULTS[fault]
    root = (view_folder if arguments[0] == VIEWS[0] else image_folder)(tmp_path / "data")
    damage(root)
    command(*arguments).assert_refused(*(word.format(r=root) for word in words))


def test_relative_paths_of_lists_and_weights_start_where_the_command_was_typed(command, tmp_path):
    import torch

    from flexray.models.resnet import ResNet

    image_folder(tmp_path / "data")
    (tmp_path / "list.txt").write_text("n02\nn00\n")
    torch.save(ResNet((3, 4, 4), 9).net.state_dict(), tmp_path / "w.pth")
    keys = ("dataset.class_list=list.txt", "model=resnet", "model.weights=w.pth", "hydra.job.chdir=true")
    command(*GRID, "model=resnet", "model.weights=v.pth").assert_refused("v.pth: no such file")
    outcome = command(*GRID, *keys)
    assert (outcome.status, outcome.errors) == (0, [])
    assert outcome.summary["data_source"] == "files"


def test_a_run_without_data_says_so(command):
    outcome = command("dataset=modelnet40", "dataset.synthetic_train=8", "dataset.synthetic_test=4", *COMMON)
    assert outcome.status == 0
    assert outcome.text.count("the data is SYNTHETIC") == 1
    assert outcome.summary["data_source"] == "synthetic"


def test_predictions_of_other_pictures_carry_their_names(command, tmp_path):
    from flexray.predict import run_command as predict

    image_folder(tmp_path / "data")
    image_folder(tmp_path / "more", test=4)
    assert command(*GRID, "model=linear").status == 0
    assert predict([str(tmp_path / "run"), "dataset.path=more", "-o", str(tmp_path / "p.csv")]) == 0
    rows = (tmp_path / "p.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == [f"n{c:02}/p{i}.png" for c in range(3) for i in range(4)]
