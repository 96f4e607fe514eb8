"""One module per trace format with a ``FORMAT``. A new format is a new module, here or anywhere.

``import my_package.my_module FILES`` on the command line uses the ``FORMAT`` of any importable module.
"""

from __future__ import annotations

import importlib
import pkgutil

from flexray.core.errors import ConfigError, near_match
from flexray.traces.formats.base import Format


def formats() -> dict[str, Format]:
    """Return the formats that flexray knows, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "base")
    return {name: importlib.import_module(f"{__name__}.{name}").FORMAT for name in names}


def find_format(name: str) -> Format:
    """Return a format by its name, or by its module.

    Raises:
        ConfigError: There is no such format.
    """
    known = formats()
    if name in known:
        return known[name]
    if "." not in name:
        raise ConfigError(f"import: unknown format '{name}'{near_match(name, known)}")
    try:
        found = importlib.import_module(name).FORMAT
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"import: format '{name}': {error}") from error
    if not isinstance(found, Format):
        raise ConfigError(f"import: {name}.FORMAT: expected a flexray.traces.formats.base.Format, got {found!r}")
    return found
