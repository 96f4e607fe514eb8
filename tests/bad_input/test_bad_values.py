"""Values of the wrong type, out of range, of the wrong number, or for nobody."""

import pytest

from flexray.config.explain import one_line
from helpers.refusals import refusal

INLINE = ("cluster=inline",)
WHOLE, POSITIVE = "expected a whole number of at least 1, got", "expected a positive number, got"
FIVE = "expected one number or 5 numbers (upper_left, upper_right, lower_left, lower_right, server), got"
FOUR = "expected one number or 4 numbers (upper_left, upper_right, lower_left, lower_right), got"

TYPES = {
    "rounds=abc": "rounds: expected a whole number, got 'abc'",
    "rounds=": "rounds: expected a whole number, got ''",
    "rounds=2.5": "rounds: expected a whole number, got '2.5'",
    "rounds=[3]": "rounds: expected a whole number, got '[3]'",
    "seed=1.5": "seed: expected a whole number, got '1.5'",
    "seed=null": "seed: expected a value, got null",
    "progress=7x": "progress: expected true or false, got '7x'",
    "stop_at_target=maybe": "stop_at_target: expected true or false, got 'maybe'",
    "lr=abc": "lr: expected a positive number, got 'abc'",
    "lr=null": "lr: expected a positive number, got null",
    "lr=nan": "lr: expected a positive number, got nan",
    "lr=inf": "lr: expected a positive number, got inf",
    "lr=true": "lr: expected a positive number, got true",
    "network.t_comm=abc": "network.t_comm: expected a number of at least 0, got 'abc'",
    "network=3": "network: expected its keys, as in --help, got '3'",
    "timeout=abc": "timeout: expected a number, got 'abc'; auto chooses one",
    "timeout=atuo": "timeout: expected a number, got 'atuo'; did you mean 'auto'?",
    "timeout=[auto]": "timeout: expected a number, got ['auto']",
    "max_time=nan": "max_time: expected a positive number, got nan",
    "target=high": "target: expected a number, got 'high'",
    "target_metric=[test_top1]": "target_metric: expected a word, got '['test_top1']'",
    "absence.probability=abc": "absence.probability: expected a number in [0, 1), got 'abc'",
    "absence.above=soon": "absence.above: expected a number above 0, up to 1, got 'soon'",
    "absence=0.3": "absence: expected its keys, as in --help, got '0.3'",
    "clip_norm=abc": "clip_norm: expected a number, got 'abc'",
    "lr_decay.milestones=3": "lr_decay.milestones: expected a list in brackets, got a value of type int",
    "lr_decay.milestones=[soon]": "lr_decay.milestones[0]: expected a whole number, got 'soon'",
    "frozen=3": "frozen: expected 'parties' or a list of participants, got 3",
    "frozen=null": "frozen: expected 'parties' or a list of participants, got null",
    "optimizer.momentum=abc": "optimizer.momentum: expected a number in [0, 1), got 'abc'",
    "optimizer.local_rates=3": "optimizer.local_rates: expected a list of positive numbers, got 3",
    "dataset.batch_size=abc": f"dataset.batch_size: {WHOLE} 'abc'",
    "dataset.batch_size=2.5": f"dataset.batch_size: {WHOLE} 2.5",
    "dataset.batch_size=null": f"dataset.batch_size: {WHOLE} null",
    "dataset.replacement=abc": "dataset.replacement: expected true or false, got 'abc'",
    "dataset.drop_last=1": "dataset.drop_last: expected true or false, got 1",
    "dataset.split_seed=abc": "dataset.split_seed: expected a whole number of at least 0, got 'abc'",
    "model.hidden=3": "upper_left: model.hidden: expected a list of positive whole numbers, got 3",
    "model.hidden=[a]": f"upper_left: model.hidden[0]: {WHOLE} 'a'",
    "model.dropout=abc": "upper_left: model.dropout: expected a number in [0, 1), got 'abc'",
    "server.weight_std=abc": "server: model.weight_std: expected a number of at least 0, got 'abc'",
    "parties.2.model.hidden=[x]": f"upper_right: model.hidden[0]: {WHOLE} 'x'",
    "parties.2.clip_norm=abc": "parties.upper_right.clip_norm: expected a positive number, got 'abc'",
    "parties.2.resources=3": "parties.2.resources: expected {name:amount}, got 3",
    "parties.2.optimizer.momentum=abc": "parties.upper_right.optimizer: optimizer.momentum: expected a number",
    "cluster.resources={tpu:many}": "cluster.resources",
}
RANGES = {
    "timeout=-1": f"timeout: {POSITIVE} -1",
    "timeout=0": f"timeout: {POSITIVE} 0",
    "max_failures=-1": "max_failures: expected a whole number of at least 0, got -1",
    "stall_timeout=0": f"stall_timeout: {POSITIVE} 0",
    "cluster.address=ray://127.0.0.1:10001": "cluster.address: expected auto or HOST:PORT of the cluster's head node",
    "target=90": "target: expected at most 1, which is all of test_top1, got 90",
    "target=-1": "target: expected at least 0, the least of test_top1, got -1",
    "rounds=0": f"rounds: {WHOLE} 0",
    "rounds=-1": f"rounds: {WHOLE} -1",
    "epochs=0": f"epochs: {POSITIVE} 0",
    "epochs=-0.5": f"epochs: {POSITIVE} -0.5",
    "max_time=0": f"max_time: {POSITIVE} 0",
    "max_time=-3": f"max_time: {POSITIVE} -3",
    "dataset.batch_size=0": f"dataset.batch_size: {WHOLE} 0",
    "dataset.batch_size=-1": f"dataset.batch_size: {WHOLE} -1",
    "dataset.batch_size=5000": "dataset.batch_size: expected 1 to 1258 (the number of training samples), got 5000",
    "lr=0": f"lr: {POSITIVE} 0",
    "lr=-0.1": f"lr: {POSITIVE} -0.1",
    "lr=[0.1,0.1,-1,0.1,0.1]": f"lr[2]: {POSITIVE} -1",
    "lr={default:0.1,server:0}": f"lr.server: {POSITIVE} 0",
    "embedding=0": f"embedding: {WHOLE} 0",
    "embedding=-4": f"embedding: {WHOLE} -4",
    "party_threads=0": f"party_threads: {WHOLE} 0",
    "eval_every=0": f"eval_every: {WHOLE} 0",
    "eval_every=-1": f"eval_every: {WHOLE} -1",
    "seed=-1": "seed: expected a whole number of at least 0, got -1",
    "clip_norm=0": f"clip_norm: {POSITIVE} 0",
    "lr_decay.factor=0": "lr_decay.factor: expected a number above 0, up to 1, got 0",
    "timeline_rounds=-1": "timeline_rounds: expected a whole number of at least 0, got -1",
    "network.t_comm=-1": "network.t_comm: expected a number of at least 0, got -1",
    "absence.probability=1": "absence.probability: expected a number in [0, 1), got 1",
    "absence.probability=-0.1": "absence.probability: expected a number in [0, 1), got -0.1",
    "absence.probability=[0,0.5,1.5,0]": "absence.probability[2]: expected a number in [0, 1), got 1.5",
    "absence.probability={lower_left:2}": "absence.probability.lower_left: expected a number in [0, 1), got 2",
    "absence.above=0": "absence.above: expected a number above 0, up to 1, got 0",
    "absence.above=1.5": "absence.above: expected a number above 0, up to 1, got 1.5",
    "absence.sample=0": "absence.sample: expected a whole number of at least 1, got 0",
    "absence.sample=5": "absence.sample: expected a whole number of at most 4, got 5",
    "absence.above=85": "absence.above: expected a number above 0, up to 1, got 85",
    "optimizer.momentum=1": "optimizer.momentum: expected a number in [0, 1), got 1",
    "optimizer.momentum=-0.1": "optimizer.momentum: expected a number in [0, 1), got -0.1",
    "optimizer.proximal=-1": "optimizer.proximal: expected a number of at least 0, got -1",
    "model.hidden=[0]": f"upper_left: model.hidden[0]: {WHOLE} 0",
    "model.dropout=1": "upper_left: model.dropout: expected a number in [0, 1), got 1",
    "dataset.test_fraction=1": "dataset.test_fraction: expected a number above 0 and below 1, got 1",
    "dataset.test_fraction=null": "dataset.test_fraction: expected a number above 0 and below 1, got null",
    "dataset.val_fraction=null": "dataset.val_fraction: expected a number in [0, 1), got null",
    "speeds.utilization=1.1": "speeds.utilization: expected a number from 0 to 1, got 1.1",
    "speeds.utilization=50": "speeds.utilization: expected a number from 0 to 1, got 50",
    "speeds.utilization=-0.1": "speeds.utilization: expected a number from 0 to 1, got -0.1",
    "speeds.iterations=0": f"speeds.iterations: {POSITIVE} 0",
    "speeds.unit_time=0": f"speeds.unit_time: {POSITIVE} 0",
    "cluster.num_cpus=0": f"cluster.num_cpus: {WHOLE} 0",
    "cluster.parties_per_actor=0": f"cluster.parties_per_actor: {WHOLE} 0",
    "cluster.cpus_per_party=-1": "cluster.cpus_per_party: expected a number of at least 0, got -1",
    "cluster.cpus_server=-1": "cluster.cpus_server: expected a number of at least 0, got -1",
}
PARTICIPANTS = {
    "lr=[0.1,0.2]": f"lr: {FIVE} 2 of them",
    "lr=[1,1,1,1,1,1]": f"lr: {FIVE} 6 of them",
    "lr=[]": f"lr: {FIVE} 0 of them",
    "adaptive.A=[1,2]": f"adaptive.A: {FIVE} 2 of them",
    "network.t_comm=[1,2]": f"network.t_comm: {FOUR} 2 of them",
    "network.t_comm=[1,2,3,4,5]": f"network.t_comm: {FOUR} 5 of them",
    "absence.probability=[0.1,0.2]": f"absence.probability: {FOUR} 2 of them",
    "absence.above=[0.1,0.2,0.3,0.4,0.5]": f"absence.above: {FOUR} 5 of them",
    "absence.probability={server:0.1}": "absence.probability: unknown participant 'server'; expected one of: 1 to 4, ",
    "absence.above={uper_left:0.9}": "absence.above: unknown participant 'uper_left'; did you mean 'upper_left'?",
    "speeds.iterations=[5,10]": f"speeds.iterations: {FIVE} 2 of them",
    "speeds.unit_time=[1,2,3]": f"speeds.unit_time: {FIVE} 3 of them",
    "speeds.utilization=[0.1,0.2,0.3]": f"speeds.utilization: {FIVE} 3 of them",
    "cluster.cpus_per_party=[1,2]": f"cluster.cpus_per_party: {FOUR} 2 of them",
    "cluster.gpus_per_party=[1]": f"cluster.gpus_per_party: {FOUR} 1 of them",
    "lr={uper_left:1,default:1}": "lr: unknown participant 'uper_left'; did you mean 'upper_left'?",
    "lr={5:1,default:1}": "lr: unknown participant '5'; expected one of: 1 to 4, lower_left, ",
    "lr={upper_left:1}": "lr: no number for 'upper_right'; name it, or give 'default'",
    "lr={1:0.1,upper_left:0.2,default:1}": "lr: 'upper_left' is given twice, as 1 and upper_left",
    "network.t_comm={server:1,default:1}": "network.t_comm: unknown participant 'server'; expected one of: 1 to 4, ",
    "network.t_comm={1:1,2:1,3:1}": "network.t_comm: no number for 'lower_right'; name it, or give 'default'",
    "speeds.utilization={someone:0.5}": "speeds.utilization: unknown participant 'someone'",
    "frozen=[nobody]": "frozen: unknown participant 'nobody'; expected one of: 1 to 4, lower_left, ",
    "frozen=nobody": "frozen: unknown participant 'nobody'",
    "frozen=[1,2,3,4,server]": "frozen: everybody is; expected at least one participant that computes",
    "parties={1:{clip_norm:1}}": "parties.1: expected a name in braces, got a number; outside of braces, parties.1.",
}
WORDS = {
    "target_metric=test_f1": "target_metric: unknown metric 'test_f1'; expected one of: test_loss, test_top1, ",
    "target_metric=test_mae": "target_metric: unknown metric 'test_mae'; expected one of: test_loss, test_top1, ",
    "rates=statik": "rates: unknown value 'statik'; did you mean 'static'?",
    "labels_at=sever": "labels_at: unknown value 'sever'; did you mean 'server'?",
    "labels_at=uper_left": "labels_at: unknown value 'uper_left'; did you mean 'upper_left'?",
    "labels_at=5": "labels_at: unknown value 5; expected one of: 1 to 4, all, lower_left, ",
    "dtype=float16": "dtype: expected float32 or float64, got 'float16'",
    "model.activation=[relu]": "upper_left: model.activation: unknown '['relu']'; did you mean 'relu'?",
    "model.activation=rellu": "upper_left: model.activation: unknown 'rellu'; did you mean 'relu'?",
    "cluster.kind=spark": "cluster.kind: unknown 'spark'; expected one of: inline, local, packed, ray",
    "speeds.kind=papr": "speeds.kind: unknown 'papr'; did you mean 'paper'?",
}


UNREAD = {
    "algo=adaptive lr=0.1": "lr: not used with algo=adaptive; adaptive.A would",
    "rates=static lr=0.1": "lr: not used with rates=static; adaptive.A would",
    "algo=adaptive rates=static": "rates: not used with algo=adaptive",
    "adaptive.A=0.5": "adaptive.A: not used with algo=flex; algo=adaptive or rates=static would",
    "rates=static adaptive.A=0.5": "",
    "timeout=auto adaptive.A=0.5": "",
    "adaptive.first=dummy": "adaptive.first: not used with algo=flex; algo=adaptive would",
    "algo=vafl timeout=5": "timeout: not used with algo=vafl",
    "algo=pbcd timeout=5 absence.probability=0.1": "",
    "algo=efvfl timeout=5": "timeout: not used with algo=efvfl",
    "network.error_feedback=true": "network.error_feedback: not used with network.top_k=1; network.top_k or"
    " network.bits would",
    "algo=vafl network.error_feedback=true network.bits=4": "",
    "lr_decay.factor=0.5": "lr_decay.factor: not used with lr_decay.milestones=[]",
    "parties.a.lr_decay.milestones=[3] lr_decay.factor=0.5": "",
    "logger.project=mine": "logger.project: not used with logger=none; logger=mlflow or wandb would",
    "cluster.num_cpus=3": "cluster.num_cpus: not used with cluster=inline; cluster=local or packed would",
    "cluster.resources.tpu=1": "cluster.resources.tpu: not used with cluster=inline",
    "max_failures=1": "max_failures: not used with cluster=inline",
    "dataset.split_seed=1 seed=2 timeout=10 lr=0.1": "",
    "speeds.path=mine.parquet": "speeds.path: not used with speeds=paper; speeds=trace would",
    "speeds.machines={upper_left:m}": "speeds.machines: not used with speeds=paper; speeds=trace would",
    "speeds.advance=banana": "speeds.advance: not used with speeds=paper; speeds=trace would",
    "speeds.sample_units=5": "speeds.sample_units: not used with speeds=paper; speeds=trace would",
    "speeds=uniform speeds.at_end=hold": "speeds.at_end: not used with speeds=uniform; speeds=trace would",
    "speeds=trace speeds.sample_units=5": "speeds.sample_units: not used with speeds.advance=round; speeds.advance=time"
    " would",
}


@pytest.mark.parametrize("words", UNREAD)
def test_what_is_typed_and_not_read_is_told(words, run):
    outcome = run("rounds=1", *words.split())
    assert outcome.status == 0
    assert [line for line in outcome.text.splitlines() if "not used" in line] == [*filter(None, [UNREAD[words]])]


@pytest.mark.parametrize("refused", [TYPES, RANGES, PARTICIPANTS, WORDS], ids=["type", "range", "participants", "word"])
def test_a_value_is_refused_in_one_line_by_the_whole_command(command, refused):
    for argument in (next(iter(refused)), next(reversed(refused))):
        command(argument).assert_refused(f"flexray: {refused[argument]}")


def assert_refused(command, arguments, line):
    """Models are made by participants, after the job was built."""
    if any("model" in argument or argument.startswith("server") for argument in arguments):
        command(*arguments).assert_refused(f"flexray: {line}")
    else:
        said = refusal(INLINE, arguments)
        assert said is not None, arguments
        assert one_line(said).startswith(line), arguments


@pytest.mark.parametrize("argument", TYPES)
def test_a_value_of_the_wrong_type_is_named_with_what_was_expected(command, argument):
    assert_refused(command, [argument], TYPES[argument])


@pytest.mark.parametrize("argument", RANGES)
def test_a_number_out_of_range_is_named_with_the_range(command, argument):
    assert_refused(command, [argument], RANGES[argument])


@pytest.mark.parametrize("argument", PARTICIPANTS)
def test_lists_and_mappings_must_fit_the_participants(command, argument):
    assert_refused(command, [argument], PARTICIPANTS[argument])


@pytest.mark.parametrize("argument", WORDS)
def test_an_unknown_word_is_named_with_the_known_ones(command, argument):
    assert_refused(command, [argument], WORDS[argument])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("speeds.iterations=5", "speeds.unit_time=2"),
            "speeds.unit_time: given together with speeds.iterations; expected one of them",
        ),
        (
            ("speeds=trace", "speeds.utilization={1:0.5}", "speeds.machines={upper_left:machine_000}"),
            "speeds.utilization: 'upper_left' has a machine, too, in speeds.machines; expected one of them",
        ),
        (("target=null", "stop_at_target=true"), "stop_at_target: there is no target to stop at; expected one"),
        (("rounds=null", "epochs=null"), "rounds: none of rounds, epochs and max_time is given; expected at least one"),
        (("max_failures=-1",), "max_failures: expected a whole number of at least 0, got -1"),
        (("adaptive.first=dumy",), "adaptive.first: unknown value 'dumy'; did you mean 'dummy'?"),
        (("eval_train=false", "target_metric=train_loss"), "target_metric: unknown metric 'train_loss'; expected one"),
        (("optimizer=adam", "optimizer.name=Adamm"), "optimizer.name: expected a class of torch.optim such as 'Adam'"),
        (("optimizer=adam", "+optimizer.betass=[1,2]"), "optimizer (Adam): Adam.__init__() got an unexpected"),
        (("optimizer=adam", "optimizer.keep_state=x"), "optimizer.keep_state: expected true or false, got 'x'"),
        (
            ("model=cnn", "model.channels=[0]"),
            "upper_left: model.channels[0]: expected a whole number of at least 1, got 0",
        ),
        (("server=mlp", "server.activation=rellu"), "server: model.activation: unknown 'rellu'; did you mean 'relu'?"),
        (
            ("algo=vafl", "absence.above=0.9"),
            "absence.above: parties take turns and have no rounds to miss; expected an algo of rounds, not vafl",
        ),
        (
            ("clock=wall", "absence.probability={1:0.5}"),
            "absence.probability: absence is simulated on the virtual clock alone; expected clock=virtual",
        ),
        (
            ("labels_at=2", "network.latency=1"),
            "labels_at: network.t_comm and network.bandwidth alone time the way of a prediction to upper_right and",
        ),
        (
            ("labels_at=2", "absence.probability=0.1"),
            "labels_at: upper_right may miss rounds, and without labels nobody learns; expected a party that does not",
        ),
        (("algo=vafl", "algo.max_ahead=-1"), "algo.max_ahead: expected a whole number of at least 0, got -1"),
        (("algo=vafl", "algo.max_ahead=few"), "algo.max_ahead: expected a whole number of at least 0, got 'few'"),
        (
            ("algo=vafl", "algo.max_ahead=1", "clock=wall"),
            "algo.max_ahead: parties wait on the virtual clock alone; expected null, got 1",
        ),
        (
            ("algo=pbcd", "timeout=auto"),
            "timeout: PBCD has none to choose; expected null, or an algo with a timeout (flex, adaptive, sync_min,",
        ),
        (("algo=vafl", "timeout=auto"), "timeout: VAFL has none to choose; expected null, or an algo with a timeout"),
        (("clock=wall", "timeout=auto"), "timeout: auto plans with known seconds; expected a number with clock=wall"),
        (("rates=static", "timeout=auto"), "rates: static rates are those of one timeout; expected fixed with"),
        (
            ("algo=adaptive", "adaptive.weighted=false", "timeout=auto"),
            "adaptive.weighted: the published rule starts from one timeout; expected true with timeout=auto, got false",
        ),
        (
            ("parties.1.clip_norm=1", "parties.upper_left.clip_norm=2"),
            "parties.upper_left: 'upper_left' is given twice, by",
        ),
    ],
)
def test_values_that_do_not_go_together(command, arguments, line):
    assert_refused(command, arguments, line)


AT_REST = "speeds.utilization={b:1,default:0.5}"


@pytest.mark.parametrize("algo", ["flex", "adaptive", "sync_min"])
def test_a_party_without_free_cpu_takes_one_iteration_and_is_named(command, bundle, algo):
    outcome = command(
        "dataset=bundle", f"dataset.path={bundle}", "dataset.batch_size=8", f"algo={algo}", "rounds=1", AT_REST
    )
    assert (outcome.status, outcome.errors) == (0, [])
    assert "speeds: utilizations above speeds.max_utilization count as 0.99: b" in outcome.text
    tau = (outcome.folder / "rounds.csv").read_text().splitlines()[1]
    assert tau.split('"')[1] == {"sync_min": "[1, 1, 1, 1]"}.get(algo, "[2, 1, 7, 10]"), tau
