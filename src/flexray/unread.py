"""Keys that were set and that nothing in the configuration reads."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from flexray.config import SpeedsConfig
from flexray.errors import ConfigError

OF_TRACES = ("path", "machines", "advance", "sample_units", "at_end")
DEFAULTS = SpeedsConfig()

log = logging.getLogger("flexray")


def check_unread(config: Mapping[str, Any]) -> None:
    """Warn of keys of ``speeds`` that the chosen speeds do not read, and refuse a stop at no target.

    A warning only, since one command line may compare speeds, or algorithms, that read different keys; those of
    algorithms (``lr``, ``rates``, ``adaptive``) pass. So do those of ``speeds=replay``, which takes the rest of the
    configuration as it was.

    Raises:
        ConfigError: There is no target to stop at.
    """
    for line in _unread(config["speeds"]):
        log.warning("%s", line)
    if config["stop_at_target"] and config["target"] is None:
        raise ConfigError("stop_at_target: there is no target to stop at; expected one, as in target=0.9")


def _unread(speeds: Mapping[str, Any]) -> Iterator[str]:
    kind = speeds["kind"]
    for key in OF_TRACES:
        if kind not in ("trace", "replay") and speeds[key] != getattr(DEFAULTS, key):
            yield f"speeds.{key}: not used with speeds={kind}; speeds=trace would"
    if kind == "trace" and speeds["advance"] == "round" and speeds["sample_units"] is not None:
        yield "speeds.sample_units: not used with speeds.advance=round; speeds.advance=time would"
