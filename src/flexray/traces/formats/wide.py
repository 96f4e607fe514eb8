"""CSV with a header and one row per time: time (or time_s; seconds), then one column per machine."""

from flexray.traces import tables
from flexray.traces.samples import SampledTable

FORMAT = SampledTable("CSV with time, then one column per machine (seconds; fractions, or --unit percent)", tables.wide)
