"""Azure's public datasets V1 (2017) and V2 (2019): ``vm_cpu_readings`` files, header-less CSV, gzipped or not.

Columns: timestamp (s), VM id, minimum, maximum and average CPU of five minutes (per cent by definition). A virtual
machine stands for a machine here. There are millions of them, most short-lived: only the first ``--max-machines`` that
appear are kept, and ``--min-coverage`` leaves out those with values in too few windows.
"""

from flexray.traces.tables import Headerless

FORMAT = Headerless("Azure's vm_cpu_readings files, V1 and V2 (per cent by definition)", 5, time=0, machine=1, cpu=4)
