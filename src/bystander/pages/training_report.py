"""`report.html` of a training run: one file that shows, offline, what was trained on what and how it went."""

from __future__ import annotations

from bystander.schemas.training_report import TrainingReport


def render_training_report(data: TrainingReport) -> str:
    """Return the page. It loads nothing from anywhere; the same data give the same page."""
    raise NotImplementedError
