"""Stages: one pure function from a table to kept and rejected rows a file."""
