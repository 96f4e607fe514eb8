"""Check a class of your own: ``flexray.check(MyModel)``, or ``python -m flexray.check my_module.MyModel``.

A model, dataset, algorithm, local optimizer or trace format is put through what flexray relies on (docs/adding.md,
Check it first).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from flexray.check.elsewhere import FreshProcess, travels
from flexray.core.callable_module import make_callable
from flexray.core.errors import CheckError

if TYPE_CHECKING:
    from flexray.check.promises import Report

__all__ = ["CheckError", "check"]


def check(target: Any, /, *, fresh_process: bool = False, **arguments: Any) -> Report:
    """Put a class through the promises that flexray relies on.

    Args:
        target: A class of models (``torch.nn.Module``), datasets, algorithms, local optimizers or trace formats; an
            object of one; a function that makes a model; or a module with a trace format in ``FORMAT``.
        fresh_process: Start another Python, too, which takes seconds, and compare its numbers; the command does.
        arguments: Those of its constructor that flexray does not fill in. Besides, for a model ``role``, ``party`` or
            ``server``, and ``in_shape``, the shape of one sample; for a trace format ``files``, and ``machine_events``,
            ``step`` and ``unit`` as when it imports them.

    Returns:
        What was checked; its ``repr`` lists the promises.

    Raises:
        CheckError: Some are broken; the message has a line for each: the promise, what was seen, how to mend it.
        ConfigError: The target is none of these, or an argument is missing or unknown.

    Example:
        >>> import flexray
        >>> from flexray.models import Linear
        >>> flexray.check(Linear, role="server")
        flexray.models.mlp.Linear, a model as the server, keeps 14 promises:
          can be made and used
          sets every parameter and buffer to a finite number
          ...
    """
    from flexray.check.sorts import run_checks  # imports torch and Ray's pickle

    if not fresh_process:
        return run_checks(target, arguments, travels)
    with closing(FreshProcess()) as elsewhere:
        return run_checks(target, arguments, elsewhere)


make_callable(__name__)
