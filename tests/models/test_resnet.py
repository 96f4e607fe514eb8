"""torchvision's ResNets as encoders, with pretrained weights from a file, and batch normalization in a run."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from flexray.core.errors import ConfigError, DataError
from flexray.models import build_module
from flexray.models.resnet import ResNet

SHAPE = (3, 16, 16)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Return files of one set of weights of torchvision's own resnet18."""
    from torchvision.models import resnet18

    torch.manual_seed(1)
    state = resnet18(num_classes=1000).state_dict()
    folder = tmp_path_factory.mktemp("weights")
    torch.save(state, folder / "w.pth")
    torch.save({"state_dict": {f"module.{key}": value for key, value in state.items()}}, folder / "parallel.pth")
    save_file(state, folder / "w.safetensors")
    return folder, state


@pytest.mark.parametrize("shape", [SHAPE, (1, 16, 16), (16, 16)])
def test_channels_and_width(shape):
    model = build_module(ResNet, in_shape=shape, out_features=128)
    assert model.net.conv1.in_channels == (3 if len(shape) == 3 and shape[0] == 3 else 1)
    assert model(torch.rand(2, *shape)).shape == (2, 128)


def test_depth_50_has_the_parameters_of_he_et_al():
    model = ResNet(SHAPE, 1000, depth=50)
    assert sum(p.numel() for p in model.parameters()) == 25_557_032


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors", "parallel.pth", "old.pth"])
def test_pretrained_weights_but_for_the_last_layer(pretrained, name):
    folder, state = pretrained
    torch.save({key: value for key, value in state.items() if "num_batches" not in key}, folder / "old.pth")
    torch.manual_seed(5)
    plain = ResNet(SHAPE, 7)
    torch.manual_seed(5)
    model = ResNet(SHAPE, 7, weights=folder / name)
    own = model.net.state_dict()
    kept = [key for key in state if not key.startswith("fc.") and not (name == "old.pth" and "num_batches" in key)]
    assert all(torch.equal(own[key], state[key]) for key in kept)
    assert torch.equal(model.net.fc.weight, plain.net.fc.weight)


def test_one_channel_sees_what_three_equal_channels_see(pretrained):
    folder, _ = pretrained
    grey = ResNet((1, 16, 16), 7, weights=folder / "w.pth").eval()
    colour = ResNet(SHAPE, 7, weights=folder / "w.pth").eval()
    colour.net.fc = grey.net.fc
    x = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(grey(x), colour(x.expand(2, *SHAPE)), rtol=1e-4, atol=1e-5)


class Hostile:
    def __reduce__(self):
        return (pytest.fail, ("it ran",))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"depth": 20}, "model.depth: expected one of 18, 34, 50, 101, 152, got 20"),
        ({"in_shape": (2, 16, 16)}, "model: ResNet expects pictures of 1 or 3 channels, got 2"),
        ({"in_shape": (16,)}, "model: ResNet expects samples of shape"),
        ({"weights": "/nowhere.pth"}, "model.weights: /nowhere.pth: no such file; expected weights of a torchvision"),
        ({"depth": 34, "weights": "w.pth"}, "w.pth: 'layer1.2.conv1.weight' does not fit; expected the weights of"),
        ({"depth": 50, "weights": "w.safetensors"}, "does not fit; expected the weights of torchvision's resnet50"),
        ({"weights": "other.pth"}, "other.pth: holds no 'conv1.weight'; expected weights of a torchvision ResNet"),
        (
            {"weights": "number.pth"},
            "number.pth: 'bn1.weight' does not fit; expected the weights of torchvision's resnet18",
        ),
        ({"weights": "cut.pth"}, "cut.pth: cannot be read; expected weights"),
        ({"weights": "cut.safetensors"}, "cut.safetensors: cannot be read; expected weights"),
        ({"weights": "hostile.pth"}, "hostile.pth: cannot be read; expected weights"),
    ],
)
def test_mistakes_are_named_and_nothing_in_a_file_is_run(pretrained, arguments, words):
    folder, _ = pretrained
    torch.save(nn.Linear(2, 2).state_dict(), folder / "other.pth")
    torch.save({**torch.load(folder / "w.pth"), "bn1.weight": 3}, folder / "number.pth")
    for name in ("w.pth", "w.safetensors"):
        (folder / name.replace("w.", "cut.")).write_bytes((folder / name).read_bytes()[:5000])
    (folder / "hostile.pth").write_bytes(pickle.dumps({"conv1.weight": Hostile()}))
    given = {"in_shape": SHAPE, "out_features": 4} | arguments
    if "weights" in given:
        given["weights"] = folder / given["weights"]
    with pytest.raises((ConfigError, DataError)) as caught:
        ResNet(**given)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def run_with(compose_job, run_inline, train, test, *more):
    sizes = [f"dataset.synthetic_train={train}", f"dataset.synthetic_test={test}", "dataset.batch_size=4"]
    shape = ["target_metric=test_top1", "dataset.views=2", "dataset.size=8", "dataset.num_classes=2", "embedding=3"]
    return run_inline(compose_job("dataset=modelnet40", "epochs=1", "timeout=3", *sizes, *shape, *more))


@pytest.mark.parametrize(("model", "algo"), [("resnet", "pbcd"), ("strided_cnn", "flex"), ("strided_cnn", "vafl")])
def test_a_last_batch_of_one_sample_under_batch_normalization(compose_job, run_inline, algo, model):
    """In training it joins the batch before; an evaluation of 257 samples is cut as 256 + 1 elsewhere."""
    ended = run_with(compose_job, run_inline, 9, 257 if model == "strided_cnn" else 5, f"model={model}", f"algo={algo}")
    assert ended[-1].divergence is None
    assert ended[-2].metrics["test_loss"] > 0


@pytest.mark.parametrize("model", ["resnet", "strided_cnn"])
def test_batches_of_one_sample_are_refused_where_batch_normalization_cannot_train_on_them(
    compose_job, run_inline, model
):
    words = f"model={model}", "dataset.batch_size=1"
    if model == "strided_cnn":  # pictures of 8 x 8 end as several positions of a channel
        assert run_with(compose_job, run_inline, 4, 2, *words)[-1].divergence is None
        return
    message = r"^dataset.batch_size: batch normalization of view_01 cannot train on one sample; expected at least 2$"
    with pytest.raises(ConfigError, match=message):
        run_with(compose_job, run_inline, 4, 2, *words)


def test_an_evaluation_of_one_sample_and_of_a_chunk_more(compose_job):
    from flexray.engine.parties.party import Party

    job = compose_job("dataset=modelnet40", "dataset.synthetic_test=257", "dataset.synthetic_train=8", "dataset.size=8",
                      "dataset.batch_size=4", "embedding=3")  # fmt: skip
    shared = job.experiment.shared
    party = Party(job.experiment.parties[0], shared)
    assert party.embed_split("test", 256).shape == (257, 3)
    whole = party.embed_split("test", 1000, mode="train")
    assert whole.shape == (257, 3)
    assert party.embed_split("train", 7, mode="train").shape == (8, 3)


def test_running_statistics_follow_embedding_and_every_iteration_alike_each_time(compose_job, run_inline):
    states = [run_with(compose_job, run_inline, 8, 4, "model=strided_cnn")[-1].states for _ in range(2)]
    for name in ("view_01", "view_02"):
        counts = [state[name]["layers.1.num_batches_tracked"] for state in states]
        assert counts[0] == counts[1] > 2
        for key in states[0][name]:
            assert (states[0][name][key] == states[1][name][key]).all()
