"""Contract suites, one per protocol, run over every implementation including the fakes."""
