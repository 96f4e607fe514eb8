"""CSV with a header and one row per machine and time: machine, time (or time_s; seconds), cpu."""

from flexray.traces import tables
from flexray.traces.samples import SampledTable

FORMAT = SampledTable("CSV with the columns machine,time,cpu (seconds; fractions, or --unit percent)", tables.long)
