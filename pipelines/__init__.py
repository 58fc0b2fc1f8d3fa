"""Code location: the `index` job, its schedules and sensors, and the only Definitions."""
