"""Files, rows and columns that cannot be used; and where relative paths start from."""

import os

import numpy as np
import pandas as pd
import pytest

ROWS = 20
BUNDLE = ("dataset=bundle", "dataset.path=data", "dataset.batch_size=8", "rounds=1", "model=linear")
TABLE = (
    "dataset=table", "dataset.label=y", "dataset.batch_size=8", "rounds=1", "model=linear",
)  # fmt: skip
ONE_FILE = (*TABLE, "dataset.path=data/all.csv", "dataset.parties={bank:[age,income],shop:[visits]}", "dataset.id=id")
PER_PARTY = (*TABLE, "dataset.files={bank:data/bank.csv,shop:data/shop.csv}", "dataset.id=id")


@pytest.fixture
def data(tmp_path, write_bundle):
    """Return a folder with a bundle, and with a table as one file and as a file per party."""
    root = write_bundle({"audio": (4,), "video": (2, 3)}).rename(tmp_path / "data")
    draw = np.random.default_rng(2)
    table = pd.DataFrame(
        {
            "id": [f"{row:03}" for row in range(ROWS)],
            "age": draw.integers(18, 90, ROWS),
            "income": draw.normal(size=ROWS),
            "visits": draw.normal(size=ROWS),
            "y": np.arange(ROWS) % 3,
        }
    )
    write(table, root / "all.csv")
    write(table[["id", "age", "income", "y"]], root / "bank.csv")
    write(table[["id", "visits"]].sample(frac=1, random_state=1), root / "shop.csv")
    return root


def write(table, file):
    table.to_csv(file, index=False)


def change(file, edit):
    table = pd.read_csv(file, dtype=object)
    edited = edit(table)
    write(table if edited is None else edited, file)


def put(name, array):
    return lambda root: np.save(root / f"{name}.npy", array)


def cell(file, column, row, value):
    return lambda root: change(root / file, lambda table: table.__setitem__(column, [
        value if place == row else old for place, old in enumerate(table[column])
    ]))  # fmt: skip


def remove(name):
    return lambda root: (root / name).unlink()


def content(name, edit):
    return lambda root: (root / name).write_bytes(edit((root / name).read_bytes()))


def bad_number(value):
    features = np.zeros((24, 4))
    features[17, 3] = value
    return put("train/audio", features)


FAULTS = {
    "unequal rows": (put("train/audio", np.zeros((23, 4))), ["train/audio.npy: has 23 rows", "labels.npy has 24"]),
    "nan": (bad_number(np.nan), ["train/audio.npy: party 'audio': row 17, feature 3 is nan; expected finite numbers"]),
    "infinity": (bad_number(-np.inf), ["train/audio.npy: party 'audio': row 17, feature 3 is -inf"]),
    "label out of range": (
        put("test/labels", np.array([0, 1, -1] * 3)),
        ["test/labels.npy: row 2: label -1 is out of"],
    ),
    "objects": (
        put("train/video", np.array([["x", 1]] * 24, dtype=object)),
        ["train/video.npy: cannot be read as an array of numbers", "Python objects"],
    ),
    "text": (put("train/video", np.full((24, 2, 3), "x")), ["train/video.npy: expected numbers", "<U1"]),
    "truncated": (content("test/video.npy", lambda old: old[:-9]), ["test/video.npy: cannot be read"]),
    "empty": (content("test/video.npy", lambda _: b""), ["test/video.npy: is empty (0 bytes)"]),
    "missing in one split": (remove("test/video.npy"), ["test/video.npy: no such file, but party 'video' has"]),
    "no labels": (remove("train/labels.npy"), ["train/labels.npy: no such file"]),
    "sample shapes": (put("test/audio", np.zeros((9, 5))), ["test/audio.npy: samples have shape (5,), but (4,)"]),
    "duplicated id": (put("test/ids", np.arange(9) % 8), ["test/ids.npy: row 8: ID 0 is already in row 0"]),
}
TABLE_FAULTS = {
    "nan in a column": (cell("all.csv", "income", 7, ""), ONE_FILE, ["column 'income': row 7 is empty"]),
    "text in a column": (cell("all.csv", "visits", 7, "?"), ONE_FILE, ["column 'visits': row 7 is '?'"]),
    "label": (cell("all.csv", "y", 7, "1.5"), ONE_FILE, ["column 'y': row 7: label 1.5"]),
    "duplicated id": (cell("all.csv", "id", 7, "003"), ONE_FILE, ["row 7: ID '003' is already in row 3"]),
    "empty": (content("all.csv", lambda _: b""), ONE_FILE, ["all.csv: is empty (0 bytes)"]),
    "header only": (
        content("all.csv", lambda old: old.splitlines()[0] + b"\n"),
        ONE_FILE,
        ["has a header but no rows"],
    ),
    "unequal row": (content("all.csv", lambda old: old + b"99,1\n"), ONE_FILE, ["Expected 5 columns, got 2"]),
    "missing id": (
        lambda root: change(root / "shop.csv", lambda table: table[1:]),
        PER_PARTY,
        ["shop.csv: party 'shop' lacks IDs that", "bank.csv has ('"],
    ),
    "duplicated id of a party": (
        lambda root: change(root / "shop.csv", lambda table: pd.concat([table, table[:1]])),
        PER_PARTY,
        ["shop.csv: column 'id': row 20: ID '", "is already in row 0"],
    ),
    "no id column": (
        lambda root: change(root / "shop.csv", lambda table: table.rename(columns={"id": "key"})),
        PER_PARTY,
        ["dataset.id: ", "shop.csv has no column 'id'"],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_bundle_is_named_by_file_and_row(command, data, fault):
    damage, words = FAULTS[fault]
    damage(data)
    command(*BUNDLE).assert_refused(f"flexray: {data}/", *words)


@pytest.mark.parametrize("fault", TABLE_FAULTS)
def test_a_fault_in_a_table_is_named_by_file_column_and_row(command, data, fault):
    damage, arguments, words = TABLE_FAULTS[fault]
    damage(data)
    command(*arguments).assert_refused(f"{data}/", *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dataset=bundle",), ["dataset.path: expected a folder with train/NAME.npy"]),
        (("dataset=bundle", "dataset.path=dta"), ["{root}/dta: no such folder; expected a folder with train/NAME.npy"]),
        (("dataset=bundle", "dataset.path=3"), ["dataset.path: expected a path, got 3"]),
        ((*BUNDLE, "dataset.batch_size=25"), ["dataset.batch_size: expected 1 to 24", "got 25"]),
        ((*BUNDLE, "dataset.parties=[audio,vidoe]"), ["dataset.parties: ", "vidoe.npy; did you mean 'video'?"]),
        ((*BUNDLE, "dataset.loss=l3"), ["dataset.loss: unknown loss 'l3'"]),
        ((*BUNDLE, "dataset.num_outputs=2"), ["train/labels.npy: row 2: label 2 is out of range", "from 0 to 1"]),
        ((*TABLE, "dataset.path=data/all.csv"), ["dataset.parties: expected the columns of each party, got none"]),
        ((*ONE_FILE, "dataset.path=data/al.csv"), ["{root}/data/al.csv: no such file"]),
        ((*ONE_FILE, "dataset.label=z"), ["dataset.label: {root}/data/all.csv has no column 'z'"]),
        ((*ONE_FILE, "dataset.parties.shop=[visit]"), ["dataset.parties.shop: ", "did you mean 'visits'?"]),
        ((*ONE_FILE, "dataset.parties.shop=[visits,age]"), ["column 'age' is given to both 'bank' and 'shop'"]),
        ((*ONE_FILE, "dataset.parties.shop=[visits,visits]"), ["dataset.parties.shop: 'visits' is listed twice"]),
        ((*ONE_FILE, "dataset.standardize=maybe"), ["dataset.standardize: expected true or false, got 'maybe'"]),
        ((*PER_PARTY, "dataset.files.shop=data/shp.csv"), ["{root}/data/shp.csv: no such file"]),
        ((*PER_PARTY, "dataset.files.shop=null"), ["dataset.files.shop: expected a path, got null"]),
        ((*PER_PARTY, "dataset.labels_file=l.csv"), ["{root}/l.csv: no such file"]),
    ],
)
def test_what_is_said_of_the_data_must_be_so(command, data, arguments, words):
    command(*arguments).assert_refused(*(word.format(root=data.parent) for word in words))


@pytest.mark.parametrize("change_folder", ["hydra.job.chdir=false", "hydra.job.chdir=true"])
@pytest.mark.parametrize("arguments", [BUNDLE, ONE_FILE, PER_PARTY, (*PER_PARTY, "dataset.labels_file=data/bank.csv")])
def test_relative_paths_start_where_the_command_was_typed(command, data, arguments, change_folder):
    outcome = command(*arguments, change_folder)
    assert (outcome.status, outcome.errors) == (0, [])
    assert outcome.summary["data_source"] == "files"


def test_a_relative_path_to_nothing_is_shown_in_full_although_the_folder_changes(command, data):
    command("dataset=bundle", "dataset.path=dta", "hydra.job.chdir=true").assert_refused(f"{data.parent}/dta: no such")


@pytest.mark.parametrize("name", ["train/audio.npy", "test/labels.npy", "all.csv"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(command, data, name):
    (data / name).unlink()
    os.mkfifo(data / name)
    arguments = ONE_FILE if name == "all.csv" else BUNDLE
    command(*arguments).assert_refused(f"flexray: {data}/{name}: is a pipe; expected ")


def test_a_label_that_is_a_quantity_is_refused_at_the_start(command, data):
    change(data / "all.csv", lambda table: pd.concat([table] * 30).assign(y=[7 * k for k in range(30 * ROWS)]))
    arguments = (*TABLE, "dataset.path=data/all.csv", "dataset.parties={bank:[age,income],shop:[visits]}")
    command(*arguments).assert_refused(
        f"flexray: {data}/all.csv: column 'y': has 600 different labels in 600 rows; expected dataset.loss=l1 or mse"
    )


def test_a_fraction_that_is_none_is_refused(command, data):
    command(*ONE_FILE, "dataset.test_fraction=null").assert_refused("dataset.test_fraction: expected ", "got null")
