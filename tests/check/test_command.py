"""``python -m flexray.check``: what it prints, and its exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import flexray.check
from flexray.check import cli
from flexray.check.elsewhere import travels
from flexray.core.errors import CheckError

MODULE = """
    import numpy as np
    from torch import nn
    from flexray.data.digits import Digits

    class Net(nn.Module):
        def __init__(self, in_features, out_features, width=4):
            super().__init__()
            self.layer = nn.Linear(in_features, out_features)

        def forward(self, x):
            return self.layer(x)

    class Bad(Net):
        def forward(self, x):
            return super().forward(x.detach() * np.random.rand()).squeeze()

    class Hashes(Digits):
        def labels(self):
            labels = super().labels().items()
            return {split: np.random.default_rng(abs(hash(split))).permutation(y) for split, y in labels}
"""


class Here:
    """Stands for the process that the command starts."""

    def __call__(self, numbers, thing):
        return travels(numbers, thing)

    def close(self):
        pass


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Return a function that runs the command in a folder with a module ``mine``."""
    (tmp_path / "mine.py").write_text(dedent(MODULE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(cli, "FreshProcess", Here)

    def run(*arguments: str) -> tuple[int, str, str]:
        return (cli.main(arguments), *capsys.readouterr())

    yield run
    sys.modules.pop("mine", None)


def test_a_class_that_keeps_its_promises(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = command("mine.Net", "width=8", "role=party")
    assert (status, err) == (0, "")
    assert out.startswith("mine.Net, a model as a party, keeps 14 promises:\n  can be made and used\n")


def test_a_class_that_breaks_some(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = command("mine.Bad", "role=party")
    assert (status, out) == (2, "")
    first, *lines = err.splitlines()
    assert first == f"flexray: mine.Bad breaks {len(lines)} of 11 promises:"
    assert [line.split(":")[0] for line in lines] == [
        "  draws nothing in evaluation",
        "  takes a batch of one sample",
        "  trains with the same numbers for the same seed",
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            [],
            "expected one class such as my_module.MyModel, got none; usage: python -m flexray.check",
        ),
        (["a.B", "c.D"], "expected one class such as my_module.MyModel, got a.B c.D; usage"),
        (["--all"], "expected one class such as my_module.MyModel, got --all; usage"),
        (["mine.Nett"], "check: 'mine' has no 'Nett'; did you mean 'Net'?"),
        (["mien.Net"], "check: cannot import 'mien.Net': there is no module 'mien' here or installed"),
        (["mine"], "check: expected a class, got the module mine; it has Net, Bad, Hashes"),
        (["mine.np"], "check: expected a class, got the module numpy"),
        (["mine.np.pi"], "check: expected a model, a dataset, an algorithm, a local optimizer, a trace format or a"),
        (["mine.Net", "widht=3"], "Net.widht: unknown key of Net; did you mean 'width'?"),
        (["mine.Net", "width=3,4"], "width: expected one value, got several; a list is [1,2]"),
        (["mine.Net", "width=[3"], "width=[3: cannot be read; expected key=value"),
        (["flexray.traces.formats.long"], "files: a format is checked by reading; expected files=[cpu.csv]"),
        (["flexray.traces.formats.long", "files=[no.csv]"], "no.csv: no such file"),
    ],
)
def test_a_mistake_ends_in_one_line(command: Callable[..., tuple[int, str, str]], words: list[str], line: str) -> None:
    status, out, err = command(*words)
    assert (status, out) == (2, "")
    assert err.startswith(f"flexray: {line}")
    assert err.count("\n") == 1


def test_a_module_that_raises(command: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import json\njson.loads('no')\n", encoding="utf-8")
    status, out, err = command("broken.Net")
    assert (status, out) == (2, "")
    assert err.startswith("Traceback (most recent call last)")
    assert err.splitlines()[-1].startswith("flexray: check failed in importing broken: JSONDecodeError: ")


def test_the_help_says_what_can_be_typed(command: Callable[..., tuple[int, str, str]]) -> None:
    status, out, _ = command("--help")
    assert status == 0
    assert out.startswith("usage: python -m flexray.check my_module.MyClass [key=value ...]\n")
    assert "in_shape=[1,28,28]" in out


@pytest.mark.slow
def test_another_process_shows_what_depends_on_hashes(command: Callable[..., tuple[int, str, str]]) -> None:
    command("mine.Net")  # so that the module can be imported
    hashes = sys.modules["mine"].Hashes
    assert flexray.check(hashes).promises
    with pytest.raises(CheckError, match=r"labels of train differ; do without hash\(\)"):
        flexray.check(hashes, fresh_process=True)
