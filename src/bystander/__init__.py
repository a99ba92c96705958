"""Bystander: speech datasets about interruptions of voice assistants."""

__version__ = "0.1.0"
