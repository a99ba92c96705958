"""What the commands that train share: options, the check for packages, and a run whose outcome is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.evaluate_options import run_and_show
from bystander.schemas.errors import ConfigError

if TYPE_CHECKING:
    from bystander.flows.training_run import TrainingOutcome

Data = Annotated[
    list[str] | None,
    typer.Option(help="Folder or URL of a finished build to train on; may be repeated. STORE/DATASET/latest will do."),
]
Out = Annotated[
    str | None,
    typer.Option(
        help="Store: folder or URL of the run and of caches; one that was stopped goes on from them. Default: "
        "bystander-store."
    ),
]
Name = Annotated[
    str | None, typer.Option(help="Name of the run's folder, OUT/trained/NAME. Default: derived from the settings.")
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of first weights, orders, dropout and held-out rows. Default: 0.")
]
Device = Annotated[str | None, typer.Option(help="auto, cpu or cuda. Default: auto, a GPU where torch finds one.")]
LoaderWorkers = Annotated[
    int | None, typer.Option(min=0, help="Processes that read and decode ahead. Changes the speed, never a weight.")
]
Epochs = Annotated[float | None, typer.Option(min=0, help="How often each row is seen.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Steps after which training ends, whatever --epochs says.")]
LearningRate = Annotated[float | None, typer.Option(min=0, help="Highest learning rate.")]
BatchSize = Annotated[int | None, typer.Option(min=1, help="Examples a step, over all devices and micro-batches.")]
MicroBatchSize = Annotated[
    int | None, typer.Option(min=1, help="Examples in memory at once on a device; divides the batch size.")
]
Config = Annotated[list[str] | None, typer.Option(help="YAML file of fields; may be repeated, the last one wins.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="One field as name=value, over all files. E.g. optimisation.warmup_share=0.05."),
]


def lay_dyadic(paths: Sequence[str] | None, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return overrides with the dyadic sources of options; what is set of `dyadic.NAME` holds for each of them.

    Raises:
        ConfigError: there is no source for it to hold for.
    """
    shared = {key: value for key, value in overrides.items() if key.startswith("dyadic.")}
    if not paths:
        if shared:
            raise ConfigError(f"{next(iter(shared))}: name the Parquet that it is about with --dyadic")
        return overrides
    columns = {key.removeprefix("dyadic."): value for key, value in shared.items()}
    others = {key: value for key, value in overrides.items() if key not in shared}
    return {**others, "dyadic": [{"path": path, **columns} for path in paths]}


def gather_optimisation(
    epochs: float | None,
    steps: int | None,
    learning_rate: float | None,
    batch_size: int | None,
    micro_batch_size: int | None,
) -> dict[str, Any]:
    """Return the fields of a configuration that the options of optimisation stand for; None where one was not given."""
    return {
        "optimisation.epochs": epochs,
        "optimisation.max_steps": steps,
        "optimisation.learning_rate": learning_rate,
        "optimisation.batch_size": batch_size,
        "optimisation.micro_batch_size": micro_batch_size,
    }


def train_and_show(train: Callable[[], TrainingOutcome]) -> None:
    """Run a training flow with its progress shown; print its summary, its curves, and where it lies."""

    def run() -> tuple[Sequence[str], str]:
        from bystander.tasks.training.published_curves import draw_curves

        outcome = train()
        return outcome.summary, draw_curves(outcome.location, outcome.manifest)

    run_and_show(run)
