"""LSTM over packed sequences, BERT, the three-layer server; transformers is imported by nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from flexray.core.errors import ConfigError
from flexray.engine.parties.phi import split_linear
from flexray.models import LSTM, MLP, Bert, build_module
from helpers.jobs import Compose, Run
from helpers.sentiment_files import bert
from helpers.typed import typed


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.mark.parametrize("options", [{}, {"layers": 2}, {"bidirectional": True}])
def test_an_lstm_reads_each_sequence_to_its_own_end(options: dict[str, int]) -> None:
    model = LSTM((9, 3), 4, hidden=5, **options).double()
    lengths = [4, 9, 1, 7]
    x = torch.full((4, 9, 3), 1e6, dtype=torch.float64)  # padding has no say
    for row, length in enumerate(lengths):
        x[row, :length] = torch.randn(length, 3, dtype=torch.float64)
    found = model(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        _, (state, _) = model.rnn(x[row : row + 1, :length])
        last = state[-2:].flatten() if options.get("bidirectional") else state[-1].flatten()
        torch.testing.assert_close(found[row], model.output(last))
    torch.testing.assert_close(model(x[:, :1]), model(x, torch.ones(4, dtype=torch.int64)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_shape": (100,)}, r"model: LSTM expects sequences, \(steps, features\), got samples of shape \(100,\)"),
        ({"hidden": 0}, "model.hidden: expected a whole number of at least 1, got 0"),
        ({"layers": 1.5}, "model.layers: expected a whole number of at least 1, got 1.5"),
        ({"dropout": 1}, r"model.dropout: expected a number in \[0, 1\), got 1"),
    ],
)
def test_a_bad_lstm_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LSTM(**{"in_shape": (5, 2), "out_features": 3, **options})


def test_a_small_bert_embeds_the_first_token_and_minds_the_mask() -> None:
    torch.manual_seed(0)
    model = Bert((10,), 3, vocab_size=20, hidden=8, layers=1, heads=2, intermediate=8).eval()
    tokens, mask = torch.tensor([[1, 5, 6, 0, 0], [1, 7, 8, 9, 2]]), torch.tensor([[1, 1, 1, 0, 0], [1] * 5])
    found = model(tokens, mask)
    assert found.shape == (2, 8)
    torch.testing.assert_close(found[:1], model(tokens[:1, :3], mask[:1, :3]))
    assert not torch.allclose(found[0], model(torch.tensor([[1, 5, 7]]), mask[:1, :3])[0], atol=1e-2)
    projected = Bert((10,), 3, vocab_size=20, hidden=8, layers=1, heads=2, projection=True)
    assert projected(tokens, mask).shape == (2, 3)
    assert all(p.requires_grad for p in projected.parameters())


def test_a_pretrained_bert_has_the_weights_of_its_folder(tiny_bert: Path) -> None:
    from transformers import BertModel

    model = Bert((12,), 3, pretrained=str(tiny_bert)).eval()
    tokens, mask = torch.tensor([[2, 4, 3]]), torch.ones((1, 3), dtype=torch.int64)
    expected = BertModel.from_pretrained(tiny_bert).eval()(tokens).last_hidden_state[:, 0]
    torch.testing.assert_close(model(tokens, mask), expected)
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]


def test_lower_layers_can_be_frozen(tiny_bert: Path) -> None:
    model = Bert((12,), 3, pretrained=str(tiny_bert), frozen_layers=1, projection=True)
    trained = {
        name.split(".")[1] + name.split(".")[3]
        for name, p in model.named_parameters()
        if p.requires_grad and "bert" in name
    }
    assert trained == {"encoder1"}
    with pytest.raises(ConfigError, match=r"model.frozen_layers: the model has 2 layers, got 3"):
        Bert((12,), 3, pretrained=str(tiny_bert), frozen_layers=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_shape": (5, 2)}, r"model: Bert expects token IDs, \(tokens,\), got samples of shape \(5, 2\)"),
        ({"heads": 3}, "model.heads: expected a divisor of model.hidden, 32, got 3"),
        ({"dropout": 2}, r"model.dropout: expected a number in \[0, 1\), got 2"),
        ({"frozen_layers": -1}, "model.frozen_layers: expected a whole number of at least 0, got -1"),
        ({"hidden": 0}, "model: Bert's hidden_size: expected a whole number of at least 1, got 0"),
    ],
)
def test_a_bad_bert_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Bert(**{"in_shape": (5,), "out_features": 3, **options})


def test_features_that_are_no_tokens_are_refused() -> None:
    model = Bert((5,), 3, vocab_size=20, hidden=8, layers=1, heads=2)
    with pytest.raises(
        ConfigError, match="model: Bert expects token IDs, got other numbers; such features want model=mlp"
    ):
        model(torch.ones(2, 5))


def test_weights_of_another_model_and_texts_too_long_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset.max_tokens: expected at most 12, what .* can read, got 13"):
        Bert((13,), 3, pretrained=str(tiny_bert))
    config = json.loads((tiny_bert / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    (tmp_path / "model.safetensors").write_bytes((tiny_bert / "model.safetensors").read_bytes())
    with pytest.raises(ConfigError, match=r"dataset.bert: the weights in '.*' lack encoder.layer.2"):
        Bert((12,), 3, pretrained=str(tmp_path))


@pytest.mark.parametrize("part", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_bert_folder_that_lacks_a_part_is_refused_before_the_run(
    part: str, tiny_bert: Path, tmp_path: Path, compose_job: Compose
) -> None:
    from helpers.sentiment_files import arrays

    (tmp_path / "bert").mkdir()
    for file in tiny_bert.iterdir():
        if file.name != part:
            (tmp_path / "bert" / file.name).write_bytes(file.read_bytes())
    what = {"config.json": "config.json", "model.safetensors": "weights", "tokenizer.json": "tokenizer"}[part]
    with pytest.raises(
        ConfigError, match=rf"dataset.bert: .*bert has no {what} \(.*{part}.*\); expected a BERT's name on"
    ):
        compose_job(
            "dataset=mosei", f"dataset.path={arrays(tmp_path / 'data')}", f"dataset.cache={tmp_path}",
            f"dataset.bert={tmp_path / 'bert'}", "dataset.batch_size=3",
        )  # fmt: skip


def test_the_papers_server_is_folded_by_parties() -> None:
    head = build_module(MLP, in_features=6, out_features=1, **{})
    assert split_linear(head)[0] is head[0]
    tanh = MLP(96, 1, hidden=(128, 128), activation="tanh", dropout=0.1)
    assert [type(layer) for layer in tanh] == [
        nn.Linear,
        nn.Tanh,
        nn.Dropout,
        nn.Linear,
        nn.Tanh,
        nn.Dropout,
        nn.Linear,
    ]
    assert split_linear(tanh)[0] is tanh[0]


def test_a_model_of_vectors_is_refused_for_sequences(compose_job: Compose, run_inline: Run) -> None:
    small = "dataset.standin={train:20,val:0,test:5,steps:6,video:5,audio:4}"
    job = compose_job("dataset=mosei", "model=mlp", small, "dataset.batch_size=10", "rounds=1")
    with pytest.raises(
        ConfigError,
        match=r"video: MLP takes one vector a sample, and its data has 2 tensors .* expected parties.video.model=lstm",
    ):
        run_inline(job)


def test_a_run_on_real_text_trains_the_pretrained_bert(
    tiny_bert: Path, tmp_path: Path, compose_job: Compose, run_inline: Run
) -> None:
    from helpers.sentiment_files import infomax

    job = compose_job(
        "dataset=mosei", f"dataset.path={infomax(tmp_path / 'data')}", f"dataset.cache={tmp_path}",
        f"dataset.bert={tiny_bert}", "dataset.batch_size=3", "dataset.max_tokens=12", "rounds=3",
    )  # fmt: skip
    ended = run_inline(job)[-1]
    assert ended.divergence is None
    start = Bert((12,), 3, pretrained=str(tiny_bert)).state_dict()
    trained = ended.states["text"]
    assert set(start) <= set(trained)
    assert not np.allclose(
        start["bert.encoder.layer.0.output.dense.weight"],
        trained["bert.encoder.layer.0.output.dense.weight"],
        atol=1e-7,
    )


SPIES = """
import sys
from flexray.run.command import run_command
status = run_command(sys.argv[1:])
print("HEAVY", status, sorted({"transformers", "tokenizers"} & set(sys.modules)))
"""


@pytest.mark.parametrize(("dataset", "heavy"), [("digits", []), ("mosei", ["tokenizers", "transformers"])])
def test_transformers_is_imported_by_those_only_who_need_it(dataset: str, heavy: list[str], tmp_path: Path) -> None:
    options = ["dataset.standin={train:20,val:0,test:5,steps:6,video:5,audio:4}", "dataset.batch_size=10"]
    command = [f"dataset={dataset}", "rounds=1", "cluster=inline", f"hydra.run.dir={tmp_path}", "progress=false"]
    command += options if dataset == "mosei" else []
    _, said = typed(["-c", SPIES, *command], tmp_path)
    assert f"HEAVY 0 {heavy}" in said
