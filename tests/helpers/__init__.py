"""What several test modules use; their assertions are explained as those of a test module."""

import sys
from pathlib import Path

if "pytest" in sys.modules:  # not in the processes that tests start
    names = [f"helpers.{path.stem}" for path in Path(__file__).parent.glob("[a-z]*.py")]
    sys.modules["pytest"].register_assert_rewrite(*names)
