"""Keys that were set and that nothing in the configuration reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexray.config import SpeedsConfig
from flexray.errors import ConfigError
from flexray.values import shown

OF_TRACES = ("path", "machines", "advance", "sample_units", "at_end")
DEFAULTS = SpeedsConfig()


def refuse_unread(config: Mapping[str, Any]) -> None:
    """Refuse keys of ``speeds`` that the chosen speeds do not read, and a stop at no target.

    Keys of algorithms (``lr``, ``rates``, ``adaptive``) pass: one command line compares algorithms that read different
    ones. So do those of ``speeds=replay``, which takes the rest of the configuration as it was.

    Raises:
        ConfigError: It names the key.
    """
    speeds = config["speeds"]
    kind = speeds["kind"]
    for key in OF_TRACES:
        if kind not in ("trace", "replay") and speeds[key] != (default := getattr(DEFAULTS, key)):
            wanted = f"speeds=trace or speeds.{key}={default if isinstance(default, str) else shown(default)}"
            raise ConfigError(f"speeds.{key}: not used with speeds={kind}; expected {wanted}")
    if kind == "trace" and speeds["advance"] == "round" and speeds["sample_units"] is not None:
        raise ConfigError("speeds.sample_units: not used with speeds.advance=round; expected speeds.advance=time")
    if config["stop_at_target"] and config["target"] is None:
        raise ConfigError("stop_at_target: there is no target to stop at; expected one, as in target=0.9")
