"""Columns dealt out to parties, beside the numbers of VertiBench itself.

The numbers of VERTIBENCH come from vertibench 0.1.2 (PyPI), ``made`` being the function below::

    splitter = CorrelationSplitter(3, seed=0, n_jobs=1)
    splitter.fit(made(), seed=0)
    splitter.min_icor, splitter.max_icor  # minutes
    corr = splitter.evaluator.corr
    splitter.evaluator.overall_corr_score(corr, [3, 3, 3])  # and [4, 3, 2]
    splitter.split_indices(made(), beta=0.5)
    splitter.best_icor
    parts = [[len(part) for part in ImportanceSplitter(4, alpha, seed=seed).split_indices(np.zeros((2, 20)))]
             for seed in range(2000)]
    np.mean([max(part) for part in parts]), np.mean([np.var(np.array(part) / 20) for part in parts])
"""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from flexray.data.base import SavedModel
from flexray.data.cuts import correlation_cut, equal_cut, icor, importance_cut, spearman
from flexray.run.command import run_command
from helpers.tables import N, error_of, file_per_party, frame, one_file, whole, write_table

EQUAL, UNEVEN = equal_cut(9, 3), ((0, 1, 2, 3), (4, 5, 6), (7, 8))
LEAST, MOST = -0.7372331083729154, -0.0027652274575868164
HALF = -0.3964553999848288
SPREAD = {0.1: (14.6265, 0.087687), 1: (9.8295, 0.02981), 10: (7.5845, 0.010308)}


def made():
    n, k = np.arange(60)[:, None], np.arange(9)[None, :]
    return np.sin(1.0 * n * (1 + k % 3)) + 0.5 * np.cos(2.3 * n * (1 + k))


def test_the_score_of_a_cut_is_vertibenchs():
    corr_ff = spearman(made())
    assert icor(corr_ff, EQUAL) == pytest.approx(-0.012116030625263714, abs=1e-9)
    assert icor(corr_ff, UNEVEN) == pytest.approx(-0.09779569296919359, abs=1e-9)
    assert icor(corr_ff, ((0, 3, 6), (1, 4, 7), (2, 5, 8))) == pytest.approx(LEAST, abs=1e-9)


def test_a_constant_column_correlates_with_none():
    corr_ff = spearman(np.array([[1, 2, 2, 5, 1], [3, -1, 0, 9, 9], [7] * 5], float).T)
    assert corr_ff[2].tolist() == corr_ff[:, 2].tolist() == [0.0] * 3
    assert corr_ff[0, 0] == corr_ff[1, 1] == 1.0


def test_the_ends_are_those_that_vertibench_finds_and_between_it_is_as_near():
    corr_ff, found = spearman(made()), {b: correlation_cut(made(), 3, b, 0) for b in (0, 0.5, 1)}
    assert icor(corr_ff, found[0]) == pytest.approx(LEAST, abs=1e-9)
    assert icor(corr_ff, found[1]) == pytest.approx(MOST, abs=1e-9)
    wanted = (MOST + LEAST) / 2
    assert abs(icor(corr_ff, found[0.5]) - wanted) <= abs(HALF - wanted) + 1e-9
    assert sorted(sum(found[0.5], ())) == list(range(9))


def test_shares_by_importance_spread_as_vertibenchs_do():
    for alpha, (largest, variance) in SPREAD.items():
        sizes = np.array([[len(part) for part in importance_cut(20, 4, alpha, seed)] for seed in range(1000)])
        assert (sizes.sum(1) == 20).all()
        assert sizes.min() == 1
        assert sizes.max(1).mean() == pytest.approx(largest, abs=0.35), alpha
        assert np.var(sizes / 20, axis=1).mean() == pytest.approx(variance, rel=0.08), alpha
    for alpha in (1e-18, 1e-5, 1e18):
        assert sorted(sum(importance_cut(6, 3, alpha, 1), ())) == list(range(6))


@pytest.mark.parametrize("how", ["equal", "importance", "correlation"])
def test_a_table_is_dealt_out_alike_in_every_process(tmp_path, how):
    dataset = one_file(tmp_path, parties=["bank", "shop"], cut=how, id="id", standardize=False)
    columns = dataset.outline().columns
    assert sorted(sum(columns.values(), ())) == ["age", "income", "visits"]
    assert list(columns) == ["bank", "shop"]
    assert pickle.loads(pickle.dumps(dataset)).outline().columns == columns
    again = one_file(tmp_path, parties=["bank", "shop"], cut=how, id="id", standardize=False)
    rows = again.sample_ids("train").astype(int)
    shop = whole(again.features(1, torch.float64)["train"])
    np.testing.assert_array_equal(shop, frame()[list(columns["shop"])].to_numpy(float)[rows])


def test_parties_by_number_and_columns_of_ones_own(tmp_path):
    dataset = one_file(tmp_path, parties=2, cut="equal", columns=["visits", "age"])
    assert dataset.outline().columns == {"party_1": ("visits",), "party_2": ("age",)}
    assert one_file(tmp_path).outline().columns == {}


def test_another_seed_deals_otherwise(tmp_path):
    cuts = {str(one_file(tmp_path, parties=2, cut="importance", id="id", cut_seed=s).outline().columns)
            for s in range(8)}  # fmt: skip
    assert len(cuts) > 1


def test_a_saved_model_keeps_its_columns(tmp_path):
    columns = {"party_1": ("visits",), "party_2": ("age", "income")}
    saved = SavedModel(3, has_new_data=True, columns=columns)
    for how in ("equal", "correlation"):
        dataset = one_file(tmp_path, parties=2, cut=how, id="id")
        assert dataset.for_prediction(saved).outline().columns == columns
        assert dataset.outline().columns != columns


def test_predictions_of_a_table_with_its_columns_in_another_order(tmp_path, capsys):
    from flexray.predict import run_command as predict

    table = frame().drop(columns="id")
    file, turned = write_table(table, tmp_path / "a.csv"), write_table(table[table.columns[::-1]], tmp_path / "b.csv")
    words = ["dataset=table", f"dataset.path={file}", "dataset.label=y", "dataset.batch_size=8", "dataset.parties=2"]
    assert (
        run_command(
            [*words, "dataset.cut=importance", "cluster=inline", "rounds=1", f"hydra.run.dir={tmp_path / 'run'}"]
        )
        == 0
    )
    assert "columns of party_2: " in capsys.readouterr().out
    assert set(json.loads((tmp_path / "run/summary.json").read_text())["columns"]) == {"party_1", "party_2"}
    for words, output in ((["--split", "all"], "all.csv"), ([f"dataset.path={turned}"], "new.csv")):
        assert predict([str(tmp_path / "run"), *words, "-o", str(tmp_path / output)]) == 0
    one, other = (pd.read_csv(tmp_path / name).sort_values("id") for name in ("all.csv", "new.csv"))
    assert len(one) == N
    np.testing.assert_array_equal(one.to_numpy(), other.to_numpy())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cut": "importanc"}, "dataset.cut: unknown value 'importanc'; did you mean 'importance'?"),
        ({"cut": "equal", "parties": {"a": ["age"]}}, "dataset.parties: expected the number of parties or a list"),
        ({"cut": "equal", "parties": None}, "dataset.parties: expected the number of parties or a list"),
        ({"cut": "equal", "parties": 0}, "dataset.parties: expected a whole number of at least 1, got 0"),
        ({"cut": "equal", "parties": 5}, "dataset.parties: 5 parties have no column each of the 4 in {all}"),
        ({"cut": "equal", "parties": ["a", "server"]}, "dataset.parties: 'server' cannot name a party"),
        ({"cut": "equal", "parties": 2, "columns": ["age", "agee"]}, "dataset.columns: {all} has no column 'agee'"),
        ({"cut": "equal", "parties": 2, "columns": ["age", "y"]}, "dataset.columns: 'y' is the label column"),
        ({"columns": ["age"]}, "dataset.columns: goes with dataset.cut only"),
        ({"cut": "importance", "parties": 2, "alpha": 0}, "dataset.alpha: expected a positive number, got 0"),
        ({"cut": "correlation", "parties": 2, "beta": 1.5}, "dataset.beta: expected a number from 0 to 1, got 1.5"),
        ({"cut": "importance", "parties": 2, "cut_seed": -1}, "dataset.cut_seed: expected a whole number"),
    ],
)
def test_what_cannot_be_dealt_is_named(tmp_path, arguments, message):
    text = str(error_of(lambda: one_file(tmp_path, **arguments)))
    assert text.startswith(message.format(all=tmp_path / "all.csv")), text


def test_words_and_files_of_their_own_cannot_be_dealt(tmp_path):
    words = [("visits", row, "Rome") for row in range(N)]
    text = str(error_of(lambda: one_file(tmp_path, change=words, parties=2, cut="correlation", id="id")))
    assert text.startswith(f"{tmp_path}/all.csv: column 'visits': row 0 is 'Rome'")
    text = str(error_of(lambda: file_per_party(tmp_path, parties=2, cut="equal")))
    assert text == "dataset.files: expected dataset.path with dataset.cut=equal"
