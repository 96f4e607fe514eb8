"""Jobs of other machines: the Ray that is joined, and the files that go along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flexray.core.errors import ConfigError
from flexray.engine.hosts.ray.environment import SUBMITTED, own_modules
from flexray.engine.hosts.resources import running_ray


def test_which_ray_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert running_ray("a", "auto") is None
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379\n")  # as `ray start` leaves it
    assert running_ray("a", "auto") == "10.0.0.1:6379"
    assert running_ray("a", "local") is None
    assert running_ray("a", "10.0.0.2:6379") == "10.0.0.2:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.3:6379")
    assert running_ray("a", "auto") == "auto"
    with pytest.raises(ConfigError, match=r"^a: expected auto or HOST:PORT"):
        running_ray("a", "nowhere")


def test_python_files_of_the_current_folder_and_of_the_script_go_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here/mine.py", "here/pack/__init__.py", "here/pack/more.py", "here/data/x.npy", "script/tools.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "here")
    for first, more in (("", []), (str(tmp_path / "script"), [tmp_path / "script" / "tools.py"]), (sys.prefix, [])):
        monkeypatch.setattr(sys, "path", [first, *sys.path])
        expected = sorted(map(str, [tmp_path / "here" / "mine.py", tmp_path / "here" / "pack", *more]))
        assert own_modules() == {"py_modules": expected}
    monkeypatch.setenv(SUBMITTED, "{}")
    assert own_modules() == {}
