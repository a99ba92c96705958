"""Finds the mistakes in a dyadic build's settings that need no work to be found. Imports nothing that is slow to load.

There are two occasions: before Prefect starts, and once the engines are open, before the first partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bystander.flows.check_endpoints import check_model_server
from bystander.flows.check_on_top import compare_settings
from bystander.flows.check_runner import check_runner
from bystander.flows.check_tpi_train import check_store
from bystander.prompts.load import load_pack
from bystander.schemas.dyadic_config import DYADIC_ROLES, DyadicConfig
from bystander.schemas.errors import BuildError, ConfigError, StorageError, UserError
from bystander.schemas.packs import PromptPack
from bystander.storage.build_manifest import BuildManifest, EngineInfo, read_manifest
from bystander.storage.filesystem import Store, open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.releases import open_build, pin_build
from bystander.tasks.stages.mix_speakers import list_surroundings
from bystander.tasks.stages.plan_dyadic import list_quiet_classes

if TYPE_CHECKING:
    from bystander.tasks.environment import StageEnvironment

_SPEECH_STAGES = ("synthesise_speech", "verify_speakers", "mix_speakers")
_MOST_NAMED = 8


def pin_source(config: DyadicConfig) -> DyadicConfig:
    """Return the configuration with the name of a release as its source, and the source's pack where it names none.

    Raises:
        ConfigError: there is no such build, or it is no TPI build.
    """
    try:
        source = pin_build(config.source)
    except BuildError as exc:
        raise ConfigError(f"source {exc}") from exc
    config = config.model_copy(update={"source": source})
    _, manifest = open_source(config)
    return config if config.pack else config.model_copy(update={"pack": manifest.config.get("pack", "reference")})


def open_source(config: DyadicConfig) -> tuple[Store, BuildManifest]:
    """Return folder and manifest of the build that rows are taken from.

    Raises:
        ConfigError: it is no finished TPI build.
    """
    try:
        folder = open_build(config.source)
        manifest = read_manifest(folder)
    except (BuildError, StorageError) as exc:
        raise ConfigError(f"--from (source) {config.source}: {exc}") from exc
    if manifest.kind == "tpi_real":
        raise ConfigError(
            f"--from (source) {config.source}: is a build of real recordings, whose speakers say nothing else; take a "
            "synthetic one"
        )
    return folder, manifest


def check_dyadic_settings(config: DyadicConfig) -> None:
    """Raise what is wrong with the settings themselves: a wrong source, pack or file, or settings unlike its rows'.

    Raises:
        UserError: names the first thing that is wrong.
    """
    config = pin_source(config)
    folder, manifest = open_source(config)
    if folder.uri == open_store(config.store).child(config.dataset, config.build_name).uri:
        raise ConfigError(f"--from (source) {config.source}: is where this build is to be written; name it otherwise")
    _check_pack(config, manifest)
    list_surroundings(config.stages.mix_speakers)
    if config.same_speech:
        stages: dict[str, Any] = manifest.config.get("stages", {})
        now = config.stages.model_dump(mode="json")
        _refuse(
            config,
            [text for name in _SPEECH_STAGES for text in _compare(f"stages.{name}", stages.get(name), now[name])],
        )


def check_dyadic_build(config: DyadicConfig) -> None:
    """Raise what would stop the build later: wrong settings, a wrong store, task runner, model or speech server.

    Raises:
        UserError: names the first thing that is wrong.
    """
    check_dyadic_settings(config)
    check_store(config.store)
    engines = [getattr(config.engines, role) for role in DYADIC_ROLES]
    check_runner(config.runner, engines)
    models = ModelStore()
    for engine in engines:
        if engine.MODEL_IN_STORE and isinstance(model := getattr(engine, "model", None), str):
            models.resolve(model)
    check_model_server(config.engines.speech)


def check_opened_dyadic_engines(config: DyadicConfig, environment: StageEnvironment) -> None:
    """Open every engine, and raise where another one made the speech of the source's rows.

    Raises:
        ConfigError: names what differs.
        EngineSetupError: an engine cannot be opened.
    """
    _, manifest = open_source(config)
    differing: list[str] = []
    for role in DYADIC_ROLES:
        here = EngineInfo(**environment.engine(role).identity.describe()).model_dump()
        if role in manifest.engines:
            differing += _compare(f"engines.{role}", manifest.engines[role].model_dump(), here)
    if config.same_speech:
        _refuse(config, differing)


def _check_pack(config: DyadicConfig, manifest: BuildManifest) -> PromptPack:
    remedy = "name the folder of the pack that it was built with (--pack)"
    try:
        pack = load_pack(str(config.pack))
    except UserError as exc:
        raise ConfigError(f"--from (source) {config.source}: its pack cannot be read ({exc}); {remedy}") from exc
    if pack.digest != manifest.pack.digest:
        raise ConfigError(
            f"--from (source) {config.source}: was built with pack {manifest.pack.name!r} "
            f"({manifest.pack.digest[:12]}), and {config.pack!r} is another or has changed since "
            f"({pack.digest[:12]}); {remedy}"
        )
    if not list_quiet_classes(pack.classes):
        raise ConfigError(
            f"--from (source) {config.source}: every class of pack {pack.name!r} takes up the remark in its replies, "
            "so none answers the request alone; take a build with a class that does not, as `ignorable` of `reference`"
        )
    return pack


def _compare(name: str, then: Any, now: Any) -> Iterator[str]:
    return compare_settings(name, then, now) if then is not None else iter(())


def _refuse(config: DyadicConfig, differing: list[str]) -> None:
    if differing:
        more = f" and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
        listed = "; ".join(differing[:_MOST_NAMED]) + more
        raise ConfigError(
            f"--from (source) {config.source}: its rows were spoken or mixed otherwise ({listed}), and a model could "
            "tell them apart by that alone; give the same profile and settings, or set same_speech to false"
        )
