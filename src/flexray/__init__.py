"""flexray: vertical federated learning on a Ray cluster, on a virtual clock.

``flexray.simulate``, ``flexray.sweep``, ``flexray.read``, ``flexray.Run``, ``flexray.Sweep`` (all in
:mod:`flexray.api`), ``flexray.cluster``, ``flexray.calibrate``, ``flexray.advise`` and ``flexray.check`` are imported
when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flexray.advise import advise as advise
    from flexray.api.read import read as read
    from flexray.api.run import Run as Run
    from flexray.api.simulate import simulate as simulate
    from flexray.api.sweep import Sweep as Sweep
    from flexray.api.sweep import sweep as sweep
    from flexray.calibrate import calibrate as calibrate
    from flexray.check import check as check
    from flexray.cluster import cluster as cluster
    from flexray.core.errors import FlexrayError as FlexrayError
    from flexray.core.errors import UserError as UserError

__version__ = "0.1.0"

PUBLIC = {
    "simulate": "api.simulate",
    "sweep": "api.sweep",
    "read": "api.read",
    "calibrate": "calibrate",
    "advise": "advise",
    "check": "check",
    "cluster": "cluster",
    "Run": "api.run",
    "Sweep": "api.sweep",
    "UserError": "core.errors",
    "FlexrayError": "core.errors",
}
"""The modules of the public names, which are imported when a name is used: ``import flexray`` itself imports none."""

if not TYPE_CHECKING:  # which knows the names from above, and no others

    def __getattr__(name: str) -> Any:
        """Return a public name, or a module such as ``flexray.cluster`` that may be called as its function."""
        if name not in PUBLIC:
            raise AttributeError(f"module 'flexray' has no attribute '{name}'")
        module = importlib.import_module(f"flexray.{PUBLIC[name]}")
        return module if name == PUBLIC[name] else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
