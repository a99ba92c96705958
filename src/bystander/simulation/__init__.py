"""Simulated engines of a known capacity: for dry runs, planning, and to prove that the pipeline keeps engines busy."""
