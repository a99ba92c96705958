"""Recording sessions: script sheets made from a build, and their recordings made into rows."""
