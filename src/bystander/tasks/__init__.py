"""Stages, the engines they are handed, and the Prefect task that runs a stage over one partition."""
