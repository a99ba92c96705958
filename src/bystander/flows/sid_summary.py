"""What a finished SID build says of itself to the person who asked for it."""

from __future__ import annotations

from collections.abc import Mapping

from bystander.schemas.annotation_error import AnnotationError
from bystander.schemas.sid import NOISE, SILENCE
from bystander.schemas.sid_config import SidTargets
from bystander.storage.sid_manifest import SidManifest, SidQuota
from bystander.tasks.stages.select_sid import Cell, SidSelection


def list_sid_quotas(targets: SidTargets, selection: SidSelection) -> list[SidQuota]:
    """Return what was asked for and obtained of each category, in each language; none for the natural distribution."""
    asked: dict[Cell, int] = {(None, SILENCE): targets.silence, (None, NOISE): targets.noise}
    for language in targets.languages:
        asked |= {(language, category): rows for category, rows in (targets.per_language or {}).items()}
    missing = selection.missing
    return [
        SidQuota(language=language, category=category, asked=rows, got=rows - missing.get((language, category), 0))
        for (language, category), rows in asked.items()
    ]


def summarise_sid(
    manifest: SidManifest, location: str, waves: int, calls: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...]:
    """Return the build's result in sentences, one a line."""
    counts = manifest.counts
    categories = ", ".join(f"{count} {category}" for category, count in counts.by_category.items())
    lines = [
        f"{location}: {counts.rows} rows ({categories}), {counts.audio_s / 60:.1f} minutes, "
        f"{counts.recordings} recordings, {counts.synthetic} rows synthetic, {len(manifest.shards)} shards, "
        f"{waves} waves."
    ]
    lines += [f"Annotation error, {_describe_error(error)}" for error in manifest.annotation if error.category is None]
    lines += [
        f"Nothing in common with {other.dataset}/{other.build}: no recording, no noise, no telling text."
        for other in manifest.disjoint_from
    ]
    for stage in manifest.stages:
        if stage.rejected:
            reasons = ", ".join(f"{reason} {count}" for reason, count in stage.reasons.items())
            lines.append(f"{stage.stage}: {stage.rejected} of {stage.rows_in} rejected ({reasons}).")
    lines += [f"Short: {quota.stratum}: {quota.got} of {quota.asked} rows." for quota in manifest.shortfalls]
    lines += [f"Left out: {language}: {reason}." for language, reason in manifest.left_out.items()]
    for role, count in calls.items():
        lines.append(f"{role}: {count['made']} calls made, {count['remembered']} remembered.")
    return tuple(lines)


def _describe_error(error: AnnotationError) -> str:
    who = error.language or "all"
    text = f"{who}: {error.tag_right} of {error.rows} tagged rightly"
    if error.median_ms is None or error.p90_ms is None:
        return f"{text}."
    return (
        f"{text}; break time off by {error.median_ms:.0f} ms in the median, {error.p90_ms:.0f} ms at the 90th "
        f"percentile, {100 * (error.within_50_ms or 0):.0f} % within 50 ms."
    )
