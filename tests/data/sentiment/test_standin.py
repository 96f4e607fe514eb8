"""The synthetic stand-in: its shapes, and that every party carries a part of the signal and none all of it."""

import csv
import json
import logging

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from flexray.config.schema import config_folder
from flexray.core.errors import ConfigError
from flexray.data.sentiment import Sentiment
from flexray.data.sentiment.standin import FIRST, LAST, LISTED
from flexray.run.command import run_command
from flexray.tasks import sentiment_metrics

SIZES = {"train": 600, "val": 5, "test": 300}


def summaries(data):
    """Return, by party and split, what a linear model can see: mean steps, shares of listed words."""
    for party in range(3):
        features = data.features(party, torch.float64)
        by_split = {}
        for split, size in SIZES.items():
            x, second = features[split].batch(np.arange(size), 0)
            if party < 2:
                by_split[split] = (x.sum(dim=1) / second[:, None]).numpy()
            else:
                start = LAST + 1
                lists = [(x >= start + LISTED * i) & (x < start + LISTED * (i + 1)) for i in range(2)]
                by_split[split] = np.stack([(m.sum(dim=1) / second.sum(dim=1)).numpy() for m in lists], axis=1)
        yield by_split


def test_shapes_and_labels_are_those_of_mosei():
    data = Sentiment(standin=SIZES)
    outline = data.outline()
    assert (outline.source, dict(outline.sizes), outline.task.loss) == ("synthetic", SIZES, "l1")
    video, audio, text = (data.features(party, torch.float32) for party in range(3))
    assert video["train"].sample_shape == (50, 35)
    assert audio["train"].sample_shape == (50, 74)
    assert text["train"].sample_shape == (50,)
    x, lengths = audio["test"].batch(np.arange(300), 0)
    assert (int(lengths.min()), int(lengths.max())) == (10, 50)
    assert x.dtype == torch.float32
    tokens, _ = text["test"].batch(np.arange(300), 0)
    assert (tokens[:, 0] == FIRST).all()
    assert ((tokens == LAST).sum(dim=1) == 1).all()
    assert int(tokens.max()) < text["train"].offers["vocab_size"]
    labels = data.labels()["train"]
    np.testing.assert_allclose(labels * 3, np.round(labels * 3))
    assert -3 <= labels.min() < -2 < 2 < labels.max() <= 3
    assert 1.0 < labels.std() < 1.4
    assert (labels == 0).any()
    assert list(data.sample_ids("val")) == [0, 1, 2, 3, 4]


def test_every_party_carries_a_part_of_the_signal_and_none_all_of_it():
    data = Sentiment(standin=SIZES)
    labels = data.labels()
    seen = list(summaries(data))

    def mae(parties):
        train, test = (np.column_stack([np.ones(SIZES[s]), *(p[s] for p in parties)]) for s in ("train", "test"))
        weights = np.linalg.lstsq(train, labels["train"], rcond=None)[0]
        return np.abs(test @ weights - labels["test"]).mean()

    ignorant = np.abs(labels["test"] - labels["test"].mean()).mean()
    singles = [mae([party]) for party in seen]
    fused = mae(seen)
    assert all(0.6 < single / ignorant < 0.93 for single in singles), (ignorant, singles)
    assert fused < 0.55 * min(singles), (fused, singles)


def test_each_seed_draws_its_own_and_the_same_again():
    a, b, c = (Sentiment(standin=SIZES, split_seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.labels()["train"], b.labels()["train"])
    assert (a.labels()["train"] != c.labels()["train"]).any()
    for party in range(3):
        x, y, z = (d.features(party, torch.float32)["test"].batch(np.arange(4), 0) for d in (a, b, c))
        torch.testing.assert_close(x, y, rtol=0, atol=0)
        assert x[0].shape != z[0].shape or not torch.equal(x[0], z[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"train": 0}, "dataset.standin.train: expected a whole number of at least 2, got 0"),
        ({"steps": "many"}, "dataset.standin.steps: expected a whole number of at least 5, got 'many'"),
        ({"step": 5}, "dataset.standin: expected train, val, test, steps, video, audio, got {'step': 5}"),
    ],
)
def test_a_bad_size_is_named(given, message):
    with pytest.raises(ConfigError) as caught:
        Sentiment(standin=given)
    assert str(caught.value) == message


SHORT = ("dataset.standin={train:40,val:0,test:20,steps:8,video:5,audio:4}", "dataset.batch_size=20", "rounds=2")


@pytest.mark.parametrize("algo", ["flex", "adaptive", "sync_min", "sync_max", "pbcd", "vafl"])
def test_every_algorithm_runs_on_it(algo, compose_job, run_inline):
    records = run_inline(compose_job("dataset=mosei", f"algo={algo}", *SHORT))
    assert records[-1].divergence is None
    metrics = records[-2].metrics
    assert {"test_mae", "test_corr", "test_acc7", "test_acc2_has0", "test_f1_non0"} <= set(metrics)


@pytest.fixture
def own_log():
    """Take away the handlers that a command added."""
    logger = logging.getLogger()
    handlers = list(logger.handlers)
    yield
    for handler in set(logger.handlers) - set(handlers):
        logger.removeHandler(handler)
        handler.close()


def test_the_command_says_that_it_is_synthetic(tmp_path, monkeypatch, capsys, own_log):

    monkeypatch.chdir(tmp_path)
    status = run_command(["dataset=mosei", "cluster=inline", "hydra.run.dir=run", "progress=false", *SHORT])
    text = "".join(capsys.readouterr())
    assert status == 0, text
    assert text.count("the data is SYNTHETIC") == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["data_source"], summary["metric"], summary["target"]) == ("synthetic", "test_mae", 0.65)


def test_a_rate_on_the_command_line_keeps_what_the_file_says_of_others(tmp_path, monkeypatch, capsys, own_log):

    monkeypatch.chdir(tmp_path)
    options = ["dataset=mosei", "cluster=inline", "hydra.run.dir=run", "progress=false", *SHORT, "eval_train=false"]
    status = run_command([*options, "lr={server:0.25,audio:0.125}"])
    assert status == 0, "".join(capsys.readouterr())
    with (tmp_path / "run" / "rounds.csv").open() as file:
        rates = json.loads(next(csv.DictReader(file))["lr"])
    own = OmegaConf.load(config_folder() / "dataset" / "mosei.yaml").lr
    assert rates == [own.default, 0.125, own.text, 0.25]


def test_metrics_by_hand():
    predictions = torch.tensor([0.4, -0.2, 2.5, -3.9, 0.0, 1.0])
    labels = torch.tensor([1.0, 0.0, 2.0, -3.0, -1.0, 0.0])
    found = sentiment_metrics(predictions, labels)
    # Classes of 7: 0 0 2 -3 0 1 against 1 0 2 -3 -1 0 (2.5 rounds to the even 2); of 5: 0 0 2 -2 0 1, 1 0 2 -2 -1 0.
    assert found["acc7"] == pytest.approx(3 / 6)
    assert found["acc5"] == pytest.approx(3 / 6)
    # has0: predicted + - + - + +, true + + + - - +.
    assert found["acc2_has0"] == pytest.approx(4 / 6)
    assert found["f1_has0"] == pytest.approx((4 * (6 / 8) + 2 * (2 / 4)) / 6)
    # non0, samples 0 2 3 4: predicted + + - -, true + + - -.
    assert (found["acc2_non0"], found["f1_non0"]) == (1.0, 1.0)
    assert found["corr"] == pytest.approx(np.corrcoef(predictions, labels)[0, 1])


def test_metrics_agree_with_scikit_learn():
    from sklearn.metrics import accuracy_score, f1_score

    draw = np.random.default_rng(5)
    labels = np.round(draw.normal(size=200) * 3) / 3
    predictions = labels + draw.normal(size=200)
    found = sentiment_metrics(torch.from_numpy(predictions), torch.from_numpy(labels))
    rows = labels != 0
    for name, p, y in (("has0", predictions >= 0, labels >= 0), ("non0", predictions[rows] > 0, labels[rows] > 0)):
        assert found[f"acc2_{name}"] == pytest.approx(accuracy_score(y, p))
        assert found[f"f1_{name}"] == pytest.approx(f1_score(y, p, average="weighted"))


def test_metrics_that_do_not_exist_are_nan():
    found = sentiment_metrics(torch.ones(3), torch.zeros(3))
    assert np.isnan([found["corr"], found["acc2_non0"], found["f1_non0"]]).all()
    assert found["acc2_has0"] == 1.0
