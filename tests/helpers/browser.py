"""A headless Chromium for tests; where there is none, its tests are skipped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,900",
)  # fmt: skip


def open_browser(profile: Path) -> Any:
    """Return a driver of a new browser with an empty profile; skip the test where that is not possible."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver on this machine: apt-get install chromium chromium-driver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def look(driver: Any, width: int, dark: bool) -> None:
    """Show the page as wide, light or dark as this."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def wait(driver: Any, script: str) -> Any:
    """Return what a script returns once that is neither null nor false."""
    from selenium.webdriver.support.wait import WebDriverWait

    return WebDriverWait(driver, 60, poll_frequency=0.05).until(lambda d: d.execute_script(f"return {script}"))
