"""The command line: ``python -m flexray.run [algo=...] [key=value ...]``, Hydra 1.3 syntax, ``-m`` sweeps."""

from __future__ import annotations

import os
import sys

import hydra

from flexray.config.explain import HYDRA_ERRORS, explain, one_line
from flexray.config.overrides import prepare
from flexray.config.remembered import remembering
from flexray.config.schema import config_folder, register
from flexray.config.typed import typed_value
from flexray.core.errors import UserError
from flexray.run.launcher import register_launcher
from flexray.run.resume import AUTO, check_folder_is_fixed, find_resume, folders_by_configuration, register_job_folder
from flexray.run.session import Session


def main() -> None:
    """Run the command line and exit with 0, 2 for a mistake of the user, 1 for anything else that went wrong."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command, single or sweep, and return its exit status."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and exiting
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's own module, also for the console script and with hydra.job.chdir
    register()
    register_job_folder()
    register_launcher()
    saved, session = sys.argv, Session(arguments)
    try:
        if (value := typed_value(arguments, "resume")) == AUTO:
            sweeping = not {"-m", "--multirun"}.isdisjoint(arguments)
            check_folder_is_fixed(arguments, sweeping)
            arguments = [*arguments, *(folders_by_configuration(arguments) if sweeping else [])]
        elif resume := find_resume(value, arguments):
            arguments, session = resume.arguments, Session(resume.arguments, resume)
        sys.argv = [saved[0], *prepare(arguments)]
        with remembering():
            hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="config")(session.run_job)()
    except UserError as error:
        _print_error(str(error))
        return error.exit_status
    except BrokenPipeError:  # of a reader that ended before --help did
        sys.stderr.close()
        return 0
    except HYDRA_ERRORS as error:
        _print_error(explain(error))
        return UserError.exit_status
    except SystemExit as end:  # --version
        return int(end.code or 0)
    except KeyboardInterrupt:
        _print_error("interrupted")
        session.interrupted = True
        return 130
    finally:
        sys.argv = saved
        session.close()
    return session.exit_status


def _print_error(line: str) -> None:
    print(f"flexray: {one_line(line)}", file=sys.stderr)
