"""What a deployment's run shows of its outcome: a page in Prefect, and an event when a release was published."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Literal

from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event

from bystander.flows.listening_link import make_listen_command
from bystander.schemas.build_config import BuildConfig

RELEASE_EVENT = "bystander.release"
"""Emitted when a dataset's `latest` has moved; its resource is `bystander.dataset.<dataset>`."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What came of a run, whatever it made."""

    kind: Literal["build", "evaluation", "training"]
    name: str
    """The dataset, or the name of the evaluation or training."""
    location: str
    summary: tuple[str, ...]
    is_new: bool
    """Whether anything was published that was not there before."""
    rows: int | None = None
    latest: str | None = None
    """The dataset's latest release, where this was to be one."""

    @property
    def sentence(self) -> str:
        """What came of it, in one line."""
        if not self.is_new:
            return f"Nothing new: {self.location} is made of just this."
        rows = f", {self.rows:,} rows" if self.rows is not None else ""
        what = "New release" if self.latest else f"New {self.kind}"
        return f"{what}: {self.location}{rows}."


def show_outcome(outcome: RunOutcome) -> None:
    """Leave a page with the run: what was made, where it lies, whether it is new, and the summary."""
    facts = {
        "New": "yes" if outcome.is_new else "no, nothing has changed",
        "Lies at": f"`{outcome.location}`",
        "Report": f"`{outcome.location}/report.html`",
    }
    if outcome.kind == "build":
        facts["Listen"] = f"`{make_listen_command(outcome.location)}`"
    if outcome.rows is not None:
        facts["Rows"] = f"{outcome.rows:,}"
    if outcome.latest is not None:
        facts["Latest release"] = f"`{outcome.latest}`"
    table = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    lines = "\n".join(f"- {line}" for line in outcome.summary)
    what = "Dataset" if outcome.kind == "build" else outcome.kind.capitalize()
    markdown = f"| {what} | **{outcome.name}** |\n|---|---|\n{table}\n### Summary\n\n{lines}\n"
    key = re.sub(r"[^a-z0-9-]+", "-", f"{outcome.name}-outcome".lower())
    try:
        create_markdown_artifact(key=key, markdown=markdown, description=outcome.sentence)
    except Exception:  # the server may refuse or be gone; the work is done all the same
        _log.warning("the outcome could not be shown in Prefect", exc_info=True)


def announce_release(config: BuildConfig, outcome: RunOutcome) -> None:
    """Emit the event that automations wait for: to evaluate a new bench, or to tell people."""
    emit_event(
        event=RELEASE_EVENT,
        resource={
            "prefect.resource.id": f"bystander.dataset.{config.dataset}",
            "prefect.resource.name": config.dataset,
            "bystander.profile": config.profile,
            "bystander.store": config.store,
        },
        payload={
            "dataset": config.dataset,
            "store": config.store,
            "build": outcome.latest,
            "location": outcome.location,
            "rows": outcome.rows,
            "summary": list(outcome.summary),
        },
    )
