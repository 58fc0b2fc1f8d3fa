"""What of findingaid must be importable by every Dagster process: its event storage. The library itself needs no Dagster."""
