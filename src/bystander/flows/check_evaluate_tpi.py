"""Finds the mistakes in an evaluation's settings that need no work to be found. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bystander.flows.bench_pack import choose_pack
from bystander.flows.check_evaluation import check_engines, list_raters, require_systems
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store
from bystander.prompts.load import LoadedPack, load_pack
from bystander.schemas.engine_config import EngineConfig
from bystander.schemas.errors import ConfigError, InputError
from bystander.schemas.evaluate_config import EvaluateTpiConfig
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL
from bystander.storage.bench_rows import open_bench
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.rating_files import read_ratings
from bystander.tasks.check_pack import require_sound_rubrics


def check_evaluate_tpi(config: EvaluateTpiConfig) -> None:
    """Raise what would stop the evaluation later: a wrong bench, pack, system, judge, file, store or model.

    Raises:
        UserError: names the first thing that is wrong.
    """
    require_systems(config)
    if not config.judges:
        raise ConfigError("judges: name at least one, with --judge name=config.yaml")
    source = choose_pack(config)
    pack = load_pack(source)
    pack.require_rubrics()
    require_sound_rubrics(source)
    _, manifest = open_bench(config.bench)
    _check_labels(config, manifest, pack)
    for ratings in config.ratings:
        rated = {system for system, _ in read_ratings(ratings)}
        if not rated & set(config.systems):
            raise InputError(
                f"ratings {ratings.path}: rates {', '.join(sorted(rated))}, none of the systems that are evaluated: "
                f"{', '.join(config.systems)}"
            )
    check_store(config.store)
    check_runner(config.runner, (engine for _, engine in _list_engines(config)))
    check_engines(_list_engines(config))


def _list_engines(config: EvaluateTpiConfig) -> Iterator[tuple[str, EngineConfig]]:
    yield from list_raters(config)
    if config.controls.verifier is not None:
        yield "verifier of the controls", config.controls.verifier


def describe_other_pack(manifest: BuildManifest, pack: LoadedPack) -> str | None:
    """Return a warning if the bench was built by other texts than those that it is judged by."""
    built: Mapping[str, str] = {"name": manifest.pack.name, "digest": manifest.pack.digest}
    if built["digest"] == pack.digest:
        return None
    return (
        f"warning: the bench was built with pack {built['name']} {built['digest'][:12]}, and is judged by pack "
        f"{pack.name} {pack.digest[:12]}: its labels and replies may follow another strategy"
    )


def _check_labels(config: EvaluateTpiConfig, manifest: BuildManifest, pack: LoadedPack) -> None:
    classes = {item.key for item in pack.classes}
    labels = {label for label, count in manifest.counts.by_label.items() if count and label != HARD_NEGATIVE_LABEL}
    if "tpi_test" in config.tests and (unknown := sorted(labels - classes)):
        raise ConfigError(
            f"bench {config.bench}: has rows labelled {', '.join(unknown)}, but pack {pack.name!r} has the classes "
            f"{', '.join(sorted(classes))}; leave --pack out to judge with the bench's own, "
            f"{manifest.pack.name!r}"
        )
