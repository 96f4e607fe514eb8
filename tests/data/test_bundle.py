import pickle

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError, DataError, UserError
from flexray.data import rows as rows_module
from flexray.data.base import SPLITS
from flexray.data.bundle import Bundle

ROWS = {"train": 20, "test": 8, "val": 6}
LABELS = {"train": np.arange(20) % 3, "test": np.arange(8) % 3, "val": np.arange(6) % 4}


def arrays_of(split):
    rng = np.random.default_rng(len(split))
    return {"audio": rng.normal(size=(ROWS[split], 5)), "video": rng.normal(size=(ROWS[split], 1, 2, 3))}


def write(folder, splits=("train", "test"), labels=None, ids=False):
    for split in splits:
        (folder / split).mkdir(parents=True)
        for name, array in arrays_of(split).items():
            np.save(folder / split / f"{name}.npy", array)
        np.save(folder / split / "labels.npy", (labels or LABELS)[split])
        if ids:
            np.save(folder / split / "ids.npy", np.array([f"{split}-{row}" for row in range(ROWS[split])]))
    return folder


def whole(features):
    return features.batch(np.arange(len(features)), 0).numpy()


def use(dataset):
    parties = dataset.outline().parties
    for party in range(len(parties)):
        dataset.features(party, torch.float32)
    dataset.labels()


def test_outline_features_and_labels(tmp_path):
    dataset = Bundle(write(tmp_path))
    outline = dataset.outline()
    assert outline.parties == ("audio", "video")
    assert outline.sizes == {"train": 20, "val": 0, "test": 8}
    assert (outline.task.loss, outline.task.num_outputs, outline.source) == ("cross_entropy", 3, "files")
    for party, name in enumerate(outline.parties):
        features = dataset.features(party, torch.float64)
        for split in ("train", "test"):
            np.testing.assert_array_equal(whole(features[split]), arrays_of(split)[name])
            np.testing.assert_array_equal(dataset.labels()[split], LABELS[split])
            np.testing.assert_array_equal(dataset.sample_ids(split), np.arange(ROWS[split]))
        assert len(features["val"]) == len(dataset.labels()["val"]) == len(dataset.sample_ids("val")) == 0
        assert features["val"].sample_shape == features["train"].sample_shape


def test_validation_rows_are_carved_from_the_training_rows(tmp_path):
    dataset = Bundle(write(tmp_path, ids=True), val_fraction=0.25)
    assert dataset.outline().sizes == {"train": 15, "val": 5, "test": 8}
    rows = {split: [int(sample.split("-")[1]) for sample in dataset.sample_ids(split)] for split in SPLITS}
    assert sorted(rows["train"] + rows["val"]) == list(range(20))
    assert rows["test"] == list(range(8))
    for split, source in (("train", "train"), ("val", "train"), ("test", "test")):
        features = dataset.features(0, torch.float64)[split]
        np.testing.assert_array_equal(whole(features), arrays_of(source)["audio"][rows[split]])
        np.testing.assert_array_equal(dataset.labels()[split], LABELS[source][rows[split]])
    other = Bundle(tmp_path, val_fraction=0.25, split_seed=1)
    assert other.sample_ids("val").tolist() != dataset.sample_ids("val").tolist()


def test_a_val_folder_is_the_validation_split(tmp_path):
    dataset = Bundle(write(tmp_path, SPLITS, ids=True))
    assert dataset.outline().sizes == ROWS
    assert dataset.outline().task.num_outputs == 4
    np.testing.assert_array_equal(whole(dataset.features(1, torch.float64)["val"]), arrays_of("val")["video"])
    np.testing.assert_array_equal(dataset.labels()["val"], LABELS["val"])
    assert dataset.sample_ids("val").tolist() == [f"val-{row}" for row in range(6)]


def test_a_val_folder_and_a_fraction_contradict(tmp_path):
    write(tmp_path, SPLITS)
    with pytest.raises(ConfigError, match=rf"dataset.val_fraction: expected 0, since {tmp_path}/val is"):
        Bundle(tmp_path, val_fraction=0.1).outline()


def test_parties_choose_files_and_their_order(tmp_path):
    write(tmp_path)
    (tmp_path / "train" / "unused.npy").write_bytes(b"")
    dataset = Bundle(tmp_path, parties=["video", "audio"])
    assert dataset.outline().parties == ("video", "audio")
    assert dataset.features(0, torch.float32)["test"].sample_shape == (1, 2, 3)


@pytest.mark.parametrize("kind", ["bool", "uint8", "uint16", "int64", "float16", "float64"])
def test_every_type_of_number_is_read(tmp_path, kind):
    write(tmp_path)
    for split in ("train", "test"):
        np.save(tmp_path / split / "audio.npy", np.ones((ROWS[split], 2), dtype=kind))
    assert (whole(Bundle(tmp_path).features(0, torch.float32)["test"]) == np.ones((8, 2), np.float32)).all()


@pytest.mark.parametrize("shape", [(), (1,)])
def test_regression_labels(tmp_path, shape):
    labels = {split: np.linspace(-1, 1, ROWS[split], dtype=np.float32).reshape(-1, *shape) for split in ROWS}
    dataset = Bundle(write(tmp_path, labels=labels), loss="l1", val_fraction=0.1)
    assert (dataset.outline().task.loss, dataset.outline().task.num_outputs) == ("l1", 1)
    assert (dataset.labels()["train"].shape, dataset.labels()["train"].dtype) == ((18,), np.float64)
    assert torch.from_numpy(dataset.labels()["test"]).shape == (8,)


def test_a_batch_is_writable_and_leaves_the_file_alone(tmp_path):
    features = Bundle(write(tmp_path)).features(0, torch.float64)["train"]
    features.batch(np.array([0, 1]), 0).zero_()
    np.testing.assert_array_equal(whole(features), arrays_of("train")["audio"])


def test_a_party_reads_no_other_partys_arrays(tmp_path):
    write(tmp_path)
    for split in ("train", "test"):
        (tmp_path / split / "audio.npy").write_bytes(b"not an array")
        (tmp_path / split / "labels.npy").write_bytes(b"not an array")
    features = Bundle(tmp_path).features(1, torch.float64)
    np.testing.assert_array_equal(whole(features["train"]), arrays_of("train")["video"])


def test_a_used_dataset_stays_small_when_pickled(tmp_path):
    dataset = Bundle(write(tmp_path, ids=True))
    use(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(pickle.dumps(dataset)) < 2000
    assert copy.outline() == dataset.outline()


@pytest.mark.parametrize("scan_bytes", [1, 300, 2**20])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_numbers_are_named_by_file_and_row(tmp_path, monkeypatch, value, scan_bytes):
    monkeypatch.setattr(rows_module, "BLOCK_BYTES", scan_bytes)
    array = arrays_of("train")["audio"]
    array[17, 3] = value
    np.save(write(tmp_path) / "train" / "audio.npy", array)
    with pytest.raises(DataError, match=rf"^{tmp_path}/train/audio.npy: .*row 17, feature 3 is {value};"):
        Bundle(tmp_path).features(0, torch.float32)


def test_infinities_of_both_signs_in_one_array(tmp_path):
    array = arrays_of("train")["audio"]
    array[4, 0], array[5, 0] = np.inf, -np.inf
    np.save(write(tmp_path) / "train" / "audio.npy", array)
    with pytest.raises(DataError, match="row 4, feature 0 is inf"):
        Bundle(tmp_path).features(0, torch.float32)


def put(name, array):
    return lambda root: np.save(root / f"{name}.npy", array)


def put_everywhere(name):
    return lambda root: [
        np.save(root / split / f"{name}.npy", np.zeros((ROWS[split], 1))) for split in ("train", "test")
    ]


def remove(name):
    return lambda root: (root / name).rename(root.parent / "gone")


def content(name, change):
    return lambda root: (root / name).write_bytes(change((root / name).read_bytes()))


AUDIO, IDS, LABEL = "train/audio", "test/ids", "test/labels"
OBJECTS = np.array([[1, "x"]] * 20, dtype=object)

# What is done to a good folder, and what the message must name.
FAULTS = {
    "no folder": (remove(""), ["{root}: no such folder"]),
    "no train": (remove("train"), ["{root}/train/labels.npy: no such file"]),
    "no test": (remove("test"), ["{root}/test/labels.npy: no such file"]),
    "no labels": (remove("test/labels.npy"), ["{root}/test/labels.npy: no such file"]),
    "no party": (
        lambda root: [file.unlink() for file in root.glob("*/[av]*.npy")],
        ["{root}/train: has no party arrays"],
    ),
    "not in test": (remove("test/video.npy"), ["{root}/test/video.npy: no such", "'video' has {root}/train/video.npy"]),
    "not in train": (
        remove("train/video.npy"),
        ["{root}/train/video.npy: no such", "'video' has {root}/test/video.npy"],
    ),
    "row counts": (put(AUDIO, np.zeros((19, 5))), ["{root}/train/audio.npy: has 19", "{root}/train/labels.npy has 20"]),
    "id counts": (put(IDS, np.arange(7)), ["{root}/test/ids.npy: has 7 rows", "{root}/test/labels.npy has 8"]),
    "id twice": (put(IDS, np.array(list("abcdefgc"))), ["{root}/test/ids.npy: row 7: ID 'c' is already in row 2"]),
    "id empty": (put(IDS, np.array(["a", "b", "", *"cdefg"])), ["{root}/test/ids.npy: row 2 is empty"]),
    "id shape": (put(IDS, np.zeros((8, 2))), ["{root}/test/ids.npy", "(8, 2)"]),
    "objects": (put(AUDIO, OBJECTS), ["{root}/train/audio.npy: cannot be read", "Python objects"]),
    "truncated": (content("train/audio.npy", lambda old: old[:-8]), ["{root}/train/audio.npy: cannot be", "file size"]),
    "cut in header": (content("test/audio.npy", lambda old: old[:20]), ["{root}/test/audio.npy: cannot be read"]),
    "no npy": (
        content("test/audio.npy", lambda _: b"1,2,3\n" * 9),
        ["{root}/test/audio.npy: cannot be", "magic string"],
    ),
    "0 bytes": (content("test/audio.npy", lambda _: b""), ["{root}/test/audio.npy: is empty (0 bytes)"]),
    "0 label bytes": (content("train/labels.npy", lambda _: b""), ["{root}/train/labels.npy: is empty (0 bytes)"]),
    "no rows": (put("test/audio", np.zeros((0, 5))), ["{root}/test/audio.npy: has no rows"]),
    "single value": (put(AUDIO, np.float64(1)), ["{root}/train/audio.npy: has no rows"]),
    "no features": (put(AUDIO, np.zeros((20, 0))), ["{root}/train/audio.npy: party 'audio'", "has no features"]),
    "one dimension": (put(AUDIO, np.zeros(20)), ["{root}/train/audio.npy: party 'audio'", "has no features"]),
    "shapes": (
        put("test/audio", np.zeros((8, 4))),
        ["{root}/test/audio.npy", "(4,)", "(5,) in {root}/train/audio.npy"],
    ),
    "text": (put(AUDIO, np.full((20, 5), "x")), ["{root}/train/audio.npy", "<U1"]),
    "complex": (put(AUDIO, np.zeros((20, 5), "c8")), ["{root}/train/audio.npy", "complex"]),
    "byte order": (put(AUDIO, np.zeros((20, 5), ">f8")), ["{root}/train/audio.npy", ">f8"]),
    "party name": (put_everywhere("a-b"), ["{root}/train/a-b.npy", "'a-b' cannot name a party"]),
    "reserved name": (put_everywhere("server"), ["{root}/train/server.npy", "'server' cannot name a party"]),
    "negative label": (put(LABEL, np.array([0, 1, -1, 0, 1, 2, 0, 1])), ["{root}/test/labels.npy: row 2: label -1"]),
    "broken label": (put(LABEL, np.array([0, 1, 0, 1.5, 1, 2, 0, 1])), ["{root}/test/labels.npy: row 3: label 1.5"]),
    "label nan": (put(LABEL, np.full(8, np.nan)), ["{root}/test/labels.npy: row 0: label nan"]),
    "text labels": (put(LABEL, np.full(8, "cat")), ["{root}/test/labels.npy", "<U3"]),
    "label columns": (put(LABEL, np.zeros((8, 2))), ["{root}/test/labels.npy", "(8, 2)"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_file_is_named_in_one_line(tmp_path, fault):
    root = write(tmp_path / "data")
    damage, words = FAULTS[fault]
    damage(root)
    with pytest.raises(DataError) as caught:
        use(Bundle(root))
    for word in words:
        assert word.format(root=root) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_beyond_the_given_number_of_classes(tmp_path):
    dataset = Bundle(write(tmp_path), num_outputs=2)
    assert dataset.outline().task.num_outputs == 2
    with pytest.raises(DataError, match=rf"{tmp_path}/train/labels.npy: row 2: label 2 is out of range"):
        dataset.labels()


def test_no_training_row_is_left(tmp_path):
    write(tmp_path)
    with pytest.raises(DataError, match=rf"{tmp_path}/train: 20 rows with val_fraction=0.99"):
        Bundle(tmp_path, val_fraction=0.99).outline()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": None}, ["dataset.path", "train/NAME.npy", "labels.npy"]),
        ({"val_fraction": 1.0}, ["dataset.val_fraction"]),
        ({"val_fraction": "x"}, ["dataset.val_fraction", "'x'"]),
        ({"split_seed": -3}, ["dataset.split_seed", "-3"]),
        ({"loss": "cross_entopy"}, ["dataset.loss", "did you mean 'cross_entropy'"]),
        ({"num_outputs": 0}, ["dataset.num_outputs", "0"]),
        ({"num_outputs": "two"}, ["dataset.num_outputs", "'two'"]),
        ({"loss": "mse", "num_outputs": 3}, ["dataset.num_outputs", "expected 1", "'mse'"]),
        ({"parties": []}, ["dataset.parties", "empty"]),
        ({"parties": "audio"}, ["dataset.parties", "list", "'audio'"]),
        ({"parties": ["audio", "audio"]}, ["dataset.parties", "'audio' is listed twice"]),
        ({"parties": ["labels"]}, ["dataset.parties", "'labels' cannot name a party"]),
        ({"parties": ["../audio"]}, ["dataset.parties", "'../audio' cannot name a party"]),
        ({"parties": ["audio", "vidoe"]}, ["dataset.parties", "vidoe.npy", "did you mean 'video'"]),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, words):
    with pytest.raises(UserError) as caught:
        Bundle(**{"path": write(tmp_path)} | arguments).outline()
    assert isinstance(caught.value, ConfigError)
    assert all(word in str(caught.value) for word in words), str(caught.value)
