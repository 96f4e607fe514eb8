"""``flexray.cluster(...)`` keeps processes warm between runs; ``python -m flexray.cluster`` says whether a run fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flexray.core.callable_module import make_callable

if TYPE_CHECKING:
    from flexray.cluster.warm import Cluster


def cluster(**keys: Any) -> Cluster:
    """Keep Ray and its processes warm between the runs of a ``with`` block.

    Without it every :func:`flexray.simulate` on Ray starts a Ray of its own and ends it. Within the block the first
    run starts it, later ones find it running, and those that ask for the same processes find these warm, too. The
    block belongs to the thread that opens it.

    Args:
        keys: Keys of ``cluster`` for all runs of the block, such as ``kind="packed"``, ``num_cpus=4`` or, to join a
            running Ray, ``address="auto"``. A run that chooses a ``cluster`` itself has its own.

    Example:
        >>> import flexray
        >>> with flexray.cluster(kind="inline"):
        ...     runs = [flexray.simulate(algo=algo, rounds=2, progress=False) for algo in ("flex", "sync_max")]
        >>> [run.summary["sim_time"] for run in runs]
        [60.0, 180.0]
    """
    from flexray.cluster.warm import Cluster

    return Cluster(**keys)


make_callable(__name__)
