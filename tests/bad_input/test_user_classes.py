"""Optimizers, algorithms and datasets of the user's own: what they do wrong is told once, with who and when."""

import pytest

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


PLANS = """
    from dataclasses import replace
    from flexray.algorithms.flex import FlexVFL
    from flexray.algorithms.vafl import VAFL

    class Rounds(FlexVFL):
        def plan(self, now):
            return self.make_plan(now, [1, 1.5, 1, 1], 5.0) if now.round else super().plan(now)

    class Nothing(FlexVFL):
        def plan(self, now):
            pass

    class Dummy(FlexVFL):
        def preparation(self, now):
            return self.make_plan(now, [1, 2], 5.0)

    class Turns(VAFL):
        def plan(self, party, now):
            plan = super().plan(party, now)
            return replace(plan, duration_units=-1.0) if now.round else plan
"""
WHOLE = "expected 4 whole numbers of at least 0"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Rounds", f"round 2: its plan has tau [1, 1.5, 1, 1], {WHOLE}"),
        ("Nothing", "round 1: its plan is None, expected a flexray.algorithms.base.Plan"),
        ("Dummy", f"its dummy round: its plan has tau [1, 2], {WHOLE}"),
        ("Turns", "turn 2 of c: its plan has duration_units -1.0, expected a finite number of at least 0"),
    ],
)
def test_a_plan_that_means_nothing(run, write_module, name, line):
    write_module("own", PLANS)
    refused = f"flexray: algo failed in {line}"
    run(f"algo._target_=own.{name}").assert_refused(refused)
    wall = run(f"algo._target_=own.{name}", "clock=wall", "timeout=0.02")
    wall.assert_refused(*refused.split(" of c"))  # whose turn ends first is not known


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


OUTLINES = {
    "parties=('p', 'p')": "parties: 'p' is listed twice",
    "parties=()": "parties: expected at least one name, got an empty list",
    "parties='pq'": "parties: expected a list of names, got 'pq'",
    "parties=('p', 'server')": "parties: 'server' cannot name a party; expected letters, digits and '_', and none of",
    "parties=('p', '../q')": "parties: '../q' cannot name a party",
    "parties=('p', 'the left')": "parties: 'the left' cannot name a party",
    "parties=('p', 'ü')": "parties: 'ü' cannot name a party",
    "sizes={'train': 0, 'val': 0, 'test': 4}": "its outline has 0 train samples; expected at least 1",
    "sizes={'train': 9, 'val': 0, 'test': 0}": "its outline has 0 test samples; expected at least 1",
    "sizes={'train': 9, 'test': 4}": "sizes: expected the number of samples of train, val and test, got {'train': 9, ",
    "sizes={'train': 9, 'val': 0.5, 'test': 4}": "sizes: expected a whole number of val samples, got 0.5",
    "sizes={'train': 9, 'val': -1, 'test': 4}": "sizes: expected a whole number of val samples, got -1",
}
LABELS = {
    "'train': np.arange(10) % 2": "train has 10 labels; its outline tells of 9 samples",
    "'test': np.arange(3) % 2": "test has 3 labels; its outline tells of 4 samples",
    "'val': np.arange(1)": "val has 1 labels; its outline tells of 0 samples",
    "'test': ()": "test has 0 labels; its outline tells of 4 samples",
    "'train': np.arange(9)": "train labels: row 2: label 2 is out of range, expected a whole number from 0 to 1",
    "'train': np.ones(9)": "all training samples are of one class only, 1; expected two classes or more",
    "'test': np.eye(4)": "test labels: expected one class number per row, got an array of shape (4, 4)",
}
FAULTY = """
    from dataclasses import replace

    class Faulty(Own):
        def outline(self):
            return replace(super().outline(), source="files", {outline})

        def labels(self):
            return {{**super().labels(), {labels}}}
"""


@pytest.mark.parametrize("change", [*OUTLINES, *LABELS])
def test_a_dataset_whose_names_sizes_and_labels_do_not_fit(command, write_module, change):
    outline, labels = (change, "") if change in OUTLINES else ("", change)
    write_module("own", DATASET + FAULTY.format(outline=outline, labels=labels))
    outcome = command("dataset._target_=own.Faulty", "dataset.batch_size=4", "rounds=1")
    outcome.assert_refused(f"flexray: dataset (Faulty): {(OUTLINES | LABELS)[change]}")
