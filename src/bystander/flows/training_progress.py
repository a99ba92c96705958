"""Tells a terminal and Prefect how a training run goes on."""

from __future__ import annotations

import math

from bystander.flows.prefect_listener import PrefectListener
from bystander.schemas.training_config import Optimisation
from bystander.tasks.training.contract import StepRecord

_TOLD_SHARE = 0.02
"""Share of a phase after which something is said again."""


class TrainingProgress:
    """Says in a line how far a phase is, each 2 % of it and at each held-out loss, and its share to Prefect."""

    def __init__(self, listener: PrefectListener, phase: str, optimisation: Optimisation) -> None:
        self._listener = listener
        self._phase = phase
        self._optimisation = optimisation
        self._told = -math.inf

    def on_phase(self, phase: str) -> None:
        self._listener.on_phase(phase)

    def on_record(self, record: StepRecord) -> None:
        if self._optimisation.max_steps is not None:
            share = record.step / self._optimisation.max_steps
        else:
            share = record.epoch / self._optimisation.epochs
        share = min(share, 1.0)
        self._listener.show_share(100 * share)
        if record.held_out_loss is None and share - self._told < _TOLD_SHARE:
            return
        self._told = share
        loss = f", loss {record.loss:.4f}" if record.loss is not None else ""
        held_out = f", held-out loss {record.held_out_loss:.4f}" if record.held_out_loss is not None else ""
        self._listener.on_phase(f"{self._phase}: step {record.step}, epoch {record.epoch:.2f}{loss}{held_out}")
