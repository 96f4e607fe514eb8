"""Models of the user's own: what they do wrong is told once, with the party and the round; what they may do, works."""

import pytest

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


@pytest.mark.parametrize("failing", ["lr=-1", "algo=flxe", OWN_MODEL, "rounds", "hydra.run.dir=own.py/run"])
def test_the_next_run_in_the_same_process_works(run, write_module, failing):
    write_module("own", own(IN_ROUND_3.format("raise KeyError")))
    first = run().summary["model_digest"]
    assert run(failing).status != 0
    outcome = run()
    assert (outcome.status, outcome.errors) == (0, [])
    assert outcome.summary["model_digest"] == first


BARE = """
    from torch import nn

    class Unlisted(nn.Module):
        def __init__(self, in_features, out_features):
            super().__init__()
            self.layers = [nn.Linear(in_features, out_features)]

        def forward(self, x):
            return self.layers[0](x)

    class Fixed(nn.Linear):
        def __init__(self, in_features, out_features):
            super().__init__(in_features, out_features)
            self.requires_grad_(False)
"""


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["model._target_=own.Unlisted"], "a"),
        (["parties.b.model._target_=own.Unlisted"], "b"),
        (["server._target_=own.Unlisted"], "server"),
        (["model._target_=torch.nn.Flatten"], "a"),
    ],
)
def test_a_model_without_parameters_is_refused_unless_it_is_frozen(run, write_module, arguments, name):
    write_module("own", BARE)
    outcome = run(*arguments)
    outcome.assert_refused(f"flexray: {name}: its model has no trainable parameters; expected nn.Module attributes")
    frozen = run(*arguments, "frozen=[server]" if name == "server" else "frozen=parties")
    assert (frozen.status, frozen.errors) == (0, [])


def test_a_model_that_trains_nothing_on_purpose_is_told(run, write_module):
    write_module("own", BARE)
    line = "b: its model has no trainable parameters: its local iterations change nothing; frozen=[b] spares them"
    outcome = run("parties.b.model._target_=own.Fixed")
    assert (outcome.status, outcome.text.count(line), outcome.text.count("no trainable")) == (0, 1, 1)
    assert "no trainable" not in run("parties.b.model._target_=own.Fixed", "frozen=[b]").text
