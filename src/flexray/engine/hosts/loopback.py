"""Keeps a Ray that flexray starts for itself off the network."""

from __future__ import annotations

import os
import sys

VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""``0`` is what Ray assumes on macOS and Windows: no other machine joins, so the node's address is 127.0.0.1 and all
its processes listen there only. Otherwise they listen on all interfaces, and the token is the only guard (Ray 2.60).
"""


def stay_on_loopback() -> None:
    """Have the Ray of this machine listen on 127.0.0.1 only; the user's own value wins. Ray reads it when imported."""
    if "ray" not in sys.modules:
        os.environ.setdefault(VARIABLE, "0")
