"""`bystander train sid`: a detector of interruptions, from finished builds of SID rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.overrides import gather_overrides
from bystander.cli.train_options import (
    BatchSize,
    Config,
    Data,
    Device,
    Epochs,
    LearningRate,
    LoaderWorkers,
    MicroBatchSize,
    Name,
    Out,
    Seed,
    Set,
    Steps,
    gather_optimisation,
    train_and_show,
)

if TYPE_CHECKING:
    from bystander.flows.training_run import TrainingOutcome


def train_sid(
    data: Data = None,
    profile: Annotated[
        str, typer.Option(help="paper: audio encoder and small language model, for GPUs; miniature: for a laptop.")
    ] = "miniature",
    encoder: Annotated[
        str | None,
        typer.Option(help="Of sid_lm: folder or hub name of a Qwen3-Omni or a Whisper model, for its audio encoder."),
    ] = None,
    language_model: Annotated[
        str | None, typer.Option(help="Of sid_lm: folder or hub name of a causal language model.")
    ] = None,
    transcripts: Annotated[
        list[str] | None,
        typer.Option(
            help="Of sid_lm, for stage 1: Parquet with audio and text, as PATH or PATH:AUDIO_COLUMN:TEXT_COLUMN; may "
            "be repeated."
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Positive chunks in a row before it stops. Default: 3.")
    ] = None,
    epochs: Epochs = None,
    steps: Steps = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    micro_batch_size: MicroBatchSize = None,
    seed: Seed = None,
    device: Device = None,
    loader_workers: LoaderWorkers = None,
    out: Out = None,
    name: Name = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Train a detector of interruptions: does a prefix of what the user says end after the break?

    Ctrl-C loses nothing up to the last checkpoint: the same command goes on from there. Its threshold is chosen on rows
    that are held out. `bystander evaluate sid --detectors k3:sid_lm:model=OUT/trained/NAME` hears it.
    """
    from bystander.schemas.train_sid_config import load_train_sid_config

    given: dict[str, Any] = {
        "data": data or None,
        "model.encoder": encoder,
        "model.language_model": language_model,
        "model.transcripts": [_parse_transcripts(text) for text in transcripts] if transcripts else None,
        "k": k,
        "seed": seed,
        "device": device,
        "loader_workers": loader_workers,
        "store": out,
        "name": name,
        **gather_optimisation(epochs, steps, learning_rate, batch_size, micro_batch_size),
    }
    settings = load_train_sid_config(profile, config or (), gather_overrides(set_, given))
    from bystander.flows.training_packages import require_packages

    require_packages()

    from bystander.flows.check_train_sid import check_train_sid
    from bystander.storage.pinned_builds import pin_training

    # Prefect takes seconds to import, and torch longer: mistakes are found before.
    settings = pin_training(settings)
    check_train_sid(settings)

    def train() -> TrainingOutcome:
        from bystander.flows.train_sid import run_train_sid

        return run_train_sid(settings)

    train_and_show(train)


def _parse_transcripts(text: str) -> dict[str, str]:
    """Return the fields of PATH or PATH:AUDIO_COLUMN:TEXT_COLUMN; a URL has colons of its own."""
    path, *columns = text.rsplit(":", 2)
    if len(columns) == 2 and path and not any("/" in column for column in columns):
        return {"path": path, "audio_column": columns[0], "text_column": columns[1]}
    return {"path": text}
