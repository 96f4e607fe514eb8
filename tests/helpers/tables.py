"""A small table, written as one file or as one file per party."""

import numpy as np
import pandas as pd
import pytest
import torch

from flexray.core.errors import UserError
from flexray.data.base import SPLITS
from flexray.data.table import Table

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


def write_table(table, file):
    table.to_csv(file, index=False) if file.suffix == ".csv" else table.to_parquet(file, index=False)
    return file


def one_file(folder, suffix=".csv", change=None, **arguments):
    table = frame()
    for column, row, value in change or ():
        table[column] = table[column].astype(object)
        table.loc[row, column] = value
    file = write_table(table, folder / f"all{suffix}")
    return Table(**{"path": file, "label": "y", "parties": PARTIES} | arguments)


def file_per_party(folder, suffix=".csv", edit=lambda tables: None, **arguments):
    table = frame()
    tables = {
        "bank": table[["id", "age", "income", "y"]],
        "shop": table[["visits", "id"]].sample(frac=1, random_state=3),
    }
    edit(tables)
    files = {name: write_table(part, folder / f"{name}{suffix}") for name, part in tables.items()}
    return Table(**{"files": files, "label": "y", "id": "id"} | arguments)


def whole(features):
    return features.batch(np.arange(len(features)), 0).numpy()


def use_table(dataset):
    parties = dataset.outline().parties
    loaded = [dataset.features(party, torch.float32) for party in range(len(parties))]
    return loaded, dataset.labels(), [dataset.sample_ids(split) for split in SPLITS]


def error_of(make):
    with pytest.raises(UserError) as caught:
        use_table(make())
    assert "\n" not in str(caught.value)
    return caught.value
