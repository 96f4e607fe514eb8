"""The wheel carries the configuration and works from another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = """
import runpy, sys
typed, statuses = sys.argv[1:], []
for folder in ("as_module", "as_script"):  # python -m flexray.run, and what the console script does
    sys.argv = ["flexray", *typed, f"hydra.run.dir={folder}"]
    try:
        if folder == "as_module":
            runpy.run_module("flexray.run", run_name="__main__", alter_sys=True)
        else:
            from flexray.run.command import main
            main()
    except SystemExit as end:
        statuses.append(end.code)
print("exit statuses:", *statuses)
"""


def test_the_wheel_runs_from_another_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("flexray-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {"flexray/conf/config.yaml", "flexray/conf/algo/flex.yaml", "flexray/py.typed"} <= names
    assert "hydra_plugins/flexray_launcher.py" in names  # where Hydra looks for hydra/launcher=ray
    entry_points = next((tmp_path / "site").glob("*.dist-info/entry_points.txt")).read_text()
    assert "flexray = flexray.run.command:main" in entry_points
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [sys.executable, "-c", SCRIPT, "cluster=inline", "rounds=2"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("exit statuses: 0 0\n"), done.stderr
    for folder in ("as_module", "as_script"):
        assert (elsewhere / folder / "summary.json").is_file()
