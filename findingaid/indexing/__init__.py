"""Write path: plan a run, take batches through the stages, check and publish."""
