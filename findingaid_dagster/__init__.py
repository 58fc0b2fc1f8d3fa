"""What every Dagster process must be able to import: the event storage. The library itself needs no Dagster."""
