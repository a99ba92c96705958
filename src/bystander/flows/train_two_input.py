"""Training of the two-input model on one mixture, within the flow that trains on TPI rows."""

from __future__ import annotations

from bystander.flows.training_run import TrainingDesk, TrainingOutcome, run_training
from bystander.schemas.train_tpi_config import TrainTpiConfig, TwoInputConfig
from bystander.schemas.trained_two_input import TrainedTwoInput
from bystander.storage.model_store import ModelStore
from bystander.tasks.training.mixture import mix_parts
from bystander.tasks.training.trained import Trained, TrainingInputs

_NOTE = "It says what a clip holds and writes no reply; `bystander train mixtures` compares what mixtures teach it."
_USAGE = (
    "```python\n"
    "from bystander.tasks.training.two_input_files import load_two_input\n\n"
    'model, about = load_two_input(Path("."))\n'
    "```"
)


def train_two_input(config: TrainTpiConfig, settings: TwoInputConfig) -> TrainingOutcome:
    """Train a two-input model on a mixture and publish it, or return what lies published from just the same.

    All rows of the mixture are held in memory, some 30 KB each.

    Raises:
        ConfigError: a part of the mixture has no row.
        BuildError, StorageError, InputError: as `run_training`, and for the data as `open_tpi_rows`.
        ModelStoreError: the speaker encoder is not in the model store.
    """
    from bystander.tasks.training.two_input_files import save_two_input
    from bystander.tasks.training.two_input_rows import list_classes
    from bystander.tasks.training.two_input_shards import index_rows, perceive_rows
    from bystander.tasks.training.two_input_sound import open_sound_front
    from bystander.tasks.training.two_input_training import TwoInputData, make_two_input_job

    index = index_rows(config.data, config.dyadic if config.mixture != "base" else ())
    train, held_out, record = mix_parts(index, config.mixture, config.proportions, config.seed, config.held_out.share)
    front = open_sound_front(settings, ModelStore().resolve)

    def make(desk: TrainingDesk) -> Trained:
        desk.listener.on_phase(f"reading {len(index)} rows")
        rows = perceive_rows(index, front)
        data = TwoInputData(rows, train, held_out, list_classes(rows))
        job = make_two_input_job(config, settings, data, desk.checkpoints("training"))
        phase = desk.fit(job)
        about = TrainedTwoInput(model=settings, width=front.width, classes=data.classes)
        save_two_input(job.model, about, desk.output)
        figures = {"parameters": sum(weight.numel() for weight in job.model.parameters())}
        return Trained(desk.output, (phase,), figures, (_NOTE,), _USAGE)

    return run_training(config, "tpi", settings.architecture, TrainingInputs(record, left_out=index.left_out), make)
