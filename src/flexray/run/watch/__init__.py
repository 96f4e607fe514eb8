"""What watches a run: files in the run folder, the timeline, the progress bar, the summary."""
