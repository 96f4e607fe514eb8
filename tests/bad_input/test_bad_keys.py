"""Groups, choices and keys that do not exist, and arguments that are not key=value."""

import pytest

from flexray import predict
from flexray.core.errors import ConfigError

UNKNOWN = {
    "algo=flxe": "algo: unknown choice 'flxe'; did you mean 'flex'?",
    "dataset=digit": "dataset: unknown choice 'digit'; did you mean 'digits'?",
    "speeds=papr": "speeds: unknown choice 'papr'; did you mean 'paper'?",
    "cluster=lokal": "cluster: unknown choice 'lokal'; did you mean 'local'?",
    "clock=wrist": "clock: unknown choice 'wrist'; expected one of: ",
    "model=mpl": "model: unknown choice 'mpl'; did you mean 'mlp'?",
    "server=": "server: unknown choice ''; expected one of: laser, linear, mlp",
    "optimizer=momentun": "optimizer: unknown choice 'momentun'; did you mean 'momentum'?",
    "hydra/launcher=slurm": "hydra/launcher: unknown choice 'slurm'",
    "algo=null": "algo: unknown choice 'null'; expected one of: adaptive, bsvfl, cvfl, ",
    "algo=3": "algo: unknown choice '3'; expected one of: adaptive, bsvfl, cvfl, ",
    "algo=[flex,vafl]": "algo: expected one choice",
    "experiment=mosi": "experiment: expected +experiment=NAME, with a plus; one of: ",
    "algos=flex": "algos: unknown key; did you mean 'algo'?",
    "roundz=3": "roundz: unknown key; did you mean 'rounds'?",
    "+roundz=3": "roundz: unknown key; did you mean 'rounds'?",
    "Seed=3": "Seed: unknown key; did you mean 'seed'?",
    "wombat=3": "wombat: unknown key",
    "+wombat=3": "wombat: unknown key",
    "dataset.batch_sise=3": "dataset.batch_sise: unknown key; did you mean 'dataset.batch_size'?",
    "batch_size=3": "batch_size: unknown key; did you mean 'dataset.batch_size'?",
    "optimizer.momentun=0.1": "optimizer.momentun: unknown key; did you mean 'optimizer.momentum'?",
    "network.tcomm=1": "network.tcomm: unknown key; did you mean 'network.t_comm'?",
    "+network.tcomm=1": "network.tcomm: unknown key; did you mean 't_comm'?",
    "adaptive.a=1": "adaptive.a: unknown key; did you mean 'adaptive.A'?",
    "cluster.cpus=1": "cluster.cpus: unknown key; did you mean 'cluster.",
    "hydra.run.dir=": "hydra.run.dir: expected a folder, got nothing",
    "hydra.run.dir=''": "hydra.run.dir: expected a folder, got ''",
    "hydra.run.dir=null": "hydra.run.dir: expected a folder, got null",
    "hydra.sweep.dir=": "hydra.sweep.dir: expected a folder, got nothing",
    "hydra.sweep.subdir=": "hydra.sweep.subdir: expected a folder, got nothing",
    "hydra.run.dirr=x": "hydra.run.dirr: unknown key; did you mean 'hydra.run.dir'?",
    "+dataset.foo=1": "dataset.foo: unknown key of Digits; expected one of: split_seed, test_fraction, val_fraction",
    "+algo.foo=1": "algo.foo: unknown key of FlexVFL",
    "+model.hiden=[3]": "model.hiden: unknown key of MLP; did you mean 'hidden'?",
    "dataset.path=data": "dataset.path: unknown to the chosen dataset; expected another dataset, or +dataset.path=",
    "dataset.parties={a:[b]}": "dataset.parties: unknown key of Digits",
    "parties.upper_lft.optimizer.momentum=0": "parties: unknown participant 'upper_lft'; did you mean 'upper_left'?",
    "parties.9.model.hidden=[3]": "parties: unknown participant '9'; expected one of: 1 to 4, lower_left, ",
    "parties.1.optimiser.momentum=0": "parties.1.optimiser: unknown key; did you mean 'optimizer'?",
    "parties.1.model.hiden=[3]": "parties.upper_left.model.hiden: unknown key of MLP; did you mean 'hidden'?",
    "parties.upper_left=3": "parties.upper_left: expected keys such as model, optimizer, clip_norm, ",
    "parties.1.model=cnnn": "parties.1.model: unknown choice 'cnnn'; did you mean 'cnn'?",
    "parties.1.model=3": "parties.1.model: unknown choice 3; expected one of: bert, cnn, ",
    "parties.1.optimizer=SGD": "parties.1.optimizer: unknown choice 'SGD'; did you mean 'sgd'?",
    "parties.server.model=lstm": "parties.server.model: unknown choice 'lstm'; expected one of: laser, linear, mlp",
    "parties.upper_left.model={9:1}": "parties.upper_left.model.9: expected the name of an argument, got 9",
    "algo=[1]": "algo: unknown choice '[1]'; expected one of: adaptive, bsvfl, cvfl, ",
    "cluster=[[1]]": "cluster: unknown choice '[[1]]'; expected one of: inline, local, ",
    "model=[-1,1]": "model: unknown choice '[-1, 1]'; expected one of: bert, cnn, ",
    "optimizer=SGD": "optimizer: unknown choice 'SGD'; did you mean 'sgd'?",
    "algo.gain=2": "algo.gain: unknown key of the chosen algo; a class of yours is algo._target_=mine.Class",
    "adaptive=${seed}": "adaptive: expected its keys, as in --help, got 0",
    "parties=${seed}": "parties: expected its keys, as in --help, got 0",
    "parties=3": "parties: expected a mapping {name:value}",
    "lr.upper_left=0.1": "lr.upper_left: lr is a single key; by participant it is given as lr={NAME:value,",
    "speeds.utilization.1=0": "speeds.utilization.1: speeds.utilization is a single key; by participant",
    "~seed": "seed: deleted with ~; expected a value",
    "~network.t_comm": "network.t_comm: cannot be deleted; expected a value",
    "~algo": "algo: expected one choice",
    "~model": "model: expected a mapping with _target_",
    "~wombat": "wombat: unknown key",
    "+seed=3": "seed: is there already; expected it without +",
    "+optimizer=sgd": "optimizer: is chosen already; expected optimizer=choice without +",
    "lr=${lt}": "lr: Interpolation key 'lt' not found",
    "lr=${oc.env:NO_SUCH_VARIABLE}": "lr: ",
}


@pytest.mark.parametrize("argument", UNKNOWN)
def test_what_does_not_exist_is_named_with_the_nearest_thing_that_does(command, argument):
    command(argument).assert_refused(f"flexray: {UNKNOWN[argument]}")


@pytest.mark.parametrize(
    ("argument", "line"),
    [
        ("rounds", "rounds: expected key=value"),
        ("=3", "=3: expected key=value, got no key"),
        ("+=3", "+=3: expected key=value, got no key"),
        ("lr=[1,", "lr=[1,: cannot be read; expected key=value"),
        ("lr={a", "lr={a: cannot be read; expected key=value"),
        (f"lr={'[' * 500}{']' * 500}", "lr: nested too deeply; expected at most 20 brackets in one another"),
        (f"lr={'[' * 30}{']' * 30}", "lr: nested too deeply; expected at most 20 brackets in one another"),
        (f"lr=1{'0' * 5000}", "lr: expected a number of at most 19 digits, got more"),
        (
            "dataset.parties={a:[city_Zürich]}",
            "dataset.parties={a:[city_Zürich]}: cannot be read; expected words of other"
            " letters than a to z in quotes, 'city_Zürich', then the shell's",
        ),
        ("lr=(1,2)", "lr=(1,2): cannot be read; expected key=value"),
        ("lr=0.1 seed=2", "lr=0.1 seed=2: cannot be read; expected key=value"),
        ("rounds=3=4", "rounds=3=4: cannot be read; expected key=value"),
        ("'rounds=3", "'rounds=3: cannot be read; expected key=value"),
        ("/algo=flex", "/algo=flex: cannot be read; expected key=value"),
        ("rounds=10,20", "rounds: got several values, 10,20; a list is [10,20], a sweep needs -m"),
        ("algo=flex,vafl", "algo: got several values, flex,vafl; "),
        ("--rounds=3", "--rounds=3: expected rounds=3, without dashes"),
        ("--eval-every", "--eval-every: expected eval_every=VALUE, without dashes"),
        ("--wombat=3", "unrecognized arguments: --wombat=3; options (see --help) go before or after all key=value"),
        ("-x", "unrecognized arguments: -x"),
        ("--config-name=setup", "Cannot find primary config 'setup'"),
        ("--config-dir=/no/such", "Additional config directory '/no/such' not found"),
        ("--cfg=everything", "argument --cfg/-c: invalid choice: 'everything'"),
    ],
)
def test_what_is_not_key_and_value_is_quoted(command, argument, line):
    command(argument).assert_refused(f"flexray: {line}")


def test_a_sweep_over_a_choice_that_does_not_exist_starts_no_job(command, tmp_path):
    outcome = command("-m", "algo=flex,flxe", f"hydra.sweep.dir={tmp_path / 'sweep'}")
    outcome.assert_refused("algo: unknown choice 'flxe'; did you mean 'flex'?")
    assert not list(tmp_path.glob("sweep/*/run.log"))


def test_help_names_groups_and_common_keys(command):
    outcome = command("--help", "algo=vafl")
    assert outcome.status == 0
    for line in (
        "algo: adaptive, bsvfl, cvfl, ",
        "dataset: bundle, ",
        "rounds, epochs, max_time",
        "dataset.path",
        "VAFL",
    ):
        assert line in outcome.text
    assert outcome.text.count("hydra/") == outcome.text.count("hydra/launcher=ray") == 1  # none of Hydra's own groups
    lines = [line for line in outcome.text.splitlines() if not line.startswith("experiment: ")]  # there are many
    assert max(map(len, lines)) <= 120
    assert not outcome.folder.exists()


def test_version_is_printed(command):
    outcome = command("--version")
    assert (outcome.status, outcome.errors) == (0, [])
    assert "1.3" in outcome.text


@pytest.mark.parametrize(
    "argument", ["cluster.resources={tpu:1}", "cluster.resources.tpu=1", "parties.1.resources.tpu=1", "parties={}"]
)
def test_new_keys_below_an_open_mapping_need_no_plus(command, bundle, argument):
    outcome = command("dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", "rounds=1", argument)
    assert (outcome.status, outcome.errors) == (0, [])


@pytest.mark.parametrize("value", ["{a", "[1,", f"{'[' * 500}{']' * 500}", "a: b: c", "'a", "${", f"1{'0' * 5000}"])
def test_a_value_of_predict_that_cannot_be_read_is_named(value):
    with pytest.raises(ConfigError, match=r"^dataset.val_fraction") as caught:
        predict._parsed(f"dataset.val_fraction={value}", value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lr=[2]", "lr.a=1"], "lr.a: lr was typed, too, as [2]; expected one of them"),
        (
            ["parties.a.optimizer=[2]", "parties.a.optimizer=sgd"],
            "parties.a.optimizer: parties.a.optimizer was typed, too",
        ),
        (["parties.a.model=3", "parties.a.model.hidden=[2]"], "parties.a.model: unknown choice 3; expected one of: "),
    ],
)
def test_a_key_below_a_value_is_refused_by_name(command, arguments, line):
    command("dataset.batch_size=8", *arguments).assert_refused(f"flexray: {line}")
