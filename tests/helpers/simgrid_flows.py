"""Makes tests/core/simgrid_flows.json: random platforms, and when SimGrid (simgrid.org) ends the messages on them.

SimGrid is a simulator of its own; flexray does not need it. On Debian:

    apt-get install python3-simgrid
    /usr/bin/python3 tests/helpers/simgrid_flows.py

Written with SimGrid 3.32. A platform has ``capacities`` of shared links, in bytes per second, and ``flows``: begin,
bytes, bytes per second of the flow's own link (null: none), the shared links that it crosses, and the time of its end.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
from multiprocessing import Pool
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "core" / "simgrid_flows.json"
PLATFORMS = 100
EXACT = (  # capacities alone: no latency, no correction for TCP
    "network/model:CM02", "network/optim:Full", "network/TCP-gamma:0", "network/crosstraffic:0", "network/weight-S:0",
    "network/bandwidth-factor:1", "network/latency-factor:1", "surf/precision:1e-9", "maxmin/precision:1e-9",
)  # fmt: skip


def made(seed: int) -> dict[str, Any]:
    """Return a platform of up to five shared links and twelve messages, some of which begin together."""
    draw = random.Random(seed)
    capacities = [round(10 ** draw.uniform(3, 6)) for _ in range(draw.randint(1, 5))]
    links = range(len(capacities))
    flows = [
        (
            draw.choice((0.0, round(draw.uniform(0, 3), 3))),
            round(10 ** draw.uniform(4, 6.5)),
            draw.choice((None, round(10 ** draw.uniform(3, 5)))),
            sorted(draw.sample(links, draw.randint(1, len(capacities)))),
        )
        for _ in range(draw.randint(2, 12))
    ]
    return {"capacities": capacities, "flows": flows}


def simulated(platform: dict[str, Any]) -> list[float]:
    """Return when SimGrid ends each message."""
    sg: Any = importlib.import_module("simgrid")
    engine = sg.Engine(["simgrid", "--log=root.thres:warning", *(f"--cfg={word}" for word in EXACT)])
    zone = sg.NetZone.create_full_zone("zone")

    def link(name: str, capacity: float) -> Any:
        return zone.create_link(name, capacity).set_latency(0).seal()

    shared = [link(f"shared{place}", capacity) for place, capacity in enumerate(platform["capacities"])]
    ends: dict[int, float] = {}

    def send(place: int, begin: float, size: int, hosts: tuple[Any, Any]) -> None:
        sg.this_actor.sleep_until(begin)
        sg.Comm.sendto(*hosts, size)
        ends[place] = engine.clock

    senders = []
    for place, (begin, size, most, crosses) in enumerate(platform["flows"]):
        hosts = tuple(zone.create_host(f"{name}{place}", 1e9).seal() for name in ("from", "to"))
        own = [] if most is None else [link(f"own{place}", most)]
        route = [sg.LinkInRoute(part) for part in [*own, *(shared[k] for k in crosses)]]
        zone.add_route(hosts[0].netpoint, hosts[1].netpoint, None, None, route, False)
        senders.append((place, begin, size, hosts))
    zone.seal()
    for sender in senders:
        sg.Actor.create(f"sender{sender[0]}", sender[-1][0], send, *sender)
    engine.run()
    return [ends[place] for place in range(len(ends))]


def main() -> None:
    """Write the file; every platform needs a process, as SimGrid runs once in each."""
    platforms = [made(seed) for seed in range(PLATFORMS)]
    with Pool(1, maxtasksperchild=1) as pool:
        found = pool.map(simulated, platforms, chunksize=1)
    for platform, ends in zip(platforms, found, strict=True):
        platform["flows"] = [[*flow, end] for flow, end in zip(platform["flows"], ends, strict=True)]
    lines = ",\n".join(json.dumps(platform, separators=(",", ":")) for platform in platforms)
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
