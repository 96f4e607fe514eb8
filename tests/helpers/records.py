"""Records of two rounds."""

from __future__ import annotations

from flexray.core.messages import RoundRecord, Started

STARTED = Started(("a", "b", "server"), 2, 1)
ROUND = RoundRecord(
    round=1, start_units=0.0, sim_time=30.0, duration=30.0, tau=(5, 2, 20), lr=(0.1, 0.2, 0.3),
    utilization=(0.0, 0.0, 0.0), comm_units=10.0, unit_times=(4.0, 4.0, 1.0), train_loss=2.5, sent_bytes=100,
    up_bytes=(10, 20), down_bytes=(30, 40),
)  # fmt: skip
TURN = RoundRecord(
    round=2, start_units=30.0, sim_time=45.0, duration=15.0, tau=(0, 1, 1), lr=(0.1, 0.2, 0.3),
    utilization=(0.0, 0.0, 0.0), comm_units=10.0, unit_times=(4.0, 5.0, 1.0), train_loss=float("nan"), sent_bytes=60,
    up_bytes=(0, 50), down_bytes=(0, 10), party=1,
)  # fmt: skip
