"""Keys of Python as words of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flexray.config.given import import_path, placed, read_keys
from flexray.config.typed import literal, read
from flexray.core.errors import ConfigError
from flexray.models import MLP

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name.lower() not in ("null", "true", "false", "inf", "nan")
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**63, 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@example("it's a\\'b\\")
@example("C:\\new\\")
@example("null")
@example({"a": ["1", 1, 1.0, True, None, "x=y,z:{}"]})
@given(PLAIN)
def test_hydra_reads_a_literal_as_the_same_value(value: Any) -> None:
    found = read(f"key={literal('key', value)}").value()
    assert found == value
    assert type(found) is type(value)


WORDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "plain": (
        {"rounds": 3, "lr": 0.1, "target": None, "progress": False},
        ["rounds=3", "lr=0.1", "target=null", "progress=false"],
    ),
    "choices": ({"algo": "flex", "speeds": "google_mean"}, ["algo=flex", "speeds=google_mean"]),
    "keys below a group": (
        {"dataset": {"batch_size": 32, "parties": ["a"]}},
        ["dataset.batch_size=32", "dataset.parties=[a]"],
    ),
    "keys of the schema": ({"network": {"t_comm": {1: 5, "default": 1}}}, ["network.t_comm={1:5,default:1}"]),
    "values by participant": ({"lr": {"server": 0.1, "default": 0.05}}, ["lr={server:0.1,default:0.05}"]),
    "one participant": (
        {"parties": {"a": {"model": "cnn", "clip_norm": 1}, 2: {"model": {"hidden": [4]}}}},
        ["parties.a.model=cnn", "parties.a.clip_norm=1", "parties.2.model.hidden=[4]"],
    ),
    "numbers of others": (
        {"lr": np.float32(0.5), "seed": torch.tensor(3), "frozen": np.array([1, 2])},
        ["lr=0.5", "seed=3", "frozen=[1,2]"],
    ),
    "series": ({"adaptive": {"A": pd.Series([0.5, 1.0])}}, ["adaptive.A=[0.5,1.0]"]),
    "a path": ({"dataset": {"path": Path("my data/x.csv")}}, ["dataset.path='my data/x.csv'"]),
    "an experiment": ({"experiment": ["table3", "five_seeds"]}, ["+experiment=[table3,five_seeds]"]),
    "a class": ({"model": MLP}, ["model._target_='flexray.models.mlp.MLP'"]),
    "a class with arguments": (
        {"model": {"_target_": MLP, "hidden": [4]}},
        ["model._target_='flexray.models.mlp.MLP'", "model.hidden=[4]"],
    ),
    "an interpolation": ({"lr": "${adaptive.A}"}, ["lr='${adaptive.A}'"]),
}


@pytest.mark.parametrize(("keys", "words"), WORDS.values(), ids=WORDS)
def test_keys_are_words(keys: dict[str, Any], words: list[str]) -> None:
    assert [*read_keys(keys).words] == words


def test_what_others_cannot_import_is_an_object() -> None:
    class Own(MLP):
        pass

    found = read_keys({"model": Own, "parties": {"a": {"optimizer": {"_target_": max, "key": min}}}})
    assert import_path(Own) is None
    assert {**found.objects} == {"model._target_": Own, "parties.a.optimizer.key": min}
    name = f"python:{__name__}.test_what_others_cannot_import_is_an_object.<locals>.Own"
    assert found.words == (
        f"model._target_='{name}'", "parties.a.optimizer._target_='builtins.max'",
        "parties.a.optimizer.key='python:builtins.min'",
    )  # fmt: skip
    config = {"model": {"_target_": name}, "lr": 1}
    assert placed(config, None, found.objects) == {"model": {"_target_": Own}, "lr": 1}
    with pytest.raises(ConfigError, match=r"model: is the Python object .*Own, which the run folder cannot hold"):
        placed(config, None, {})


def test_data_is_noted_by_its_file(tmp_path: Path) -> None:
    frame, array = pd.DataFrame({"a": [1.0]}), np.zeros((2, 3))
    found = read_keys({"dataset": {"path": {"train": {"a": array}}, "files": {"b": frame}}, "speeds": {"path": array}})
    assert [*found.data] == ["dataset.path", "dataset.files.b.parquet", "speeds.path.npy"]
    assert found.words[1] == "dataset.files={b:'<run folder>/data/dataset.files.b.parquet'}"
    config = {"dataset": {"files": {"b": "<run folder>/data/dataset.files.b.parquet"}}}
    assert placed(config, tmp_path, {})["dataset"]["files"]["b"] == str(tmp_path / "data" / "dataset.files.b.parquet")


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"lr": {"a b": 1}}, "lr: expected names of letters, digits and _ in a mapping, got 'a b'"),
        ({"lr": {1, 2}}, "lr: expected a number, a text, a list or a mapping, got a set"),
        ({"lr": 1j}, "lr: expected a number, a text, a list or a mapping, got a complex"),
        ({"seed": pd.DataFrame()}, "seed: got a DataFrame; keys that take one are dataset.files.NAME and dataset.path"),
        ({"dataset": {"path": 3.0}}, "dataset.path: expected a path, a DataFrame, or arrays by name, got a float"),
    ],
)
def test_a_mistake_names_the_key(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_keys(keys)
    assert line in str(caught.value)
