"""`bystander train tpi`: a model on TPI rows, in this process."""

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
    lay_dyadic,
    train_and_show,
)

if TYPE_CHECKING:
    from bystander.flows.training_run import TrainingOutcome


def train_tpi(
    data: Data = None,
    dyadic: Annotated[
        list[str] | None,
        typer.Option(
            help="Requests of one speaker with replies: a build of them, or a path, glob or URL of Parquet with the "
            "columns of VoiceAssistant-400K (others with --set dyadic.text_column=question); may be repeated."
        ),
    ] = None,
    mixture: Annotated[
        str | None,
        typer.Option(help="base (two-speaker rows), va (and --dyadic) or full (and hard negatives). Default: full."),
    ] = None,
    profile: Annotated[
        str,
        typer.Option(
            help="paper (Qwen2.5-Omni-7B, LoRA), miniature (a small model that says what a clip holds) or fake (a few "
            "steps of --model on the CPU, to see whether all is there)."
        ),
    ] = "paper",
    model: Annotated[
        str | None, typer.Option(help="Model to begin with: its folder, or its name on the Hugging Face hub.")
    ] = None,
    epochs: Epochs = None,
    steps: Steps = None,
    learning_rate: LearningRate = None,
    batch_size: BatchSize = None,
    micro_batch_size: MicroBatchSize = None,
    device: Device = None,
    loader_workers: LoaderWorkers = None,
    seed: Seed = None,
    out: Out = None,
    name: Name = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Train on TPI rows: fine-tune a speech-language model to write the reply that the strategy wants to a clip.

    What comes of it is evaluated with `evaluate tpi --system 'name={engine: transformers_audio, adapter: FOLDER}'`.
    Ctrl-C loses no checkpoint: the same command goes on from the last one.
    """
    from bystander.schemas.train_tpi_profiles import load_train_tpi_config

    given: dict[str, Any] = {
        "data": data or None,
        "mixture": mixture,
        "model.model": model,
        **gather_optimisation(epochs, steps, learning_rate, batch_size, micro_batch_size),
        "device": device,
        "loader_workers": loader_workers,
        "seed": seed,
        "store": out,
        "name": name,
    }
    overrides = lay_dyadic(dyadic, gather_overrides(set_, given))
    settings = load_train_tpi_config(profile, config or (), overrides)
    from bystander.flows.training_packages import require_packages

    require_packages()

    from bystander.flows.check_train_tpi import check_train_tpi

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_train_tpi(settings)

    def train() -> TrainingOutcome:
        from bystander.flows.train_tpi import run_train_tpi

        return run_train_tpi(settings)

    train_and_show(train)
