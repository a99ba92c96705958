"""`bystander evaluate controls`: do the rows of a finished build need ears?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bystander.schemas.engine_configs import EngineConfigs
    from bystander.schemas.text_engine_configs import TextEngineConfig


def evaluate_controls(
    build: Annotated[str, typer.Argument(help="The build's folder or fsspec URL.")],
    profile: Annotated[
        str | None, typer.Option(help="Whose verifier and judge to use. Default: those that made the build.")
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Also ask the judge about the transcripts, one call for each.")
    ] = False,
    text_only: Annotated[bool, typer.Option("--text-only", help="Leave out the control that hears.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides folds and resamples.")] = 0,
) -> None:
    """Tell two-speaker rows from one-speaker rows by the transcript and by the voices: AUC, 0.5 is chance.

    Writes controls.json beside the build and a section of its card; the rows and checksums stay as they are.
    """
    from bystander.schemas.evaluate_config import ControlsConfig
    from bystander.storage.build_manifest import read_manifest
    from bystander.storage.control_section import CONTROLS_NAME, list_figures
    from bystander.storage.releases import open_build
    from bystander.tasks.publish_controls import publish_controls

    store = open_build(build)
    made = read_manifest(store)
    engines = _choose_engines(store.uri, made.config, profile)
    config = ControlsConfig(transcript_judges=judge, verifier=None if text_only else engines.verifier)
    asked = engines.judge or engines.writer
    judges: dict[str, TextEngineConfig] = {asked.engine: asked} if judge else {}
    found = publish_controls(store, config, seed, judges, str(made.config.get("pack", "reference")))
    for control, (name, figure) in zip(found.controls, list_figures(found.controls), strict=True):
        typer.echo("; ".join(part for part in (f"{name}: {figure}", f"{control.pairs} pairs", control.note) if part))
    typer.echo(f"{store.uri_of(CONTROLS_NAME)}: written, and the card's section with it.")


def _choose_engines(build: str, made: Mapping[str, Any], profile: str | None) -> EngineConfigs:
    from pydantic import ValidationError

    from bystander.schemas.config import load_config
    from bystander.schemas.engine_configs import EngineConfigs
    from bystander.schemas.errors import BuildError

    if profile is not None:
        return load_config(profile).engines
    try:
        return EngineConfigs.model_validate(made.get("engines"))
    except ValidationError as exc:
        raise BuildError(f"{build}: the manifest does not name the engines of the build; give --profile") from exc
