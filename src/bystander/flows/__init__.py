"""Prefect flows: order and fan-out, nothing else."""
