"""What is wrong with single samples: told in one line that names file, sample, value and what was expected."""

import pickle

import numpy as np
import pytest

from flexray.core.errors import DataError, UserError
from flexray.data.sentiment import Sentiment
from helpers.sentiment_files import SIZES, arrays, bert, infomax, mmsa, mmsa_content


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    return str(bert(tmp_path_factory.mktemp("bert")))


def changed_mmsa(folder, split="train", **values):
    """Write MMSA's pickle with some entries of a split replaced: KEY=value, or KEY=function of the old value."""
    content = mmsa_content()
    for key, value in values.items():
        content[split][key] = value(content[split][key]) if callable(value) else value
    mmsa(folder / "unaligned_50.pkl", content)
    return folder


def changed_infomax(folder, name="train", row=3, **values):
    """Write Infomax's pickles with entries of one sample replaced."""
    file = infomax(folder) / f"{name}.pkl"
    content = pickle.loads(file.read_bytes())
    parts = ("words", "visual", "acoustic", "actual_words", "vlen", "alen")
    entries, label, segment = content[row]
    entries = tuple(values.get(part, old) for part, old in zip(parts, entries, strict=True))
    content[row] = (entries, values.get("label", label), values.get("segment", segment))
    file.write_bytes(pickle.dumps(content))
    return folder


def changed_arrays(folder, **values):
    """Write the bundle with files of its training split replaced."""
    arrays(folder)
    for name, value in values.items():
        np.save(folder / "train" / f"{name}.npy", value)
    return folder


def put(row, value):
    return lambda old: [*old[:row], value, *old[row + 1 :]]


def refusal(folder, tmp_path, **options):
    data = Sentiment(folder, cache=tmp_path / "cache", **{"bert": str(tmp_path), **options})
    with pytest.raises(UserError) as caught:
        data._store, data.labels()
    assert "\n" not in str(caught.value)
    return str(caught.value)


LENGTHS = {
    "-2": -2,
    "1000": 1000,
    "nan": np.nan,
    "1.5": 1.5,
    "'q'": "q",
    "None": None,
    "[1, 2]": np.array([1, 2]),
}


@pytest.mark.parametrize("shown", LENGTHS)
def test_a_length_that_its_array_has_not_is_named(shown, tmp_path):
    value = LENGTHS[shown]
    if isinstance(value, int):
        line = refusal(changed_arrays(tmp_path / "b", audio_lengths=[1, 1, value, 1, 1, 1]), tmp_path)
        told = f"expected a whole number of steps from 0 to 6, got {shown}"
        assert line == f"{tmp_path}/b/train/audio_lengths.npy: row 2: {told}"
    if shown == "1000":
        return  # pickles may have been cut after that
    told = f"expected a whole number of steps, got {shown}"
    line = refusal(changed_mmsa(tmp_path / "m", audio_lengths=put(3, value)), tmp_path)
    assert line == f"{tmp_path}/m/unaligned_50.pkl: train: 'audio_lengths': sample 3: {told}"
    if value is not None:  # None: an aligned one
        line = refusal(changed_infomax(tmp_path / "i", vlen=value, visual=np.ones((4, 4))), tmp_path)
        assert line == f"{tmp_path}/i/train.pkl: sample 3: visual: {told}"


def test_a_length_from_before_its_array_was_cut_takes_all_of_it(tiny_bert, tmp_path):
    steps = []
    for length in (6, 1000):
        folder = changed_mmsa(tmp_path / f"{length}", audio_lengths=put(3, length))
        store = Sentiment(folder, cache=tmp_path / "cache", bert=tiny_bert)._store
        steps.append(store.array("train", "audio"))
    assert np.array_equal(*steps)


@pytest.mark.parametrize("key", ["id", "raw_text", "audio_lengths", "vision_lengths", "regression_labels", "audio"])
@pytest.mark.parametrize(("value", "shown"), [(5, "int"), (np.array(5), "int"), ([], "none")])
def test_a_key_without_an_entry_per_sample_is_named(key, value, shown, tmp_path):
    line = refusal(changed_mmsa(tmp_path / "m", **{key: value}), tmp_path)
    assert line == f"{tmp_path}/m/unaligned_50.pkl: train: '{key}': expected one entry per sample, got {shown}"


NO_TEXT = [None, np.nan, np.float32("nan"), "", " ", [], b"", [None]]


@pytest.mark.parametrize("value", NO_TEXT)
def test_a_sample_without_text_is_dropped_by_id(value, tmp_path, caplog):
    folder = changed_mmsa(tmp_path / "m", raw_text=put(2, value))
    data = Sentiment(folder, cache=tmp_path / "cache")
    data._log(data._store.report)
    assert "train: 1 samples dropped that have no text: train$_$2" in caplog.text
    assert data._store.report["sizes"] == {**SIZES, "train": 5}
    folder = changed_infomax(tmp_path / "i", actual_words=[value, "good", value])
    assert Sentiment(folder, cache=tmp_path / "cache")._store.sentences("train")[3].split() == ["good"]
    folder = changed_infomax(tmp_path / "i", actual_words=[value, value])
    assert Sentiment(folder, cache=tmp_path / "cache")._store.report["dropped"]["train"] == {"text": ["train$_$3"]}


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)])
def test_a_sample_without_steps_is_dropped_whatever_its_length_says(shape, tmp_path):
    folder = changed_infomax(tmp_path / "i", visual=np.zeros(shape), vlen=5)
    assert Sentiment(folder, cache=tmp_path / "cache")._store.report["dropped"]["train"] == {"video": ["train$_$3"]}


@pytest.mark.parametrize("value", [None, 3, "good film"])
def test_words_that_are_no_list_are_named(value, tmp_path):
    line = refusal(changed_infomax(tmp_path / "i", actual_words=value), tmp_path)
    assert line.startswith(f"{tmp_path}/i/train.pkl: sample 3: actual_words: expected a list of words, got ")


@pytest.mark.parametrize("value", [None, np.nan, ""])
def test_a_sample_without_an_id_is_named(value, tmp_path):
    told = "sample 3: expected an ID, got none"
    assert refusal(changed_mmsa(tmp_path / "m", id=put(3, value)), tmp_path).endswith(told)
    assert refusal(changed_infomax(tmp_path / "i", segment=value), tmp_path).endswith(told)


def test_widths_that_differ_between_splits_are_told_with_both_files(tmp_path):
    folder = changed_infomax(tmp_path / "i", name="test", row=1, visual=np.ones((5, 7)), vlen=5)
    line = f"{folder}/test.pkl: video: sample 1 has 7 features, but the first of {folder}/train.pkl: video 4"
    assert refusal(folder, tmp_path) == line
    folder = changed_mmsa(tmp_path / "m", split="valid", audio=np.ones((2, 6, 2)))
    where = f"{folder}/unaligned_50.pkl"
    line = f"{where}: valid: 'audio': sample 0 has 2 features, but the first of {where}: train: 'audio' 3"
    assert refusal(folder, tmp_path) == line
    folder = changed_arrays(tmp_path / "b", text=np.ones((6, 5)))
    for split, rows, width in (("val", 2, 5), ("test", 3, 4)):
        np.save(folder / split / "text.npy", np.ones((rows, width)))
    line = f"{folder}/test/text.npy: sample 0 has 4 features, but the first of {folder}/train/text.npy 5"
    assert refusal(folder, tmp_path, text="features") == line


@pytest.mark.parametrize("value", ["good", None, [1.0]])
def test_a_label_that_is_no_number_is_named_by_its_id(value, tmp_path):
    labels = np.array([1.0, 2.0, 0.0, None, 2.0, 1.0], dtype=object)
    labels[3] = value
    line = refusal(changed_mmsa(tmp_path / "m", regression_labels=labels), tmp_path)
    where = f"{tmp_path}/m/unaligned_50.pkl: train: 'regression_labels': sample 'train$_$3'"
    assert line == f"{where}: expected a number as label, got '{value}'"
    line = refusal(changed_arrays(tmp_path / "b", labels=["1.5", "0", "1", "pos", "1", "2"]), tmp_path)
    assert line == f"{tmp_path}/b/train/labels.npy: sample 'train$_$3': expected a number as label, got 'pos'"


@pytest.mark.parametrize(
    ("loss", "told"), [("l1", "is not a finite"), ("mse", "is not"), ("cross_entropy", "is out of")]
)
def test_a_label_out_of_range_is_named_by_its_id_whatever_was_dropped(loss, told, tmp_path):
    labels = np.array([1.0, 1.0, 0.0, 1.0, 2.0, np.nan])
    folder = changed_mmsa(tmp_path / "m", raw_text=put(2, None), regression_labels=labels)
    line = refusal(folder, tmp_path, loss=loss, num_outputs=None if loss != "cross_entropy" else 3)
    where = f"{folder}/unaligned_50.pkl: train: 'regression_labels'"
    assert line.startswith(f"{where}: sample 'train$_$5': label nan {told}")


@pytest.mark.parametrize("shape", [(6, 2), (6, 0), (6, 1, 3)])
def test_several_labels_per_sample_are_refused(shape, tmp_path):
    line = refusal(changed_mmsa(tmp_path / "m", regression_labels=np.ones(shape)), tmp_path)
    assert line.endswith(f"train: 'regression_labels': expected one number per sample, got {shape}")


@pytest.mark.parametrize("shape", [(6,), (6, 1, 2, 3)])
def test_arrays_of_too_few_or_too_many_axes_are_refused(shape, tmp_path):
    line = refusal(changed_arrays(tmp_path / "b", video=np.ones(shape)), tmp_path)
    assert (
        line == f"{tmp_path}/b/train/video.npy: expected [samples, steps, features] or [samples, features], got {shape}"
    )


def test_parts_that_do_not_fit_each_other_are_no_array(tmp_path):
    ragged = [[1.0, 2.0], [3.0]]
    line = refusal(changed_infomax(tmp_path / "i", acoustic=ragged), tmp_path)
    assert line.startswith(f"{tmp_path}/i/train.pkl: sample 3: acoustic: expected an array [steps, features], got list")
    line = refusal(changed_mmsa(tmp_path / "m", vision=[ragged] * 6), tmp_path)
    assert "train: 'vision': expected numbers [samples, steps, features], got object" in line


@pytest.mark.parametrize(
    ("name", "told"), [("train.pkl", "name its folder"), ("a.txt", "expected a folder or aligned_50")]
)
def test_a_file_that_is_no_pickle_of_mmsa_is_told(name, told, tmp_path):
    file = infomax(tmp_path / "i") / name
    file.touch()
    assert refusal(file, tmp_path).startswith(f"dataset.path: {file}: is one file; {told}")


def test_an_empty_split_is_told(tmp_path):
    (infomax(tmp_path / "i") / "dev.pkl").write_bytes(pickle.dumps([]))
    with pytest.raises(DataError, match=r"dev.pkl: expected a list of samples .*, got an empty list$"):
        Sentiment(tmp_path / "i", cache=tmp_path / "cache").outline()
