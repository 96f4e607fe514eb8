from datetime import date

import numpy as np
import pyarrow
import pytest

from flexray.core.errors import ConfigError, DataError
from flexray.data.columns import numbers
from flexray.data.table import Table
from helpers.tables import N, error_of, file_per_party, frame, one_file, use_table, whole, write_table


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
    error = error_of(lambda: one_file(tmp_path, suffix, change))
    assert type(error) is DataError
    assert str(error).startswith(f"{tmp_path}/all{suffix}: column 'income': row 17 is {shown};")


@pytest.mark.parametrize("text", ["1_40", "\uff11\uff12", "1,5", "1 000", "infinity", "nan"])
def test_text_that_only_python_or_a_reader_takes_for_a_number_is_named(text):
    with pytest.raises(DataError, match=f"^here: row 1 is '{text}'; expected a finite number$"):
        numbers(pyarrow.array(["2", text]), "here")
    assert numbers(pyarrow.array(["2", "-1.5e3", " 7 "]), "here").tolist() == [2.0, -1500.0, 7.0]


def test_a_column_of_dates_is_refused(tmp_path):
    error = error_of(lambda: one_file(tmp_path, change=[("visits", row, "2020-01-31") for row in range(N)]))
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
    text = str(error_of(lambda: one_file(tmp_path, change=change, **arguments)))
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
        (".parquet", lambda folder: write_table(frame()[:0], folder / "all.parquet"), ["has a header but no rows"]),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, suffix, damage, words):
    dataset = one_file(tmp_path, suffix)
    damage(tmp_path)
    error = error_of(lambda: dataset)
    assert type(error) is DataError
    assert all(word in str(error) for word in [*words, f"{tmp_path}/all{suffix}"]), str(error)


def test_a_file_of_another_format_is_refused(tmp_path):
    error = error_of(lambda: one_file(tmp_path, path=tmp_path / "all.xlsx"))
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
    error = error_of(lambda: file_per_party(tmp_path, suffix, change))
    assert type(error) is kind
    for word in words:
        assert word.format(shop=tmp_path / f"shop{suffix}", bank=tmp_path / f"bank{suffix}") in str(error), str(error)


def test_an_id_twice_in_one_file(tmp_path):
    error = error_of(lambda: one_file(tmp_path, change=[("id", 11, "004")], id="id"))
    assert str(error) == f"{tmp_path}/all.csv: column 'id': row 11: ID '004' is already in row 4"


def test_a_column_of_two_parties(tmp_path):
    twice = {"bank": ["age"], "shop": ["visits", "age"]}
    error = error_of(lambda: one_file(tmp_path, parties=twice))
    assert type(error) is ConfigError
    assert "column 'age' is given to both 'bank' and 'shop'" in str(error)
    loaded, _, _ = use_table(one_file(tmp_path, parties=twice, shared_columns=True))
    np.testing.assert_array_equal(whole(loaded[0]["test"])[:, 0], whole(loaded[1]["test"])[:, 1])


def test_one_file_named_for_two_parties(tmp_path):
    file = write_table(frame(), tmp_path / "all.csv")
    error = error_of(lambda: Table(files={"a": file, "b": file}, label="y", id="id"))
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
    error = error_of(lambda: one_file(tmp_path, **arguments))
    assert type(error) is ConfigError
    assert all(word in str(error) for word in words), str(error)


def test_a_hexadecimal_number_is_a_text(tmp_path):
    rows = [("visits", row, row) for row in range(N)]
    error = error_of(lambda: one_file(tmp_path, change=[*rows, ("visits", 3, "0x10")]))
    assert f"{tmp_path}/all.csv: column 'visits': row 3 is '0x10'; expected a finite number" in str(error)
    for sign in ("0X1f", "-0x1"):
        error = error_of(lambda sign=sign: one_file(tmp_path, change=[*rows, ("visits", 0, sign)]))
        assert f"column 'visits': row 0 is '{sign}'" in str(error)


def test_a_hexadecimal_id_leaves_other_columns_as_they_are(tmp_path):
    plain = one_file(tmp_path)
    labels = {split: labels.tolist() for split, labels in plain.labels().items()}
    dataset = one_file(tmp_path, change=[("id", row, f"0x{row:x}") for row in range(N)], id="id")
    assert {split: found.tolist() for split, found in dataset.labels().items()} == labels
    assert dataset.outline().task.classes == ()
    assert "0x1" in np.concatenate([dataset.sample_ids(split) for split in labels])


def test_hexadecimal_labels_are_words(tmp_path):
    dataset = one_file(tmp_path, change=[("y", row, ["0x0", "0x1"][row % 2]) for row in range(N)])
    assert dataset.outline().task.classes == ("0x0", "0x1")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("Paris", "'Paris'; expected a finite number (words have to be coded as numbers, as pandas.get_dummies does)"),
        (None, "empty; expected a finite number (fill what is missing, or leave the row out)"),
        (date(2020, 1, 31), "datetime.date(2020, 1, 31); expected a finite number (give dates as days or seconds"),
    ],
)
def test_what_to_do_about_a_column_without_numbers_is_said(tmp_path, value, advice, suffix):
    rows = range(N) if value else [0]
    error = error_of(lambda: one_file(tmp_path, suffix, change=[("visits", row, value) for row in rows]))
    assert f"{tmp_path}/all{suffix}: column 'visits': row 0 is {advice}" in str(error)
