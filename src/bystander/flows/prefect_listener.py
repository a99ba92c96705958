"""Shows a build in Prefect: a progress artifact while it runs, tables and a summary when it is done."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from bystander.flows.listeners import BuildListener
from bystander.flows.listening_link import find_report_address, make_listen_command, say_how_to_listen
from bystander.flows.log_listener import LogListener
from bystander.schemas.rebuild import RebuildPlan
from bystander.storage.build_manifest import ManifestBase
from bystander.storage.stage_results import StageResult

_log = logging.getLogger(__name__)


class PrefectListener:
    """Passes everything on to another listener, and the share of finished rows to Prefect.

    An artifact that the server does not take is logged and forgotten: showing a build must not end it.
    """

    def __init__(self, inner: BuildListener, dataset: str, shares: str = "Finished rows") -> None:
        """`shares` says what the progress artifact shows the share of."""
        self._inner = inner
        self._shares = shares
        self._dataset = re.sub(r"[^a-z0-9-]+", "-", dataset.lower())  # what Prefect takes as a key
        self._artifact: UUID | None = None
        self._shown = -1.0

    def on_phase(self, phase: str) -> None:
        self._inner.on_phase(phase)

    def on_plan(self, plan: RebuildPlan) -> None:
        """Leave the plan as a table, and pass it on. Without a server it is in the log all the same."""
        self._inner.on_plan(plan)
        if not isinstance(self._inner, LogListener):  # which has said it in the same log
            LogListener(get_run_logger()).on_plan(plan)
        table = [stage.as_row() for stage in plan.stages]
        try:
            create_table_artifact(key=f"{self._dataset}-plan", table=table, description=plan.headline)
        except Exception:  # the server may refuse or be gone; the build goes on all the same
            _log.warning("the plan could not be shown in Prefect", exc_info=True)

    def on_stream(self, stages: list[str], rows: int) -> None:
        self._inner.on_stream(stages, rows)

    def on_result(self, stage: str, result: StageResult, reused: bool) -> None:
        self._inner.on_result(stage, result, reused)

    def on_accepted(self, accepted: dict[str, int], wanted: dict[str, int]) -> None:
        total = sum(wanted.values())
        done = sum(min(accepted.get(label, 0), count) for label, count in wanted.items())
        self.show_share(100.0 * done / total if total else 100.0)
        self._inner.on_accepted(accepted, wanted)

    def publish(self, manifest: ManifestBase, summary: Sequence[str], location: str) -> None:
        """Leave the final tables (the funnel, rejects by reason), the summary, and the way to listen to the rows."""
        self.show_share(100.0)
        stages = manifest.stages
        funnel = [{"stage": s.stage, "rows in": s.rows_in, "accepted": s.kept, "rejected": s.rejected} for s in stages]
        rejects = [
            {"stage": s.stage, "reason": reason, "rows": count} for s in stages for reason, count in s.reasons.items()
        ]
        try:
            create_table_artifact(key=f"{self._dataset}-funnel", table=funnel, description="Rows by stage")
            create_table_artifact(key=f"{self._dataset}-rejects", table=rejects, description="Rejected rows by reason")
        except Exception:  # the server may refuse or be gone; the build is done all the same
            _log.warning("the tables could not be shown in Prefect", exc_info=True)
        self.publish_summary([*summary, say_how_to_listen(location)], location)
        self._publish_link(location)

    def _publish_link(self, location: str) -> None:
        """Leave a link to the report, where rows and rejects can be filtered and heard."""
        try:
            create_link_artifact(
                key=f"{self._dataset}-listen",
                link=find_report_address(location),
                link_text=f"Listen to {location}",
                description=f"Rows and rejects to hear. All of them: `{make_listen_command(location)}`",
            )
        except Exception:  # as above
            _log.warning("the link to the report could not be shown in Prefect", exc_info=True)

    def publish_summary(self, summary: Sequence[str], location: str) -> None:
        """Leave the summary."""
        self.show_share(100.0)
        lines = "\n".join(f"- {line}" for line in summary)
        try:
            create_markdown_artifact(
                key=f"{self._dataset}-summary", markdown=f"# {location}\n\n{lines}\n", description="What was made"
            )
        except Exception:  # as above
            _log.warning("the summary could not be shown in Prefect", exc_info=True)

    def show_share(self, percent: float) -> None:
        """Show that so much is done; steps of less than one percent are left out."""
        if abs(percent - self._shown) < 1.0 and percent < 100.0:
            return
        self._shown = percent
        try:
            if self._artifact is None:
                made = create_progress_artifact(percent, key=f"{self._dataset}-progress", description=self._shares)
                self._artifact = made if isinstance(made, UUID) else None
            else:
                update_progress_artifact(self._artifact, percent)
        except Exception:  # as above
            _log.warning("progress could not be shown in Prefect", exc_info=True)
