"""Alibaba's cluster-trace-v2018: ``machine_usage.csv``, header-less, plain, gzipped or as the published ``.tar.gz``.

Columns: machine_id, time_stamp (s), cpu_util_percent (per cent by definition), and six more. A machine is sampled every
ten seconds or more.
"""

from flexray.traces.tables import Headerless

FORMAT = Headerless(
    "Alibaba's 2018 machine_usage.csv (per cent by definition), also .tar.gz", 9, machine=0, time=1, cpu=2
)
