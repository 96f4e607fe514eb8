"""Sweeps in which a job fails, and run folders that cannot be written."""

import json

import pytest

SMALL = ("dataset.batch_size=8", "model=linear", "eval_every=10")


@pytest.fixture
def sweep(command, bundle, tmp_path):
    """Return a function that runs a sweep over a small bundle, and the folder that it writes to."""

    def run(*arguments):
        path = f"hydra.sweep.dir={tmp_path / 'sweep'}"
        return command("-m", "dataset=bundle", f"dataset.path={bundle}", *SMALL, path, *arguments)

    return run, tmp_path / "sweep"


def place(text, word):
    assert text.count(word) == 1, text
    return text.index(word)


def rounds(folder):
    return json.loads((folder / "summary.json").read_text())["rounds"]


def test_a_middle_job_with_a_bad_value(sweep):
    run, folder = sweep
    outcome = run("rounds=1,0,2")
    assert outcome.status == 2
    assert outcome.errors == ["flexray: rounds: expected a whole number of at least 1, got 0"]
    assert "Traceback" not in outcome.text
    assert [rounds(folder / job) for job in "02"] == [1, 2]
    assert not (folder / "1" / "summary.json").exists()
    assert outcome.errors[0] in (folder / "1" / "run.log").read_text()
    assert outcome.errors[0] in outcome.stderr
    assert place(outcome.text, "#1 : ") < place(outcome.text, "#2 : ") < place(outcome.text, outcome.errors[0])
    table = outcome.text.rpartition("at the end")[2]
    assert table.count("│ flex │") == 2


def test_a_middle_job_whose_model_raises(sweep, write_module):
    run, folder = sweep
    write_module(
        "own",
        """
        from torch import nn

        class Model(nn.Linear):
            def __init__(self, in_features, out_features, limit):
                super().__init__(in_features, out_features)
                self.calls, self.limit = 0, limit

            def forward(self, x):
                self.calls += self.training
                if self.calls > self.limit:
                    raise OverflowError(self.calls, "calls")
                return super().forward(x)
        """,
    )
    outcome = run("model._target_=own.Model", "model.limit=99,3,100", "rounds=2", "timeout=2")
    assert outcome.status == 1
    assert len(outcome.errors) == 1
    assert outcome.errors[0].startswith("flexray: a failed in round 2: OverflowError: (4, 'calls')")
    assert outcome.text.count("Traceback") == 1
    assert [rounds(folder / job) for job in "02"] == [2, 2]
    assert outcome.errors[0] in outcome.stderr
    assert place(outcome.text, "#1 : ") < place(outcome.text, "#2 : ") < place(outcome.text, outcome.errors[0])
    log = (folder / "1" / "run.log").read_text()
    assert outcome.errors[0] in log
    assert "Traceback" in log


def test_every_job_fails_for_a_reason_of_its_own(sweep):
    run, folder = sweep
    outcome = run("lr=0,-1,1")
    assert outcome.status == 2
    assert outcome.errors == [f"flexray: lr: expected a positive number, got {value}" for value in (0, -1)]
    assert (folder / "2" / "summary.json").exists()


def test_lists_and_words_with_spaces_can_be_swept_over(sweep):
    run, folder = sweep
    outcome = run("rounds=1", "lr=[0.1,0.1,0.1,0.1],{default:0.2,server:0.1},[0.3, 0.3, 0.3, 0.3],[1]")
    assert outcome.status == 2
    assert outcome.errors == ["flexray: lr: expected one number or 4 numbers (a, b, c, server), got 1 of them"]
    assert [rounds(folder / job) for job in "012"] == [1, 1, 1]


@pytest.mark.parametrize("arguments", [("hydra.run.dir=file/run",), ("-m", "seed=1,2", "hydra.sweep.dir=file/sweep")])
def test_a_run_folder_below_a_file(command, bundle, tmp_path, arguments):
    (tmp_path / "file").write_text("")
    outcome = command("dataset=bundle", f"dataset.path={bundle}", *SMALL, *arguments)
    assert (outcome.status, len(outcome.errors)) == (2, 1)
    assert outcome.errors[0].startswith("flexray: hydra.")
    assert ".dir: cannot write the run folder: " in outcome.errors[0]
    assert "file/" in outcome.errors[0]
    assert outcome.errors[0].endswith(": Not a directory")
    assert "Traceback" not in outcome.text


def test_a_file_of_the_run_folder_that_cannot_be_written(command, bundle, tmp_path):
    (tmp_path / "run" / "rounds.csv").mkdir(parents=True)
    outcome = command("dataset=bundle", f"dataset.path={bundle}", *SMALL, "rounds=1")
    outcome.assert_refused(f"flexray: {tmp_path / 'run' / 'rounds.csv'}: cannot be written: Is a directory")
