"""Classes of the user's own: what they do wrong is told once, with the party and the round; what they may do, works."""

import pytest

pytestmark = pytest.mark.usefixtures("compose_once")

SMALL = ("dataset.batch_size=8", "rounds=4", "server=linear", "optimizer=momentum")
OWN_MODEL = "model._target_=own.Model"

MODEL = """
    import torch
    from torch import nn

    class TwoArguments(Exception):
        def __init__(self, code, reason):
            super().__init__(f"{code} {reason}")

    class Model(nn.Module):
        def __init__(self, in_features, out_features):
            super().__init__()
            self.linear = nn.Linear(in_features, out_features)
            self.batches = 0

        def forward(self, x):
            self.batches += self.training and not torch.is_grad_enabled()
            return self.linear(x)

    def make(out_features):
        return "model"
"""
FORWARD = "            return self.linear(x)\n"


@pytest.fixture
def run(command, bundle):
    """Return a function that runs a small bundle of parties a, b and c."""

    def small(*arguments):
        return command("dataset=bundle", f"dataset.path={bundle}", *SMALL, *arguments)

    return small


def own(forward=FORWARD, text=MODEL):
    assert FORWARD in text
    return text.replace(FORWARD, "".join(f"            {line}\n" for line in forward.strip().splitlines()))


def broken(line):
    return MODEL.replace(
        "            super().__init__()\n            self.linear", f"            {line}\n            x"
    )


IN_ROUND_3 = "if self.training and self.batches == 3: {}\nreturn self.linear(x)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (broken("raise KeyError('weights')"), "a failed in construction: KeyError: 'weights'"),
        (broken("raise ValueError"), "a failed in construction: ValueError"),
        (broken("raise TwoArguments(7, 'no')"), "a failed in construction: TwoArguments: 7 no"),
        (own("raise TwoArguments(7, 'no')"), "a failed in a first forward pass: TwoArguments: 7 no"),
        (own(IN_ROUND_3.format("x / []")), "a failed in round 3: TypeError: unsupported operand type"),
        (own(IN_ROUND_3.format("raise TwoArguments(7, 'no')")), "a failed in round 3: TwoArguments: 7 no"),
        (own(IN_ROUND_3.format("raise ValueError('one\\ntwo')")), "a failed in round 3: ValueError: one"),
        (own(IN_ROUND_3.format("return self.linear(x)[:, 1:]")), "a failed in round 3: ValueError: its model returned"),
        (own(IN_ROUND_3.format("return None")), "a failed in round 3: "),
    ],
)
def test_a_model_that_raises_is_told_once_with_party_and_round(run, write_module, text, line):
    write_module("own", text)
    outcome = run(OWN_MODEL)
    outcome.assert_broke(f"flexray: {line}")
    if "model returned" not in line and "None" not in text:
        assert "own.py" in outcome.text


@pytest.mark.parametrize(
    ("forward", "found"),
    [
        ("return self.linear(x)[0]", "its model returned (32,), expected a tensor of shape (2, width)"),
        ("return self.linear(x)[:1]", "its model returned (1, 32), expected"),
        ("return self.linear(x).numpy()", "its model returned ndarray, expected"),
        ("return None", "its model returned NoneType, expected"),
        ("return self.linear(x), x", "its model returned tuple, expected"),
    ],
)
def test_a_model_that_returns_something_else_is_told_before_the_first_round(run, write_module, forward, found):
    write_module("own", own(forward))
    outcome = run(OWN_MODEL)
    assert outcome.status == 1
    assert outcome.text == f"flexray: a failed in a first forward pass: {outcome.errors[0].partition('pass: ')[2]}\n"
    assert found in outcome.errors[0]


@pytest.mark.parametrize("forward", ["return x[:, :1]", "return x[0]", "return None"])
def test_a_head_that_returns_something_else_is_told_before_the_first_round(run, write_module, forward):
    write_module("own", own(forward))
    outcome = run("server._target_=own.Model")
    assert (outcome.status, len(outcome.errors)) == (1, 1)
    assert "flexray: server failed in a first forward pass: its model returned" in outcome.errors[0]
    assert "(2, 4)" in outcome.errors[0]


def test_the_party_at_fault_is_the_one_that_is_named(run, write_module):
    write_module("own", own("raise RuntimeError('mine')"))
    run("parties.c.model._target_=own.Model").assert_broke(
        "flexray: c failed in a first forward pass: RuntimeError: mine"
    )
    run("parties.server.model._target_=own.Model").assert_broke("flexray: server failed in ")


EDITS = {
    "adds": ("x = x + 1\nreturn self.linear(x)", "x += 1\nreturn self.linear(x)"),
    "relu": ("return self.linear(torch.relu(x))", "return self.linear(torch.relu_(x))"),
    "drops": (
        "return self.linear(nn.functional.dropout(x, 0.5, self.training))",
        "return self.linear(nn.functional.dropout(x, 0.5, self.training, inplace=True))",
    ),
}


@pytest.mark.parametrize("algo", ["flex", "vafl"])
@pytest.mark.parametrize("whose", ["model", "server"])
@pytest.mark.parametrize("edit", EDITS)
def test_a_model_may_edit_its_input_in_place(run, write_module, edit, whose, algo):
    digests = []
    for forward in EDITS[edit]:
        write_module("own", own(forward))
        outcome = run(f"{whose}._target_=own.Model", f"algo={algo}")
        assert (outcome.status, outcome.errors) == (0, [])
        digests.append(outcome.summary["model_digest"])
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((OWN_MODEL, "model.width=3"), "model.width: unknown key of Model; expected one of: in_features, out_features"),
        (("model._target_=own.Modle",), "model._target_: 'own' has no 'Modle'; did you mean 'Model'?"),
        (("model._target_=owm.Model",), "model._target_: cannot import 'owm.Model': there is no module 'owm'"),
        (("model._target_=own",), "model._target_: expected a class, 'own' is a module"),
        (("model._target_=own.Model.",), "model._target_: expected an import path such as my_package.MyModel, got"),
        (("model._target_=3",), "model: expected a mapping with _target_, an import path"),
        (("model._target_=own.TwoArguments",), "model._target_: expected a subclass of torch.nn.modules.module.Module"),
        (("model._target_=json.loads",), "model.s: loads needs a value for it"),
        (("model._target_=builtins.dict",), "model._target_: expected a subclass of torch.nn.modules.module.Module"),
        (("model._target_=own.make",), "a: model._target_: expected a torch.nn.Module, it made a str"),
        (
            ("algo._target_=own.Model",),
            "algo._target_: expected a subclass of flexray.algorithms.base.RoundAlgorithm or",
        ),
        (
            ("optimizer._target_=torch.optim.SGD",),
            "optimizer._target_: expected a subclass of flexray.optimizers.Local",
        ),
        (("dataset._target_=own.Model",), "dataset._target_: expected a subclass of flexray.data.base.Dataset, got"),
    ],
)
def test_a_class_that_does_not_fit_is_refused(run, write_module, arguments, line):
    write_module("own", MODEL)
    run(*arguments).assert_refused(f"flexray: {line}")


def test_an_argument_without_a_value_is_named(run, write_module):
    write_module("own", MODEL.replace("self, in_features, out_features", "self, in_features, out_features, width"))
    run(OWN_MODEL).assert_refused("flexray: model.width: Model needs a value for it")
    assert run(OWN_MODEL, "model.width=3").status == 0


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import no_such_package\n", "importing own: ModuleNotFoundError: No module named 'no_such_package'"),
        ("Model = undefined\n", "importing own: NameError: name 'undefined' is not defined"),
        ("class Model(:\n", "importing own: SyntaxError: invalid syntax"),
    ],
)
def test_a_module_that_raises_while_it_is_imported(run, write_module, text, line):
    write_module("own", text)
    outcome = run(OWN_MODEL)
    outcome.assert_broke(f"flexray: model._target_ failed in {line}")
    assert "own.py" in outcome.text


OPTIMIZER = """
    import torch
    from flexray.optimizers import LocalOptimizer

    class Own(LocalOptimizer):
        def __init__(self, after=0, refuse=None):
            if refuse:
                raise {{"value": ValueError, "key": KeyError}}[refuse]("refused")
            self.after, self.rounds = after, 0

        def begin(self, params, lr):
            self.rounds += 1
            {begin}
            def step(grads):
                {step}
                with torch.no_grad():
                    for param, grad in zip(params, grads):
                        param -= lr * grad
            return step
"""


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ({"begin": "if self.rounds > 2: raise OSError('disk')"}, "a failed in round 3: OSError: disk"),
        ({"step": "if self.rounds > 2: raise IndexError(1, 2)"}, "a failed in round 3: IndexError: (1, 2)"),
        ({"step": "grads[0].add_(params[99])"}, "a failed in round 1: IndexError: list index out of range"),
    ],
)
def test_an_optimizer_that_raises(run, write_module, code, line):
    write_module("own", OPTIMIZER.format(**{"begin": "pass", "step": "pass"} | code))
    outcome = run("optimizer._target_=own.Own")
    outcome.assert_broke(f"flexray: {line}")
    assert "own.py" in outcome.text


def test_an_optimizer_that_refuses_its_arguments(run, write_module):
    write_module("own", OPTIMIZER.format(begin="pass", step="pass"))
    run("optimizer._target_=own.Own", "optimizer.refuse=value").assert_refused("flexray: optimizer (own.Own): refused")
    run("optimizer._target_=own.Own", "optimizer.refuse=key").assert_broke(
        "flexray: optimizer failed in construction: KeyError: 'refused'"
    )
    assert run("optimizer._target_=own.Own", "optimizer.after=1").status == 0


ALGORITHM = """
    from flexray.algorithms.base import RoundAlgorithm
    from flexray.algorithms.vafl import VAFL

    class Raises(RoundAlgorithm):
        def plan(self, now):
            if now.round == 2:
                raise LookupError(1, 2)
            return self.make_plan(now, self.same_for_all(1), 5.0)

    class Turns(VAFL):
        def plan(self, party, now):
            raise LookupError(1, 2)

    class Unfinished(RoundAlgorithm):
        pass
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Raises", "algo failed in round 3: LookupError: (1, 2)"),
        ("Turns", "algo failed in turn 1 of a: LookupError: (1, 2)"),
    ],
)
def test_an_algorithm_that_raises(run, write_module, name, line):
    write_module("own", ALGORITHM)
    run(f"algo._target_=own.{name}").assert_broke(f"flexray: {line}")


def test_a_class_that_lacks_a_method(run, write_module):
    write_module("own", ALGORITHM)
    run("algo._target_=own.Unfinished").assert_refused("algo._target_: 'own.Unfinished' lacks what every", ": plan")


DATASET = """
    import numpy as np
    from flexray.data.base import ArrayFeatures, Dataset, Outline
    from flexray.tasks import Task

    class Own(Dataset):
        def __init__(self, fault="none"):
            self.fault = fault

        def may(self, place):
            if self.fault == place:
                raise LookupError(1, 2)

        def outline(self):
            self.may("outline")
            return Outline(("p", "q"), {"train": 9, "val": 0, "test": 4}, Task("cross_entropy", 2), "synthetic")

        def features(self, party, dtype):
            self.may("features")
            rows = 8 if self.fault == "rows" else 9
            return {s: ArrayFeatures(np.ones((n, 3)), dtype) for s, n in (("train", rows), ("val", 0), ("test", 4))}

        def labels(self):
            self.may("labels")
            return {s: np.arange(n) % 2 for s, n in (("train", 9), ("val", 0), ("test", 4))}
"""


def test_a_dataset_that_raises(command, write_module):
    write_module("own", DATASET)
    own_data = ("dataset._target_=own.Own", "dataset.batch_size=4", "rounds=1")
    command(*own_data, "dataset.fault=outline").assert_broke(
        "flexray: dataset failed in reading its outline: LookupError"
    )
    command(*own_data, "dataset.fault=features").assert_broke(
        "flexray: p failed in loading its data: LookupError: (1, 2)"
    )
    command(*own_data, "dataset.fault=labels").assert_broke(
        "flexray: dataset failed in loading its labels: LookupError"
    )
    outcome = command(*own_data, "dataset.fault=rows")
    assert (outcome.status, outcome.errors) == (2, ["flexray: party 'p': train has 8 rows, expected 9"])
    outcome = command(*own_data)
    assert (outcome.status, outcome.errors) == (0, [])
    assert "the data is SYNTHETIC" in outcome.text


@pytest.mark.parametrize("failing", ["lr=-1", "algo=flxe", OWN_MODEL, "rounds", "hydra.run.dir=own.py/run"])
def test_the_next_run_in_the_same_process_works(run, write_module, failing):
    write_module("own", own(IN_ROUND_3.format("raise KeyError")))
    first = run().summary["model_digest"]
    assert run(failing).status != 0
    outcome = run()
    assert (outcome.status, outcome.errors) == (0, [])
    assert outcome.summary["model_digest"] == first
