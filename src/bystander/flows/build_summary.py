"""What a build says of itself at its end to the person who asked for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import pyarrow as pa

from bystander.schemas.build_config import BuildConfig
from bystander.schemas.errors import BuildError
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL
from bystander.schemas.tpi_params import TpiTargets
from bystander.storage.build_manifest import BuildManifest, Quota
from bystander.tasks.build_rejects import StageRuns, leave_rejects
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages.select_quotas import Selection


def list_quotas(targets: TpiTargets, scenarios: Sequence[str], selection: Selection, pairs: pa.Table) -> list[Quota]:
    """Return what was asked for and obtained of each label and scenario."""
    labels, by_scenario = count_strata(selection, pairs)
    short = {item.key: item.asked for item in selection.shortfalls if item.stratum == "scenario"}
    return [
        *(Quota(label=label, asked=asked, got=labels[label]) for label, asked in sorted(targets.labels.items())),
        Quota(label=HARD_NEGATIVE_LABEL, asked=targets.hard_negatives, got=len(selection.hard_negatives)),
        *(Quota(scenario=key, asked=short.get(key, by_scenario[key]), got=by_scenario[key]) for key in scenarios),
    ]


def count_strata(selection: Selection, pairs: pa.Table) -> tuple[Counter[str], Counter[str]]:
    """Return how many of the chosen `pairs` have each label, and each scenario."""
    chosen = set(selection.pairs)
    columns = (pairs[name].to_pylist() for name in ("id", "label", "scenario"))
    rows = [(label, scenario) for row_id, label, scenario in zip(*columns, strict=True) if row_id in chosen]
    return Counter(label for label, _ in rows), Counter(scenario for _, scenario in rows)


def describe_rejects(runs: StageRuns) -> str:
    """Return all reject reasons with their counts, most frequent first, as one phrase."""
    reasons: Counter[str] = Counter()
    for _, result in runs.runs:
        reasons.update({f"{result.stage}: {reason}": count for reason, count in result.reasons.items()})
    return ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "none"


def refuse_to_publish_nothing(
    config: BuildConfig,
    environment: StageEnvironment,
    runs: StageRuns,
    advice: str = "",
    without_audio: AbstractSet[str] = frozenset(),
) -> BuildError:
    """Return the error that ends a build of which no row is left; its rejects are written first, to be looked at.

    Args:
        config: of the build.
        environment: with the store.
        runs: every stage run.
        advice: a sentence on what may help.
        without_audio: as in `leave_rejects`.
    """
    why = f"{config.dataset}: no row passed all stages; rejected were {describe_rejects(runs)}."
    if any(result.rows_rejected for _, result in runs.runs):
        place = leave_rejects(environment.store, config.dataset, config.build_name, runs, without_audio)
        why += f" Each lies with its reason in {place}."
    return BuildError(f"{why} {advice}".strip())


def summarise(
    manifest: BuildManifest,
    location: str,
    selection: Selection,
    waves: int,
    calls: Mapping[str, Mapping[str, int]],
) -> tuple[str, ...]:
    """Return the build's result in sentences, one a line."""
    counts = manifest.counts
    labels = ", ".join(f"{count} {label}" for label, count in counts.by_label.items())
    lines = [
        f"{location}: {counts.rows} rows ({labels}), {counts.speech_s / 60:.1f} minutes, "
        f"{len(counts.by_scenario)} scenarios, {len(manifest.shards)} shards{f', {waves} waves' if waves else ''}."
    ]
    if manifest.kind == "tpi_bench":
        singles = counts.by_label.get(HARD_NEGATIVE_LABEL, 0)
        lines.append(f"{counts.twins} of {singles} one-speaker rows have their two-speaker twin in the bench.")
    if manifest.on_top_of is not None:
        lines.append(manifest.on_top_of.sentence)
    for other in manifest.disjoint_from:
        voices = "voice" if manifest.voices_disjoint_by == "voice" else "pair of voices"
        lines.append(f"Nothing in common with {other.dataset}/{other.build}: no query, no text, no {voices}.")
    for stage in manifest.stages:
        if stage.rejected:
            reasons = ", ".join(f"{reason} {count}" for reason, count in stage.reasons.items())
            lines.append(f"{stage.stage}: {stage.rejected} of {stage.rows_in} rejected ({reasons}).")
    lines += [f"Short: {shortfall.sentence}" for shortfall in selection.shortfalls]
    for role, count in calls.items():
        lines.append(f"{role}: {count['made']} calls made, {count['remembered']} remembered.")
    return tuple(lines)
