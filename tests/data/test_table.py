import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from flexray.data.base import SPLITS
from flexray.data.table import Table
from flexray.errors import ConfigError, DataError, UserError

N = 20
PARTIES = {"bank": ["age", "income"], "shop": ["visits"]}


def frame():
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "id": [f"{row:03}" for row in range(N)],
            "age": rng.integers(18, 90, N),
            "income": rng.normal(1e4, 3e3, N),
            "visits": rng.normal(size=N),
            "y": np.arange(N) % 3,
        }
    )


def write(table, file):
    table.to_csv(file, index=False) if file.suffix == ".csv" else table.to_parquet(file, index=False)
    return file


def one_file(folder, suffix=".csv", change=None, **arguments):
    table = frame()
    for column, row, value in change or ():
        table[column] = table[column].astype(object)
        table.loc[row, column] = value
    file = write(table, folder / f"all{suffix}")
    return Table(**{"path": file, "label": "y", "parties": PARTIES} | arguments)


def file_per_party(folder, suffix=".csv", edit=lambda tables: None, **arguments):
    table = frame()
    tables = {
        "bank": table[["id", "age", "income", "y"]],
        "shop": table[["visits", "id"]].sample(frac=1, random_state=3),
    }
    edit(tables)
    files = {name: write(part, folder / f"{name}{suffix}") for name, part in tables.items()}
    return Table(**{"files": files, "label": "y", "id": "id"} | arguments)


def whole(features):
    return features.batch(np.arange(len(features)), 0).numpy()


def use(dataset):
    parties = dataset.outline().parties
    loaded = [dataset.features(party, torch.float32) for party in range(len(parties))]
    return loaded, dataset.labels(), [dataset.sample_ids(split) for split in SPLITS]


def message_of(make):
    with pytest.raises(UserError) as caught:
        use(make())
    assert "\n" not in str(caught.value)
    return caught.value


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
    use(mixed)
    assert sorted(map(int, np.concatenate([mixed.sample_ids(s) for s in SPLITS]))) == list(range(7, 27))


def test_a_labels_file_of_its_own_sets_the_order(tmp_path):
    def without_labels(tables):
        tables["bank"] = tables["bank"].drop(columns="y")

    labels = write(frame()[["y", "id"]].iloc[::-1], tmp_path / "labels.csv")
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
    dataset = Table(write(table, tmp_path / "bool.csv"), "y", PARTIES, standardize=False)
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
    use(dataset)
    copy = pickle.loads(pickle.dumps(dataset))
    assert len(pickle.dumps(dataset)) < 2000
    assert copy.outline() == dataset.outline()


def test_lists_and_mappings_of_hydra_are_taken(tmp_path):
    omegaconf = pytest.importorskip("omegaconf")
    dataset = one_file(tmp_path, parties=omegaconf.OmegaConf.create(PARTIES))
    assert dataset.parties == PARTIES
    assert type(dataset.parties["bank"]) is list


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ([("income", 17, "n/a?"), ("income", 18, "x")], "'n/a?'"),
        ([("income", 17, None)], "empty"),
        ([("income", 17, np.inf)], "inf"),
        ([("income", 17, -np.inf)], "-inf"),
        ([("income", 17, 1e300)], "1e+300"),
    ],
)
def test_a_bad_feature_is_named_by_file_column_row_and_value(tmp_path, change, shown, suffix):
    if suffix == ".parquet" and isinstance(change[0][2], str):
        change = change + [("income", row, "1") for row in range(N) if row not in (17, 18)]
    error = message_of(lambda: one_file(tmp_path, suffix, change))
    assert type(error) is DataError
    assert str(error).startswith(f"{tmp_path}/all{suffix}: column 'income': row 17 is {shown};")


def test_a_column_of_dates_is_refused(tmp_path):
    error = message_of(lambda: one_file(tmp_path, change=[("visits", row, "2020-01-31") for row in range(N)]))
    assert f"{tmp_path}/all.csv: column 'visits': row 0 is datetime.date(2020, 1, 31)" in str(error)


@pytest.mark.parametrize(
    ("change", "arguments", "words"),
    [
        ([("y", 5, None)], {}, ["column 'y': row 5 is empty"]),
        ([("y", row, "cat") for row in range(N)] + [("y", 5, None)], {}, ["column 'y': row 5 is empty"]),
        ([("y", 5, -1)], {}, ["column 'y': row 5: label -1"]),
        ([("y", 5, 1.5)], {}, ["column 'y': row 5: label 1.5"]),
        ([("y", 5, "two")], {"loss": "l1"}, ["column 'y': row 5 is 'two'"]),
        ([("y", 5, "inf")], {"loss": "mse"}, ["column 'y': row 5 is inf"]),
        ([], {"num_outputs": 2}, ["column 'y': row 2: label 2"]),
        (
            [("y", row, "abc"[row % 3]) for row in range(N)],
            {"num_outputs": 2},
            ["dataset.num_outputs: got 2", "column 'y' has 3 different labels"],
        ),
    ],
)
def test_a_bad_label_is_named(tmp_path, change, arguments, words):
    text = str(message_of(lambda: one_file(tmp_path, change=change, **arguments)))
    assert all(word in text for word in [*words, f"{tmp_path}/all.csv"]), text


def overwrite(text, name="all.csv"):
    def damage(folder):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return damage


@pytest.mark.parametrize(
    ("suffix", "damage", "words"),
    [
        (".csv", lambda folder: (folder / "all.csv").unlink(), ["no such file"]),
        (".csv", overwrite(""), ["is empty (0 bytes)"]),
        (".csv", overwrite("id,age,income,visits,y\n"), ["has a header but no rows"]),
        (".csv", overwrite("id,age,income,visits,y\n1,2,3,4,0\n1,2,3,4\n"), ["Row #3", "Expected 5 columns, got 4"]),
        (".csv", overwrite("id,age,income,visits,y\n1,2,3,4,0,9\n"), ["Row #2", "Expected 5 columns, got 6"]),
        (".csv", overwrite("id,age,age,income,visits,y\n1,2,3,4,5,0\n"), ["column 'age' occurs 2 times"]),
        (".parquet", overwrite(b"", "all.parquet"), ["is empty (0 bytes)"]),
        (".parquet", overwrite("id,age\n1,2\n", "all.parquet"), ["cannot be read as a CSV or Parquet table"]),
        (".parquet", overwrite(b"PAR1" + b"\0" * 40, "all.parquet"), ["cannot be read as a CSV or Parquet table"]),
        (".parquet", lambda folder: write(frame()[:0], folder / "all.parquet"), ["has a header but no rows"]),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, suffix, damage, words):
    dataset = one_file(tmp_path, suffix)
    damage(tmp_path)
    error = message_of(lambda: dataset)
    assert type(error) is DataError
    assert all(word in str(error) for word in [*words, f"{tmp_path}/all{suffix}"]), str(error)


def test_a_file_of_another_format_is_refused(tmp_path):
    error = message_of(lambda: one_file(tmp_path, path=tmp_path / "all.xlsx"))
    assert str(error) == f"{tmp_path}/all.xlsx: expected a file name that ends in .csv or .parquet"


def edit(name, change):
    return lambda tables: tables.update({name: change(tables[name])})


def repeat_id(name, row, sample):
    return edit(name, lambda table: table.assign(id=[*table["id"][:row], sample, *table["id"][row + 1 :]]))


SHOP_IDS = "{shop}: party 'shop' lacks IDs"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            edit("shop", lambda t: t.sort_values("id")[4:]),
            DataError,
            [SHOP_IDS, "{bank}", "('000', '001', '002', ...)"],
        ),
        (
            edit("shop", lambda t: t.replace("004", "zz")),
            DataError,
            [SHOP_IDS, "('004') and has IDs", "{bank} lacks ('zz')"],
        ),
        (repeat_id("bank", 9, "003"), DataError, ["{bank}: column 'id': row 9: ID '003' is already in row 3"]),
        (repeat_id("bank", 9, None), DataError, ["{bank}: column 'id': row 9 is empty"]),
        (repeat_id("shop", 0, None), DataError, ["{shop}: column 'id': row 0 is empty"]),
        (edit("shop", lambda t: t.assign(y=0)), ConfigError, ["dataset.labels_file", "'bank' and 'shop'", "'y'"]),
        (edit("bank", lambda t: t.drop(columns="y")), ConfigError, ["dataset.label", "'y'", "income"]),
        (edit("shop", lambda t: t[["id"]]), DataError, ["{shop}: party 'shop' has no features"]),
        (edit("shop", lambda t: t.rename(columns={"id": "id2"})), ConfigError, ["dataset.id: {shop}", "mean 'id2'?"]),
        (
            edit("shop", lambda t: t.assign(**{"": 1})),
            DataError,
            ["{shop}: a column has no name", "dataset.parties.shop"],
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_that_do_not_fit_together(tmp_path, suffix, change, kind, words):
    error = message_of(lambda: file_per_party(tmp_path, suffix, change))
    assert type(error) is kind
    for word in words:
        assert word.format(shop=tmp_path / f"shop{suffix}", bank=tmp_path / f"bank{suffix}") in str(error), str(error)


def test_an_id_twice_in_one_file(tmp_path):
    error = message_of(lambda: one_file(tmp_path, change=[("id", 11, "004")], id="id"))
    assert str(error) == f"{tmp_path}/all.csv: column 'id': row 11: ID '004' is already in row 4"


def test_a_column_of_two_parties(tmp_path):
    twice = {"bank": ["age"], "shop": ["visits", "age"]}
    error = message_of(lambda: one_file(tmp_path, parties=twice))
    assert type(error) is ConfigError
    assert "column 'age' is given to both 'bank' and 'shop'" in str(error)
    loaded, _, _ = use(one_file(tmp_path, parties=twice, shared_columns=True))
    np.testing.assert_array_equal(whole(loaded[0]["test"])[:, 0], whole(loaded[1]["test"])[:, 1])


def test_one_file_named_for_two_parties(tmp_path):
    file = write(frame(), tmp_path / "all.csv")
    error = message_of(lambda: Table(files={"a": file, "b": file}, label="y", id="id"))
    assert "column 'age' is given to both 'a' and 'b'" in str(error)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": None}, ["dataset.path", "neither"]),
        ({"files": {"bank": "bank.csv"}, "id": "id"}, ["dataset.path", "both"]),
        ({"path": None, "parties": None, "files": {"bank": "bank.csv"}}, ["dataset.id"]),
        ({"path": None, "files": {"bank": "b.csv"}, "id": "id"}, ["dataset.parties", "'shop' has no file"]),
        ({"path": None, "parties": None, "files": {"a b": "b.csv"}, "id": "id"}, ["dataset.files", "'a b'"]),
        ({"path": None, "files": "bank.csv"}, ["dataset.files", "mapping", "'bank.csv'"]),
        ({"label": None}, ["dataset.label"]),
        ({"label": "why"}, ["dataset.label", "all.csv", "'why'", "expected one of", "income"]),
        ({"id": "idd"}, ["dataset.id", "all.csv", "'idd'", "did you mean 'id'"]),
        ({"parties": None}, ["dataset.parties"]),
        ({"parties": ["age"]}, ["dataset.parties", "mapping", "['age']"]),
        ({"parties": {"bank": []}}, ["dataset.parties.bank: party 'bank' has no features"]),
        ({"parties": {"bank": "age"}}, ["dataset.parties.bank", "list", "'age'"]),
        ({"parties": {"bank": ["age", "age"]}}, ["dataset.parties.bank", "'age' is listed twice"]),
        ({"parties": {"bank": ["age", "incom"]}}, ["dataset.parties.bank", "all.csv", "did you mean 'income'"]),
        ({"parties": {"bank": ["age", "y"]}}, ["dataset.parties.bank", "'y' is the label column"]),
        ({"parties": {"bank": ["id"]}, "id": "id"}, ["dataset.parties.bank", "'id' is the ID column"]),
        ({"parties": {"server": ["age"]}}, ["dataset.parties", "'server' cannot name a party"]),
        ({"parties": {"my-bank": ["age"]}}, ["dataset.parties", "'my-bank' cannot name a party"]),
        ({"labels_file": "l.csv"}, ["dataset.labels_file"]),
        ({"val_fraction": 0.9}, ["dataset.val_fraction", "0.2 + 0.9"]),
        ({"loss": "l1", "num_outputs": 2}, ["dataset.num_outputs"]),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, words):
    error = message_of(lambda: one_file(tmp_path, **arguments))
    assert type(error) is ConfigError
    assert all(word in str(error) for word in words), str(error)
