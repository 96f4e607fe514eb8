"""A BERT whose parts do not fit each other or the tokens."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch

from flexray.core.errors import ConfigError, DataError
from flexray.data.sentiment import Sentiment
from flexray.models.bert import Bert
from helpers.sentiment_files import SIZES, arrays, bert


@pytest.fixture(scope="session")
def whole_bert(tmp_path_factory):
    return bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def own_bert(whole_bert, tmp_path):
    return shutil.copytree(whole_bert, tmp_path / "bert")


def set_config(folder, **changes):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize("part", [0, 0.001, 0.5, 0.99])
@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_weights_that_are_cut_off_are_told_in_one_line(form, part, own_bert):
    file = own_bert / "model.safetensors"
    if form == "bin":
        state = Bert((12,), 1, pretrained=str(own_bert)).bert.state_dict()
        file.unlink()
        file = own_bert / "pytorch_model.bin"
        torch.save(state, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ConfigError, match=rf"^dataset.bert: cannot load '{own_bert}': .+; expected a BERT's") as caught:
        Bert((12,), 1, pretrained=str(own_bert))
    assert "\n" not in str(caught.value)


SHAPES = {
    "vocab_size": (7, r"embeddings.word_embeddings.weight has shape \(10, 8\), expected \(7, 8\)"),
    "hidden_size": (16, r"embeddings.LayerNorm.bias has shape \(8,\), expected \(16,\)"),
    "intermediate_size": (4, r"encoder.layer.0.intermediate.dense.bias has shape \(16,\), expected \(4,\)"),
}


@pytest.mark.parametrize("key", SHAPES)
def test_weights_that_do_not_fit_the_config_are_told_with_the_first_misfit(key, own_bert):
    value, told = SHAPES[key]
    set_config(own_bert, **{key: value})
    with pytest.raises(ConfigError, match=rf"^dataset.bert: the weights in '{own_bert}' do not fit .*json: {told}$"):
        Bert((12,), 1, pretrained=str(own_bert))


@pytest.mark.parametrize("value", [-4, 10, 40000])
@pytest.mark.parametrize(("row", "sample"), [(0, "train$_$0"), (4, "train$_$4")])
def test_a_token_that_bert_does_not_know_is_named(row, sample, value, whole_bert, tmp_path):
    folder = arrays(tmp_path / "data")
    for split, rows in SIZES.items():
        tokens = np.tile([2, 5, 9, 3, 0], (rows, 1))
        tokens[:, 3] *= np.arange(rows) % 2  # texts of different lengths
        if split == "train":
            tokens[row, 1] = value
        (folder / split / "sentences.csv").unlink()
        np.save(folder / split / "text.npy", tokens)
    data = Sentiment(folder, cache=tmp_path / "cache", bert=str(whole_bert))
    with pytest.raises(DataError) as caught:
        data.features(2, torch.float32)
    told = f"sample '{sample}': token ID {value}; expected 0 to 9, what '{whole_bert}' knows"
    assert str(caught.value) == f"{folder}/train/text.npy: {told}"


def test_a_tokenizer_that_knows_more_than_its_bert_is_named(own_bert, tmp_path):
    set_config(own_bert, vocab_size=5)
    folder = arrays(tmp_path / "data")
    data = Sentiment(folder, cache=tmp_path / "cache", bert=str(own_bert))
    with pytest.raises(DataError, match=rf"^{folder}/train/sentences.csv: sample '.*': token ID \d; expected 0 to 4, "):
        data.features(2, torch.float32)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model_type": "nothing"}'])
def test_a_config_that_cannot_be_read_is_told(content, own_bert, tmp_path):
    (own_bert / "config.json").write_text(content)
    data = Sentiment(arrays(tmp_path / "data"), cache=tmp_path / "cache", bert=str(own_bert))
    with pytest.raises(
        ConfigError, match=rf"^dataset.bert: cannot load the .* of '{own_bert}': .+; expected"
    ) as caught:
        data.features(2, torch.float32)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["pickle", "code"])
def test_nothing_in_a_strangers_bert_is_run(form, own_bert, tmp_path, monkeypatch):
    class Hostile:
        def __reduce__(self):
            return (tmp_path.joinpath("pwned").touch, ())

    monkeypatch.chdir(own_bert)
    if form == "pickle":
        (own_bert / "model.safetensors").unlink()
        (own_bert / "pytorch_model.bin").write_bytes(pickle.dumps({"embeddings": Hostile()}))
    else:
        (own_bert / "evil.py").write_text(f"open({str(tmp_path / 'pwned')!r}, 'w')\n\n\nclass Net:\n    pass\n")
        set_config(own_bert, model_type="evil", auto_map={"AutoConfig": "evil.Net", "AutoModel": "evil.Net"})
    with pytest.raises(ConfigError, match=r"^dataset.bert: cannot load"):
        Bert((12,), 1, pretrained=str(own_bert))
    assert not (tmp_path / "pwned").exists()
