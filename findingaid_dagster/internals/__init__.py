"""All use of undocumented parts of Dagster, in modules that do not need each other.

If a new Dagster moves a part that `sqlite` uses, this breaks only users of that storage.

A test fails if code elsewhere uses an undocumented part (tests/code_location/test_internals.py). `make test-dagster`
runs the code location with the oldest and the newest Dagster.
"""
