import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError, DataError
from flexray.data.sentiment import Sentiment
from helpers.sentiment_files import SIZES, arrays, bert, infomax, mmsa, mmsa_content, samples

WRITERS = {
    "infomax": infomax,
    "infomax_aligned": lambda folder: infomax(folder, aligned=True, labels=7),
    "mmsa_unaligned": lambda folder: mmsa(folder / "unaligned_50.pkl"),
    "mmsa_aligned": lambda folder: mmsa(folder / "Processed" / "aligned_50.pkl", aligned=True).parents[1],
    "bundle": arrays,
}


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


def dataset(path, tmp_path, tiny_bert=None, **options):
    """Return a dataset; without a real BERT, with the empty files of one, which outlines do not read."""
    hollow = tmp_path / "hollow"
    hollow.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (hollow / name).touch()
    return Sentiment(path, cache=tmp_path / "cache", bert=str(tiny_bert or hollow), **options)


def steps(features, row):
    x, lengths = features.batch(np.array([row]), 0)
    assert x.shape[1] == lengths[0]
    return x[0].numpy()


@pytest.mark.parametrize("layout", WRITERS)
def test_every_layout_gives_the_same_samples(layout, tmp_path, tiny_bert):
    data = dataset(WRITERS[layout](tmp_path / "data"), tmp_path, tiny_bert, standardize=False)
    outline = data.outline()
    assert outline.parties == ("video", "audio", "text")
    assert dict(outline.sizes) == SIZES
    assert (outline.task.loss, outline.task.num_outputs, outline.source) == ("l1", 1, "files")
    video, audio, text = (data.features(party, torch.float64) for party in range(3))
    for split in SIZES:
        plain = samples(split)
        assert list(data.sample_ids(split)) == [s["id"] for s in plain]
        np.testing.assert_allclose(data.labels()[split], [s["label"] for s in plain], rtol=1e-6)
        for row, s in enumerate(plain):
            np.testing.assert_allclose(steps(video[split], row), s["video"], rtol=1e-6)
            np.testing.assert_allclose(steps(audio[split], row), s["audio"], rtol=1e-6)
            tokens, mask = text[split].batch(np.array([row]), 0)
            places = {"good": 4, "bad": 5, "film": 6, "very": 7, "umm": 8, "plot": 9}
            assert tokens.tolist() == [[2, *(places[word] for word in s["words"]), 3]]
            assert mask.tolist() == [[1] * (len(s["words"]) + 2)]


def test_a_batch_is_padded_to_its_own_longest_sample_with_zeros_after_scaling(tmp_path, tiny_bert):
    data = dataset(arrays(tmp_path / "data"), tmp_path, tiny_bert)
    features = data.features(0, torch.float32)["train"]
    assert features.sample_shape == (500, 4)
    rows = np.concatenate([s["video"] for s in samples("train")])
    x, lengths = features.batch(np.arange(6), 0)
    assert lengths.tolist() == [len(s["video"]) for s in samples("train")]
    assert x.shape == (6, int(lengths.max()), 4)
    for row, s in enumerate(samples("train")):
        expected = (s["video"] - rows.mean(axis=0)) / rows.std(axis=0)
        np.testing.assert_allclose(x[row, : lengths[row]], expected, rtol=1e-4, atol=1e-5)
        assert not x[row, lengths[row] :].any()


def test_limits_cut_long_samples(tmp_path, tiny_bert):
    data = dataset(infomax(tmp_path / "data"), tmp_path, tiny_bert, max_steps=3, max_tokens=4)
    _, lengths = data.features(1, torch.float32)["train"].batch(np.arange(6), 0)
    assert lengths.tolist() == [min(3, len(s["audio"])) for s in samples("train")]
    tokens, _ = data.features(2, torch.float32)["train"].batch(np.arange(6), 0)
    assert tokens.shape == (6, 4)
    assert (tokens == 3).sum(dim=1).tolist() == [1] * 6  # cut before the last token, which stays


def test_nan_and_infinity_become_zero_and_are_counted(tmp_path, caplog):
    def spoil(split, plain):
        if split == "train":
            plain[0]["audio"][0] = (np.nan, np.inf, -np.inf)
            plain[3]["video"][1, 2] = np.nan

    data = dataset(infomax(tmp_path / "data", spoil), tmp_path, standardize=False)
    data.outline()
    assert [r.getMessage().partition(": ")[2] for r in caplog.records] == [
        "video: 1 values were NaN or infinite, now 0",
        "audio: 3 values were NaN or infinite, now 0",
    ]
    assert steps(data.features(1, torch.float32)["train"], 0)[0].tolist() == [0, 0, 0]


def test_samples_without_a_modality_are_dropped_by_id_and_counted(tmp_path, caplog):
    def spoil(split, plain):
        if split == "train":
            plain[1]["video"] = plain[1]["video"][:0]
            plain[2]["audio"] = np.zeros((5, 3))
            plain[4]["words"] = []
            plain[4]["audio"] = np.zeros((0, 3))

    data = dataset(infomax(tmp_path / "data", spoil), tmp_path, standardize=False)
    assert dict(data.outline().sizes) == {**SIZES, "train": 3}
    assert list(data.sample_ids("train")) == ["train$_$0", "train$_$3", "train$_$5"]
    np.testing.assert_allclose(steps(data.features(0, torch.float64)["train"], 1), samples("train")[3]["video"])
    text = " ".join(record.getMessage() for record in caplog.records)
    assert "train: 1 samples dropped that have no video: train$_$1" in text
    assert "train: 2 samples dropped that have no audio: train$_$2, train$_$4" in text
    assert "train: 1 samples dropped that have no text: train$_$4" in text


def test_modalities_with_ids_of_their_own_are_joined(tmp_path):
    folder = arrays(tmp_path / "data")
    ids = [s["id"] for s in samples("train")]
    order = [5, 3, 0, 1, 4]  # another order, and sample 2 is not there
    for name in ("audio", "audio_lengths"):
        np.save(folder / "train" / f"{name}.npy", np.load(folder / "train" / f"{name}.npy")[order])
    np.save(folder / "train" / "audio_ids.npy", np.array([ids[row] for row in order]))
    data = dataset(folder, tmp_path, standardize=False)
    assert data.outline().sizes["train"] == 5
    kept = [0, 1, 3, 4, 5]
    assert list(data.sample_ids("train")) == [ids[row] for row in kept]
    for place, row in enumerate(kept):
        np.testing.assert_allclose(
            steps(data.features(1, torch.float64)["train"], place), samples("train")[row]["audio"], rtol=1e-6
        )


def test_flat_features_and_class_numbers(tmp_path):
    draw = np.random.default_rng(0)
    for split, rows in (("train", 8), ("test", 4)):
        (tmp_path / "data" / split).mkdir(parents=True)
        for name, width in (("video", 5), ("audio", 3), ("text", 2)):
            np.save(tmp_path / "data" / split / f"{name}.npy", draw.normal(size=(rows, width)))
        np.save(tmp_path / "data" / split / "labels.npy", np.arange(rows) % 2)
        (tmp_path / "data" / split / "sentences.csv").write_text("sentence\n" + "very good\n" * rows)
    with pytest.raises(
        ConfigError, match=r"^dataset.text: .*train has both text.npy and sentences.csv; expected features"
    ):
        dataset(tmp_path / "data", tmp_path, loss="cross_entropy").outline()
    data = dataset(tmp_path / "data", tmp_path, loss="cross_entropy", text="features")
    task = data.outline().task
    assert (task.num_outputs, task.metrics) == (2, ("loss", "top1"))
    for party, width in enumerate((5, 3, 2)):
        x = data.features(party, torch.float64)["train"].batch(np.arange(8), 0)
        assert x.shape == (8, width)
        torch.testing.assert_close(x.mean(dim=0), torch.zeros(width, dtype=torch.float64), atol=1e-6, rtol=0)
        torch.testing.assert_close(
            x.std(dim=0, correction=0), torch.ones(width, dtype=torch.float64), atol=1e-6, rtol=0
        )
    sentences = dataset(tmp_path / "data", tmp_path, loss="cross_entropy", text="sentences")
    assert sentences._store.report["kinds"]["text"] == "sentences"


def test_token_ids_of_a_folder_are_taken_as_they_are(tmp_path, tiny_bert):
    folder = arrays(tmp_path / "data")
    for split, rows in SIZES.items():
        (folder / split / "sentences.csv").unlink()
        np.save(folder / split / "text.npy", np.tile([2, 5, 4, 3, 0, 0], (rows, 1)))
    features = dataset(folder, tmp_path, tiny_bert).features(2, torch.float32)["train"]
    tokens, mask = features.batch(np.array([1, 0]), 0)
    assert tokens.tolist() == [[2, 5, 4, 3]] * 2
    assert mask.tolist() == [[1] * 4] * 2
    assert features.offers == {"pretrained": str(tiny_bert)}


def test_the_scaling_of_an_earlier_run_is_used_for_new_data(tmp_path):
    data = dataset(infomax(tmp_path / "data"), tmp_path)
    again = data.with_fitted({"video": {"mean": np.ones(4), "deviation": np.full(4, 2.0)}, "audio": {}, "text": {}})
    expected = (samples("test")[1]["video"] - 1) / 2
    np.testing.assert_allclose(steps(again.features(0, torch.float64)["test"], 1), expected, rtol=1e-5, atol=1e-6)


def test_data_is_stored_once_and_again_when_a_file_changes(tmp_path):
    folder = infomax(tmp_path / "data")
    dataset(folder, tmp_path).outline()
    dataset(folder, tmp_path).outline()
    assert len(list((tmp_path / "cache").iterdir())) == 1

    def shift(split, plain):
        plain[0]["label"] = 2.0
        plain[0]["words"].append("very")

    infomax(folder, shift)
    assert dataset(folder, tmp_path).labels()["train"][0] == 2.0
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(DataError, match=r"^dataset.cache: cannot write to .*cache"):
        dataset(infomax(tmp_path / "data"), tmp_path).outline()


def cut(file, content):
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(("name", "split"), [("train.pkl", "train"), ("dev.pkl", "val"), ("test.pkl", "test")])
def test_a_missing_split_of_infomax_is_named(name, split, tmp_path):
    folder = infomax(tmp_path / "data")
    (folder / name).unlink()
    with pytest.raises(
        DataError, match=rf"{name}: no such file, so there is no {split} split; expected train.pkl, dev"
    ):
        dataset(folder, tmp_path).outline()


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_a_missing_split_of_mmsa_is_named(name, tmp_path):
    content = mmsa_content()
    del content[name]
    with pytest.raises(DataError, match=rf"aligned_50.pkl: has no split '{name}'; expected train, valid, test, found "):
        dataset(mmsa(tmp_path / "aligned_50.pkl", content), tmp_path).outline()


@pytest.mark.parametrize("name", ["train", "test"])
def test_a_missing_split_of_a_folder_is_named(name, tmp_path):
    folder = arrays(tmp_path / "data", tuple(split for split in SIZES if split != name))
    with pytest.raises(DataError, match=rf"{name}: no such folder, so there is no {name} split; expected train/ and"):
        dataset(folder, tmp_path).outline()


def test_another_layout_is_told_with_what_was_looked_for_and_what_was_found(tmp_path):
    for wnid in ("n01", "n02"):
        (tmp_path / "data" / "train" / wnid).mkdir(parents=True)
    (tmp_path / "data" / "val").mkdir()
    (tmp_path / "data" / "words.txt").touch()
    with pytest.raises(DataError) as caught:
        dataset(tmp_path / "data", tmp_path).outline()
    line = str(caught.value)
    assert line.startswith(f"dataset.path: {tmp_path / 'data'}: looked for train.pkl, dev.pkl and test.pkl (")
    assert "aligned_50.pkl or unaligned_50.pkl (MMSA); train/ and test/ with video.npy" in line
    assert line.endswith("; found train/ (n01/, n02/), val/, words.txt")


def test_arrays_of_other_parties_are_another_layout(tmp_path):
    for name in ("a", "b", "c", "d"):
        (tmp_path / "data" / "test").mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / "data" / "test" / f"{name}.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match=r"looked for .*; found test/ \(a.npy, b.npy, c.npy and 1 more\)$"):
        dataset(tmp_path / "data", tmp_path).outline()


def test_nothing_at_the_path_and_two_pickles_there(tmp_path):
    with pytest.raises(DataError, match=r"^dataset.path: .*nowhere: no such folder or pickle; looked for train.pkl"):
        dataset(tmp_path / "nowhere", tmp_path).outline()
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match=r"found an empty folder$"):
        dataset(tmp_path / "data", tmp_path).outline()
    mmsa(tmp_path / "data" / "aligned_50.pkl", aligned=True)
    mmsa(tmp_path / "data" / "unaligned_50.pkl")
    with pytest.raises(ConfigError, match=r"aligned_50.pkl and .*unaligned_50.pkl are both there; name the file"):
        dataset(tmp_path / "data", tmp_path).outline()
    assert dict(dataset(tmp_path / "data" / "unaligned_50.pkl", tmp_path).outline().sizes) == SIZES
