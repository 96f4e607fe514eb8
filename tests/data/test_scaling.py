"""dataset.scale of a bundle: divided by 255, or standardized by the training rows and saved with the model."""

import json

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError, DataError
from flexray.data import rows
from flexray.data.bundle import Bundle
from flexray.models import CNN
from flexray.predict import run_command as predict
from flexray.run.command import run_command

DRAW = np.random.default_rng(3)
PICTURES = {split: DRAW.integers(0, 256, size=(n, 5, 4), dtype=np.uint8) for split, n in (("train", 20), ("test", 7))}
FLOATS = {split: DRAW.normal(3, 5, size=(len(a), 6)).astype(np.float32) for split, a in PICTURES.items()}
for array in FLOATS.values():
    array[:, 2] = 1.5  # constant: becomes 0


@pytest.fixture
def folder(tmp_path):
    for split in PICTURES:
        (tmp_path / split).mkdir()
        np.save(tmp_path / split / "eye.npy", PICTURES[split])
        np.save(tmp_path / split / "ear.npy", FLOATS[split])
        np.save(tmp_path / split / "labels.npy", np.arange(len(PICTURES[split])) % 3)
    return tmp_path


def batches(dataset, party, dtype=torch.float64):
    return {split: f.batch(np.arange(len(f)), 0).numpy() for split, f in dataset.features(party, dtype).items()}


def test_unit_divides_by_the_largest_number_of_the_type(folder):
    dataset = Bundle(folder, parties=["eye"], scale="unit")
    for split, values in PICTURES.items():
        np.testing.assert_array_equal(batches(dataset, 0)[split], values / 255)
        np.testing.assert_array_equal(batches(dataset, 0, torch.float32)[split], values.astype(np.float32) / 255)
    assert not dataset.features(0, torch.float32)["train"].fitted


def test_unit_is_not_for_fractions(folder):
    with pytest.raises(DataError, match=rf"^{folder}/train/ear.npy: expected uint8 or .*scale=unit, got float32$"):
        Bundle(folder, scale="unit", parties=["ear"]).features(0, torch.float32)


def test_an_unknown_scale_is_refused(folder):
    with pytest.raises(ConfigError, match=r"^dataset.scale: unknown 'standrad'; did you mean 'standard'\?$"):
        Bundle(folder, scale="standrad")


@pytest.mark.parametrize("block_bytes", [1, 100, 2**20])
@pytest.mark.parametrize(("party", "source"), [(0, FLOATS), (1, PICTURES)])
@pytest.mark.parametrize("val_fraction", [0.0, 0.3])
def test_standard_is_fitted_to_the_training_rows_alone(folder, monkeypatch, block_bytes, party, source, val_fraction):
    monkeypatch.setattr(rows, "BLOCK_BYTES", block_bytes)
    dataset = Bundle(folder, scale="standard", val_fraction=val_fraction)
    train = dataset.sample_ids("train")
    fitted_to = source["train"][train].astype(np.float64)
    deviation = fitted_to.std(axis=0)
    wanted = (source["test"] - fitted_to.mean(axis=0)) / np.where(deviation == 0, np.inf, deviation)
    np.testing.assert_allclose(batches(dataset, party)["test"], wanted, rtol=1e-12, atol=1e-12)
    scaled = batches(dataset, party)["train"]
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    assert set(np.round(scaled.std(axis=0), 9).ravel()) <= {0.0, 1.0}
    assert (batches(dataset, 0)["test"][:, 2] == 0).all()


def test_an_earlier_runs_scaling_is_taken_over(folder):
    fitted = {"ear": {"mean": np.full(6, 2.0), "deviation": np.full(6, 4.0)}, "eye": {}}
    again = Bundle(folder, scale="standard").with_fitted(fitted)
    np.testing.assert_array_equal(batches(again, 0)["train"], (FLOATS["train"].astype(np.float64) - 2) / 4)


def test_a_prediction_is_scaled_as_the_run_was(folder, tmp_path, monkeypatch):
    """Of new data with other means, whose own scaling would give other numbers."""
    monkeypatch.chdir(tmp_path)
    arguments = ["dataset=bundle", f"dataset.path={folder}", "dataset.scale=standard", "model=linear", "rounds=3"]
    more = ["dataset.batch_size=8", "cluster=inline", "progress=false", "hydra.run.dir=out"]
    assert run_command([*arguments, *more]) == 0
    assert predict(["out", "-o", "old.csv"]) == 0
    for split in PICTURES:
        for name in ("eye", "ear", "labels"):
            array = np.load(folder / split / f"{name}.npy")
            np.save(folder / split / f"{name}.npy", array[: len(array) - 2] if split == "train" else array)
    assert predict(["out", "-o", "new.csv"]) == 0
    assert (tmp_path / "old.csv").read_text() == (tmp_path / "new.csv").read_text()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["rounds"] == 3


@pytest.mark.parametrize("shape", [(8, 6), (1, 8, 6)])
def test_pictures_without_a_channel_axis_have_one_channel_for_the_cnn(shape):
    torch.manual_seed(0)
    plain = CNN(shape, 3, channels=(4, 4), halve="stride", batch_norm=True)
    kinds = [type(layer).__name__ for layer in plain.layers]
    assert kinds == ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["Flatten", "Linear"]
    x = torch.rand(5, *shape)
    torch.testing.assert_close(plain(x), plain.layers(x.reshape(5, 1, 8, 6)), rtol=0, atol=0)
    assert plain.layers[-1].in_features == 4 * 4 * 3  # a side of 3 is not halved


@pytest.mark.parametrize(("halve", "left"), [("stride", (3, 2)), ("pool", (4, 3))])
def test_odd_pictures_are_halved_up_by_a_stride_and_down_by_a_pool(halve, left):
    model = CNN((1, 9, 7), 3, channels=(2, 2), halve=halve)
    assert model(torch.rand(2, 1, 9, 7)).shape == (2, 3)
    assert model.layers[:-2](torch.rand(2, 1, 9, 7)).shape == (2, 2, *left)
