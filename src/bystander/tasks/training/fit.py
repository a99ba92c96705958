"""One run of the trainer of `transformers` over a `FitJob`: the loop that all models share."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from bystander.schemas.errors import BuildError, ConfigError, InputError
from bystander.schemas.identity import derive_seed, digest_json
from bystander.schemas.training_config import Optimisation, TrainingConfig
from bystander.tasks.training.checkpoints import Checkpoint, RunIdentity, find_checkpoint
from bystander.tasks.training.contract import ExampleSource, FitJob, FitOutcome, StepRecord
from bystander.tasks.training.training_history import gather_history, read_log

if TYPE_CHECKING:
    from bystander.tasks.training.planned_trainer import PlannedTrainer

OnRecord = Callable[[StepRecord], None]
"""Is told each record as it comes: of one step first its loss, then its held-out loss."""
OnPhase = Callable[[str], None]
"""Is told in words what is done now."""

_MOST_RECORDS = 10_000
_STATE_NAME = "trainer_state.json"


def fit(job: FitJob, on_record: OnRecord | None = None, on_phase: OnPhase | None = None) -> FitOutcome:
    """Train the model of a job, from its start or from the last whole checkpoint in its folder, and return its history.

    A run that was killed and taken up again ends with the weights and the history of one that was not: weights,
    optimiser, schedule, generators and the place in the data are those of the checkpoint. On a CPU, with as many
    threads, that holds to the last bit, whatever `loader_workers` is. Python's, NumPy's and torch's global generators
    are left as they were; initial weights are the caller's, who seeds what draws them. The model is left in evaluation
    mode.

    What the loss has to be, see `PlannedTrainer`.

    Raises:
        ConfigError: the device is not there, `micro_batch_size` times the devices does not divide `batch_size`, or the
            model cannot do with `gradient_checkpointing`.
        InputError: there is nothing to train on.
        BuildError: the loss is not finite any more, or the checkpoints come from other data.
        StorageError: a checkpoint cannot be written, or an example cannot be read.
    """
    if not len(job.train):
        raise InputError(f"{job.phase}: there is no example to train on; see the data and `held_out.share`")
    if not any(parameter.requires_grad for parameter in job.model.parameters()):
        raise ConfigError(f"{job.phase}: no weight of the model is to be trained")
    from bystander.tasks.training.planned_trainer import PlannedTrainer

    tell = on_phase or _ignore
    use_cpu = _choose_cpu(job.config)
    job.folder.mkdir(parents=True, exist_ok=True)
    identity = _identify(job)
    checkpoint = find_checkpoint(job.folder, identity)
    held_out = job.held_out is not None and len(job.held_out) > 0
    resumed_from = (*checkpoint.resumed_from, checkpoint.step) if checkpoint else ()
    with _keep_randomness(use_cpu), _keep_cache_setting(job.model):
        arguments, total = _choose_arguments(job, use_cpu, held_out, starts=checkpoint is None)
        callbacks = [_make_callback(job, on_record or _ignore)]
        trainer = PlannedTrainer(job, arguments, identity, resumed_from, callbacks)
        logs = _train(trainer, checkpoint, total, job, tell)
        job.model.eval()
    history = gather_history(logs)
    return FitOutcome(total, history, resumed_from)


def count_steps(optimisation: Optimisation, micro_batches: int, processes: int = 1) -> int:
    """Return the steps of a run whose epochs have so many micro-batches."""
    if optimisation.max_steps is not None:
        return optimisation.max_steps
    accumulated = _count_accumulated(optimisation, processes)
    an_epoch = math.ceil(math.ceil(micro_batches / processes) / accumulated)
    return math.ceil(optimisation.epochs * an_epoch)


def _train(
    trainer: PlannedTrainer, checkpoint: Checkpoint | None, total: int, job: FitJob, tell: OnPhase
) -> list[Mapping[str, Any]]:
    """Return the trainer's logs, those before a checkpoint and those after it."""
    if checkpoint is not None and checkpoint.step >= total:
        tell(f"{job.phase}: all {total} steps are done already")
        trainer.load_weights(checkpoint)
        return _list_logs(json.loads((checkpoint.folder / _STATE_NAME).read_text(encoding="utf-8"))["log_history"])
    optimisation = job.config.optimisation
    if checkpoint is not None:
        tell(f"{job.phase}: going on from step {checkpoint.step} of {total}")
        trainer.train(resume_from_checkpoint=str(checkpoint.folder))
    else:
        tell(f"{job.phase}: {total} steps of {optimisation.batch_size} examples, {len(job.train)} in all")
        trainer.train()
    return _list_logs(trainer.state.log_history)


def _list_logs(logs: Any) -> list[Mapping[str, Any]]:
    return list(logs)


def _choose_arguments(job: FitJob, use_cpu: bool, held_out: bool, starts: bool) -> tuple[Any, int]:
    """Return the trainer's arguments, and the steps of the run."""
    from transformers import TrainingArguments

    from bystander.tasks.training.planned_examples import MicroBatches

    optimisation, config = job.config.optimisation, job.config
    checkpointing = {}
    if optimisation.gradient_checkpointing:
        names = {field.name for field in fields(TrainingArguments)}
        name = "activation_checkpointing" if "activation_checkpointing" in names else "gradient_checkpointing"
        if not (hasattr(job.model, f"{name}_enable") or hasattr(job.model, "gradient_checkpointing_enable")):
            raise ConfigError("optimisation.gradient_checkpointing: this model cannot do it; set it to false")
        checkpointing = {name: True, f"{name}_kwargs": {"use_reentrant": False}}
    arguments = TrainingArguments(
        output_dir=str(job.folder),
        per_device_train_batch_size=optimisation.micro_batch_size,
        per_device_eval_batch_size=optimisation.micro_batch_size,
        learning_rate=optimisation.learning_rate,
        weight_decay=optimisation.weight_decay,
        max_grad_norm=optimisation.max_grad_norm,
        lr_scheduler_type=optimisation.schedule.replace("constant", "constant_with_warmup"),
        optim="adamw_torch",
        bf16=optimisation.precision == "bfloat16",
        logging_strategy="steps",
        logging_nan_inf_filter=False,
        eval_strategy="steps" if held_out else "no",
        eval_steps=config.held_out.every_steps if held_out else None,
        eval_on_start=held_out and starts,
        save_strategy="steps",
        save_steps=config.checkpoints.every_steps,
        seed=derive_seed(config.seed, job.phase, "training") % 2**32,
        use_cpu=use_cpu,
        average_tokens_across_devices=False,
        remove_unused_columns=False,
        disable_tqdm=True,
        report_to=[],
        push_to_hub=False,
        **checkpointing,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several devices train in a process each, never in threads of one
    micro_batches = len(MicroBatches(job.train, optimisation.micro_batch_size, config.seed))
    total = count_steps(optimisation, micro_batches, arguments.world_size)
    arguments.gradient_accumulation_steps = _count_accumulated(optimisation, arguments.world_size)
    arguments.max_steps = total
    # The rate of a warm-up's first step is 0: one that spanned the whole run would leave the weights as they were.
    arguments.warmup_steps = min(math.ceil(optimisation.warmup_share * total), total - 1)
    arguments.logging_steps = max(1, math.ceil(total / _MOST_RECORDS))
    return arguments, total


def _count_accumulated(optimisation: Optimisation, processes: int) -> int:
    at_once = optimisation.micro_batch_size * processes
    if optimisation.batch_size % at_once:
        on_devices = f" on {processes} devices" if processes > 1 else ""
        raise ConfigError(
            f"optimisation.batch_size: {optimisation.batch_size} is no multiple of {at_once}, the examples that are in "
            f"memory at once (micro_batch_size {optimisation.micro_batch_size}{on_devices})"
        )
    return optimisation.batch_size // at_once


def _choose_cpu(config: TrainingConfig) -> bool:
    import torch

    there = bool(torch.cuda.is_available())
    if config.device == "cuda" and not there:
        raise ConfigError("device: torch finds no CUDA device here; set it to auto or cpu")
    return config.device == "cpu" or not there


def _identify(job: FitJob) -> RunIdentity:
    from bystander.tasks.training.planned_trainer import name_parameters

    return RunIdentity(
        digest_json([job.config.content_digest(), job.phase]),
        digest_json(list(name_parameters(job.model))),
        digest_json([_digest_source(source) for source in (job.train, job.held_out) if source is not None]),
    )


def _digest_source(source: ExampleSource) -> list[Any]:
    """Return what tells two sources apart: sizes and order of their examples, and a digest if they have one."""
    lengths = [round(float(length), 6) for length in source.lengths]
    return [len(source), digest_json(lengths), digest_json(source.groups.tolist()), getattr(source, "digest", None)]


def _make_callback(job: FitJob, on_record: OnRecord) -> Any:
    """Return a callback of the trainer that tells records, and lets one lie at every checkpoint.

    A loss that is summed up since the last record would be lost with a run that is killed after a checkpoint.
    """
    from transformers import TrainerCallback

    class TellRecords(TrainerCallback):
        def on_step_end(self, _args: Any, _state: Any, control: Any, **_: Any) -> Any:
            if control.should_save or control.should_training_stop:
                control.should_log = True
            return control

        def on_log(self, _args: Any, state: Any, _control: Any, logs: Mapping[str, Any], **_: Any) -> None:
            record = read_log(state.global_step, logs)
            if record is None:
                return
            for loss in (record.loss, record.held_out_loss):
                if loss is not None and not math.isfinite(loss):
                    raise BuildError(
                        f"{job.phase}: the loss is not finite at step {record.step}; lower optimisation.learning_rate, "
                        "or look for examples without content"
                    )
            on_record(record)

    return TellRecords()


@contextlib.contextmanager
def _keep_randomness(use_cpu: bool) -> Iterator[None]:
    """Leave the global generators as they were, and let torch compute reproducibly on a CPU while the block runs."""
    import torch

    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    deterministic, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    if use_cpu:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warns)
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def _keep_cache_setting(model: Any) -> Iterator[None]:
    """Leave `config.use_cache` of a model as it was; the trainer turns it off."""
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    try:
        yield
    finally:
        if config is not None and before is not None:
            config.use_cache = before


def _ignore(_: Any) -> None:
    return
