import pickle

import numpy as np
import pytest
import torch

from flexray.data.base import SPLITS
from flexray.data.table import Table
from helpers.tables import PARTIES, N, file_per_party, frame, one_file, use_table, whole, write_table


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_file(tmp_path, suffix):
    dataset, table = one_file(tmp_path, suffix, standardize=False, val_fraction=0.1), frame()
    outline = dataset.outline()
    assert outline.parties == ("bank", "shop")
    assert outline.sizes == {"train": 14, "val": 2, "test": 4}
    assert (outline.task.loss, outline.task.num_outputs, outline.source) == ("cross_entropy", 3, "files")
    for party, columns in enumerate(PARTIES.values()):
        features = dataset.features(party, torch.float64)
        for split in SPLITS:
            rows = dataset.sample_ids(split)
            np.testing.assert_array_equal(whole(features[split]), table[columns].to_numpy(float)[rows])
            np.testing.assert_array_equal(dataset.labels()[split], table["y"].to_numpy()[rows])
    assert sorted(np.concatenate([dataset.sample_ids(split) for split in SPLITS])) == list(range(N))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_file_per_party_is_joined_on_the_id(tmp_path, suffix):
    joined = file_per_party(tmp_path, suffix, val_fraction=0.2)
    assert joined.outline() == one_file(tmp_path, suffix, val_fraction=0.2).outline()
    for party in range(2):
        ours = joined.features(party, torch.float64)
        theirs = one_file(tmp_path, suffix, val_fraction=0.2).features(party, torch.float64)
        for split in SPLITS:
            np.testing.assert_array_equal(whole(ours[split]), whole(theirs[split]))
    for split in SPLITS:
        rows = one_file(tmp_path, suffix, val_fraction=0.2).sample_ids(split)
        assert joined.sample_ids(split).tolist() == [f"{row:03}" for row in rows]
        np.testing.assert_array_equal(joined.labels()[split], rows % 3)


def test_numeric_ids_of_parquet_join_those_of_csv(tmp_path):
    def numeric(tables):
        tables.update({name: table.assign(id=table["id"].astype(int) + 7) for name, table in tables.items()})

    file_per_party(tmp_path, ".parquet", numeric)
    file_per_party(tmp_path, ".csv", numeric)
    mixed = file_per_party(
        tmp_path, ".csv", numeric, files={"bank": tmp_path / "bank.parquet", "shop": tmp_path / "shop.csv"}
    )
    use_table(mixed)
    assert sorted(map(int, np.concatenate([mixed.sample_ids(s) for s in SPLITS]))) == list(range(7, 27))


def test_a_labels_file_of_its_own_sets_the_order(tmp_path):
    def without_labels(tables):
        tables["bank"] = tables["bank"].drop(columns="y")

    labels = write_table(frame()[["y", "id"]].iloc[::-1], tmp_path / "labels.csv")
    dataset = file_per_party(tmp_path, edit=without_labels, labels_file=labels, standardize=False)
    rows = np.array([int(sample) for sample in dataset.sample_ids("train")])
    assert (np.diff(rows) < 0).all()
    np.testing.assert_array_equal(dataset.labels()["train"], rows % 3)
    bank = whole(dataset.features(0, torch.float64)["train"])
    np.testing.assert_array_equal(bank, frame()[["age", "income"]].to_numpy(float)[rows])


def test_listed_columns_of_one_partys_file(tmp_path):
    dataset = file_per_party(tmp_path, parties={"bank": ["income"]})
    assert dataset.features(0, torch.float32)["train"].sample_shape == (1,)
    assert dataset.features(1, torch.float32)["train"].sample_shape == (1,)


def test_the_id_column_of_one_file(tmp_path):
    dataset = one_file(tmp_path, id="id")
    rows = one_file(tmp_path).sample_ids("test")
    assert dataset.sample_ids("test").tolist() == [f"{row:03}" for row in rows]


def test_standardized_with_the_training_rows_alone(tmp_path):
    dataset = one_file(tmp_path, val_fraction=0.2)
    features = dataset.features(0, torch.float64)
    np.testing.assert_allclose(whole(features["train"]).mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(whole(features["train"]).std(axis=0), 1, atol=1e-12)
    raw = frame()[["age", "income"]].to_numpy(float)
    train = raw[dataset.sample_ids("train")]
    scaled = (raw[dataset.sample_ids("test")] - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(whole(features["test"]), scaled, rtol=1e-12)


def test_a_column_constant_in_training_is_zero_everywhere(tmp_path):
    rows = one_file(tmp_path, val_fraction=0.1).sample_ids("train")
    assert np.full(len(rows), 1.1).std() > 0  # rounding alone
    dataset = one_file(tmp_path, change=[("visits", row, 1.1) for row in rows], val_fraction=0.1)
    features = dataset.features(1, torch.float32)
    assert not whole(features["train"]).any()
    assert not whole(features["test"]).any()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_text_labels_become_class_numbers_in_sorted_order(tmp_path, suffix):
    names = np.array(["dog", "NA", "cat"])
    dataset = one_file(tmp_path, suffix, change=[("y", row, names[row % 3]) for row in range(N)])
    assert dataset.outline().task.num_outputs == 3
    for split in SPLITS:
        rows = dataset.sample_ids(split)
        np.testing.assert_array_equal(dataset.labels()[split], np.array([2, 0, 1])[rows % 3])


def test_true_and_false_are_two_classes_and_numbers(tmp_path):
    table = frame().assign(y=np.arange(N) % 2 == 1, visits=np.arange(N) % 3 == 0)
    dataset = Table(write_table(table, tmp_path / "bool.csv"), "y", PARTIES, standardize=False)
    assert dataset.outline().task.num_outputs == 2
    np.testing.assert_array_equal(dataset.labels()["train"], dataset.sample_ids("train") % 2)
    visits = whole(dataset.features(1, torch.float32)["train"])[:, 0]
    np.testing.assert_array_equal(visits, dataset.sample_ids("train") % 3 == 0)


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_regression(tmp_path, loss):
    dataset = one_file(tmp_path, label="visits", parties={"bank": ["age"], "shop": ["income"]}, loss=loss)
    assert (dataset.outline().task.loss, dataset.outline().task.num_outputs) == (loss, 1)
    np.testing.assert_array_equal(dataset.labels()["test"], frame()["visits"].to_numpy()[dataset.sample_ids("test")])


def test_a_csv_with_a_byte_order_mark_quotes_and_blank_lines(tmp_path):
    rows = "".join(f'{row},{row % 2}, {row}.5 ,"a,\nb"\n\n' for row in range(10))
    (tmp_path / "t.csv").write_text(f'\ufeff\n"x, 1",y,z,text\n\n{rows}', encoding="utf-8")
    dataset = Table(tmp_path / "t.csv", "y", {"a": ["x, 1", "z"]}, standardize=False)
    assert dataset.outline().sizes["train"] == 8
    rows = dataset.sample_ids("train")
    np.testing.assert_array_equal(whole(dataset.features(0, torch.float64)["train"]), np.stack([rows, rows + 0.5], 1))


def test_row_labels_that_pandas_stored_are_no_features(tmp_path):
    frame().set_index(np.arange(N) * 2).to_parquet(tmp_path / "shop.parquet")
    dataset = Table(label="y", files={"shop": tmp_path / "shop.parquet"}, id="id")
    assert dataset.features(0, torch.float32)["train"].sample_shape == (3,)


def test_a_party_reads_no_other_partys_file(tmp_path):
    good = whole(file_per_party(tmp_path).features(0, torch.float32)["train"])
    dataset = file_per_party(tmp_path, labels_file=tmp_path / "bank.csv")
    (tmp_path / "shop.csv").write_bytes(b"\x00\xff,")
    np.testing.assert_array_equal(whole(dataset.features(0, torch.float32)["train"]), good)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_party_reads_no_other_partys_columns(tmp_path, suffix):
    good = whole(one_file(tmp_path, suffix).features(0, torch.float32)["train"])
    damaged = one_file(tmp_path, suffix, change=[("visits", row, "?") for row in range(N)] + [("y", 3, None)])
    np.testing.assert_array_equal(whole(damaged.features(0, torch.float32)["train"]), good)


@pytest.mark.parametrize("make", [one_file, file_per_party])
def test_a_used_dataset_stays_small_when_pickled(tmp_path, make):
    dataset = make(tmp_path)
    use_table(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(pickle.dumps(dataset)) < 2000
    assert copy.outline() == dataset.outline()


def test_lists_and_mappings_of_hydra_are_taken(tmp_path):
    omegaconf = pytest.importorskip("omegaconf")
    dataset = one_file(tmp_path, parties=omegaconf.OmegaConf.create(PARTIES))
    assert dataset.parties == PARTIES
    assert type(dataset.parties["bank"]) is list
