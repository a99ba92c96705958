"""Finds what keeps a build from standing on another, before any work: settings that its rows were not made with.

The rows of the base are taken as they are. So whatever decided them must be what the new build says of itself, or its
manifest would tell of rows that it does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bystander.prompts.load import load_pack
from bystander.schemas.config import TpiBenchConfig, TpiConfig
from bystander.schemas.engines import EngineRole
from bystander.schemas.errors import ConfigError
from bystander.schemas.taxonomy import load_taxonomy
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL
from bystander.storage.base_build import open_base
from bystander.storage.build_manifest import BuildManifest, EngineInfo
from bystander.storage.filesystem import open_store
from bystander.tasks.stages import HARD_NEGATIVE_REPLY_STAGES, QUERY_STAGES, RELABEL_STAGES

if TYPE_CHECKING:
    from bystander.tasks.environment import StageEnvironment

_FREE: Mapping[str, frozenset[str]] = {
    "normalise_queries": frozenset({"languages", "min_words", "max_words", "max_characters"}),
    "draw_scenarios": frozenset({"draws_per_query"}),
}
"""Settings that decide which rows there are, and nothing of a row that is there."""
_SPEECH_ROLES: tuple[EngineRole, ...] = ("speech", "recogniser", "verifier")
_MOST_NAMED = 8


def check_on_top(config: TpiConfig) -> None:
    """Raise where a build cannot stand on the one that its `on_top_of` names, as far as manifests tell.

    Raises:
        ConfigError: says what differs and what to do.
    """
    asked = config.on_top_of
    if asked is None:
        return
    folder, manifest = open_base(asked.build)
    name = f"{manifest.dataset}/{manifest.build}"
    where = f"on_top_of {asked.build}"
    if folder.uri == open_store(config.store).child(config.dataset, config.build_name).uri:
        raise ConfigError(f"{where}: is where this build is to be written; give this one another name with --name")
    if manifest.parts_of is not None:
        raise ConfigError(f"{where}: was cut into parts from {manifest.parts_of.of.uri}; name that build instead")
    kind = "tpi_bench" if isinstance(config, TpiBenchConfig) else "tpi_train"
    if manifest.kind != kind:
        raise ConfigError(f"{where}: is of the kind {manifest.kind}, this build is of the kind {kind}")
    differing = [
        f"{field} is {now} here and {there} there"
        for field, now, there in (
            ("seed", config.seed, manifest.seed),
            ("taxonomy", load_taxonomy(config.taxonomy).digest()[:12], manifest.taxonomy.digest[:12]),
            ("stages.mix_speakers.sampling_rate", config.stages.mix_speakers.sampling_rate, manifest.sampling_rate),
        )
        if now != there
    ]
    if differing:
        raise ConfigError(f"{where}: {'; '.join(differing)}; rows of {name} can only be here with the same")
    if asked.rows == "first":
        _check_growth(config, manifest, where)


def check_same_settings(config: TpiConfig, environment: StageEnvironment) -> None:
    """Raise where rows of the base were made with other settings than this build's, now that its engines are open.

    Where only its rows are wanted again, what made labels and replies may differ, and so may the text models: the
    texts are the base's, as the fingerprints in the manifest say.

    Raises:
        ConfigError: names the settings.
    """
    asked = config.on_top_of
    if asked is None:
        return
    _, manifest = open_base(asked.build)
    found = _compare_stages(manifest, environment) if asked.rows == "first" else _compare_rows(manifest, environment)
    differing = list(dict.fromkeys(found))
    if not differing:
        return
    more = f" and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
    listed = "; ".join(differing[:_MOST_NAMED]) + more
    raise ConfigError(
        f"on_top_of {asked.build}: its rows stay, and were made with other settings ({listed}); give the same, or "
        "build without on_top_of to have all rows made anew"
    )


def _check_growth(config: TpiConfig, manifest: BuildManifest, where: str) -> None:
    if isinstance(config, TpiBenchConfig):
        raise ConfigError(
            f"{where}: a bench cannot be grown, for scores on it would no longer compare; build another one, with this "
            "one in disjoint_from"
        )
    if manifest.on_top_of is not None and manifest.on_top_of.rows == "only":
        raise ConfigError(
            f"{where}: has just the rows of {manifest.on_top_of.uri}, as many of each class as there were; grow that "
            "build, and then make its rows again"
        )
    if not manifest.fingerprints:
        raise ConfigError(
            f"{where}: its manifest does not say what its rows were made with, as it is from an earlier version; build "
            "it again with this one"
        )
    pack = load_pack(config.pack)
    if pack.digest != manifest.pack.digest:
        raise ConfigError(
            f"{where}: was built with pack {manifest.pack.name!r} ({manifest.pack.digest[:12]}), this build has "
            f"{pack.name!r} ({pack.digest[:12]}), and all rows of a build are of one pack; give the same, or make its "
            "rows again with rows: only (--same-rows-as)"
        )
    _check_targets(config, manifest, where)


def _check_targets(config: TpiConfig, manifest: BuildManifest, where: str) -> None:
    targets = config.targets
    there = {label: count for label, count in manifest.counts.by_label.items() if label != HARD_NEGATIVE_LABEL}
    singles = manifest.counts.by_label.get(HARD_NEGATIVE_LABEL, 0)
    asked = {**targets.labels, HARD_NEGATIVE_LABEL: targets.hard_negatives}
    above = [
        f"{count} {label} where {asked.get(label, 0)} are asked for"
        for label, count in {**there, HARD_NEGATIVE_LABEL: singles}.items()
        if count > asked.get(label, 0)
    ]
    if above:
        raise ConfigError(
            f"{where}: has {', '.join(above)}, and all its rows stay; raise the targets (--rows, --hard-negatives)"
        )
    fresh = targets.pairs - sum(there.values())
    if targets.hard_negatives - singles > fresh:
        raise ConfigError(
            f"targets.hard_negatives: {targets.hard_negatives - singles} more than in {manifest.build} are asked for, "
            f"but each is the twin of a new two-speaker row, and those are {fresh}; raise targets.labels too (--rows)"
        )


def _compare_stages(manifest: BuildManifest, environment: StageEnvironment) -> Iterator[str]:
    """Yield what differs in the descriptions of the stages that a row passes."""
    # What it is slow to import must not be loaded before Prefect's start.
    from bystander.tasks.stage_description import describe_stages

    now = json.loads(json.dumps(describe_stages(manifest.fingerprints, environment)))
    for stage, then in manifest.fingerprints.items():
        for field in sorted({*then, *now[stage]} - {"exclusions"}):  # the rows are held against other builds one by one
            yield from compare_settings(
                f"{stage}.{field}", then.get(field), now[stage].get(field), _FREE.get(stage, frozenset())
            )


def _compare_rows(manifest: BuildManifest, environment: StageEnvironment) -> Iterator[str]:
    """Yield what differs in the settings of the stages that are not run again, and in the engines of speech."""
    made_anew = {*QUERY_STAGES, *RELABEL_STAGES, *HARD_NEGATIVE_REPLY_STAGES}
    config: Mapping[str, Any] = manifest.config.get("stages", {})
    for stage, now in environment.job.stages.model_dump(mode="json").items():
        if stage not in made_anew and stage in config:
            yield from compare_settings(f"stages.{stage}", config[stage], now, _FREE.get(stage, frozenset()))
    for role in _SPEECH_ROLES:
        here = EngineInfo(**environment.engine(role).identity.describe()).model_dump()
        if role in manifest.engines:
            yield from compare_settings(f"engines.{role}", manifest.engines[role].model_dump(), here)


def compare_settings(name: str, then: Any, now: Any, free: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield each setting in which two mappings differ, with both values, but for those in `free`."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted({*then, *now} - free):
            if key not in then or key not in now:
                continue  # a setting that another version has: what it does is in the stage's version
            yield from compare_settings(f"{name}.{key}", then[key], now[key])
    elif then != now:
        yield f"{name} {_show(then)} there, {_show(now)} here"


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
