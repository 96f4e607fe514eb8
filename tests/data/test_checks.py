import logging
from dataclasses import replace

import numpy as np
import pytest

from flexray.core.errors import ConfigError, DataError
from flexray.data.checks import check_features, check_split, check_task, check_test_split, reading
from flexray.data.digits import Digits
from flexray.data.outlines import check_classes
from flexray.tasks import Task


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_the_largest_numbers_are_features(kind):
    check_features(np.full((3, 2), np.finfo(kind).max, dtype=kind), "here")


@pytest.mark.parametrize("values", [[np.inf, -np.inf], [1.0, np.inf], [-np.inf, np.nan]])
def test_what_is_not_finite_is_named_without_a_warning(values):
    bad = 0 if np.isinf(values[0]) else 1
    with pytest.raises(DataError, match=rf"^here: row 7, feature {bad} is {values[bad]};"):
        check_features(np.array([values]), "here", first_row=7)


@pytest.mark.parametrize("shape", [(0,), (0, 1)])
def test_no_labels_are_no_fault_of_regression(shape):
    assert Task("l1", 1).check_labels(np.zeros(shape), "here").shape == (0,)


def test_no_labels_are_no_fault_of_classification():
    assert Task("cross_entropy", 3).check_labels(np.zeros(0), "here").dtype == np.int64


@pytest.mark.parametrize(("shape", "found"), [((0, 3), 3), ((4, 2), 2), ((4, 0), 0)])
def test_several_numbers_per_row_are_no_labels_of_regression(shape, found):
    with pytest.raises(DataError, match=f"^here: expected one number per row for loss 'mse', got {found}$"):
        Task("mse", 1).check_labels(np.zeros(shape), "here")


@pytest.mark.parametrize(
    ("labels", "classes", "told"),
    [
        ([0, 1, 2], (), []),
        ([1, 2], ("a", "b", "c"), []),
        ([1, 2], (), ["class 0 has"]),
        ([0, 3], (), []),
        ([2, 3], (), ["classes 0, 1 have"]),
        ([10, 20, 30], (), ["classes 0, 1, 2, ... have"]),
    ],
)
def test_class_numbers_that_do_not_start_from_0_are_told(caplog, labels, classes, told):
    with caplog.at_level(logging.WARNING, logger="flexray"):
        for source in ("files", "synthetic"):
            outline = replace(Digits().outline(), task=Task("cross_entropy", 31, classes=classes), source=source)
            check_classes(np.array(labels), Digits(), outline)
    line = "dataset (Digits): labels are numbers from 0; {} no training samples"
    assert caplog.messages == [line.format(words) for words in told]


def test_one_class_is_told_by_name():
    outline = replace(Digits().outline(), task=Task("cross_entropy", 2, classes=("no", "yes")))
    with pytest.raises(DataError, match=r"^dataset \(Digits\): all training samples are of one class only, 'yes';"):
        check_classes(np.array([1, 1]), Digits(), outline)


WORDS = {
    "text": np.array(["1.5", "pos"]),
    "objects": np.array([1.5, "pos"], dtype=object),
    "a column": np.array([["1"], ["pos"]]),
    "nothing": np.array([1.5, None], dtype=object),
}


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_a_label_that_is_no_number_is_named(loss, kind):
    shown = WORDS[kind].reshape(-1)[1]
    with pytest.raises(DataError, match=rf"^labels.npy: row 1: label {shown} is not a finite number$"):
        Task(loss, 1).check_labels(WORDS[kind], "labels.npy")
    with pytest.raises(DataError, match=rf"^labels.npy: sample 'b': label {shown} is not a finite number$"):
        Task(loss, 1).check_labels(WORDS[kind], "labels.npy", ["a", "b"])


def test_a_refusal_while_a_file_is_read_is_told_once(tmp_path):
    file = tmp_path / "a.pkl"
    file.write_text("x")
    with pytest.raises(DataError, match=r"^refused$"), reading(file, "a pickle"):
        raise DataError("refused")


@pytest.mark.parametrize("value", [None, True, False, "0.2", [0.2], {}, -0.1, 1, 1.0, float("nan"), 10**400])
def test_what_is_no_fraction_is_refused(value):
    for key, check in (("val", lambda: check_split(value, 0)), ("test", lambda: check_test_split(value, 0.0))):
        with pytest.raises(ConfigError, match=rf"^dataset.{key}_fraction: expected a number .*, got "):
            check()


@pytest.mark.parametrize("seed", [None, True, -1, 1.0, "1", []])
def test_what_is_no_seed_of_a_split_is_refused(seed):
    with pytest.raises(ConfigError, match=r"^dataset.split_seed: expected a whole number of at least 0, got "):
        check_split(0.0, seed)


@pytest.mark.parametrize("count", [True, 0, -1, 1.0, "3", 10**30])
def test_what_is_no_number_of_classes_is_refused(count):
    with pytest.raises(ConfigError, match=r"^dataset.num_outputs: expected a whole number of at "):
        check_task("cross_entropy", count)
