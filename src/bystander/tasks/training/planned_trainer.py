"""The trainer of `transformers`, fed from a plan, with exact means over micro-batches and whole checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from bystander.tasks.training.checkpoints import Checkpoint, RunIdentity, keep_newest, locate_checkpoint, mark_whole
from bystander.tasks.training.contract import ExampleSource, FitJob
from bystander.tasks.training.planned_examples import EXAMPLES_KEY, CountedCollate, MicroBatches, PlannedExamples

_WEIGHTS_NAME = "pytorch_model.bin"


class PlannedTrainer(Trainer):
    """A trainer for any torch module whose `forward` returns a mapping with `loss`.

    The loss has to be the mean over what it counts in its micro-batch: the labels other than -100 where the batch has
    `labels`, else the examples; a model whose loss counts something else has a method `count_loss_items(batch)`. Each
    micro-batch weighs by that count, so that the loss of a step is the mean over all that the step counts, whatever the
    size of its micro-batches. (`transformers` leaves this to models, and some take the count and do not use it.)
    """

    control: Any

    def __init__(
        self,
        job: FitJob,
        arguments: TrainingArguments,
        identity: RunIdentity,
        resumed_from: tuple[int, ...],
        callbacks: list[TrainerCallback],
    ) -> None:
        self._job = job
        self._identity = identity
        self._resumed_from = resumed_from
        self._held_out_loader: Any = None
        super().__init__(
            model=job.model,
            args=arguments,
            train_dataset=job.train,
            eval_dataset=job.held_out,
            # Only says that the loss is weighed over the step already; `compute_loss` is our own.
            compute_loss_func=_weigh_nothing,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> Any:
        return self._load(self._job.train)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:  # noqa: ARG002  # as in the class above
        if self._held_out_loader is None:
            self._held_out_loader = self._load(self._job.held_out, always_first=True)
        return self._held_out_loader

    def evaluate(
        self,
        eval_dataset: Any = None,  # noqa: ARG002  # as above
        ignore_keys: Any = None,  # noqa: ARG002  # as above
        metric_key_prefix: str = "eval",
    ) -> dict[str, float]:
        """Return and log the held-out loss, the mean over all that the loss counts."""
        model = self.model_wrapped
        was_training = model.training
        model.eval()
        totals = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        with torch.no_grad():
            for loaded in self.get_eval_dataloader():
                batch, items = self._count_items(loaded)
                if items:
                    loss = model(**self._prepare_inputs(batch))["loss"].double()
                    totals += torch.stack([loss * items, torch.full_like(loss, items)])
        model.train(was_training)
        total, count = self.accelerator.reduce(totals, "sum").tolist()
        metrics = {f"{metric_key_prefix}_loss": total / max(count, 1)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Any]], device: Any) -> Any:
        """Return how much the loss counts in a step, over all devices."""
        count = sum(self._count_items(batch)[1] for batch in batch_samples)
        total = torch.tensor(float(max(count, 1)), device=device)
        return self.accelerator.reduce(total, "sum") if self.args.world_size > 1 else total

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        batch, items = self._count_items(inputs)
        outputs = model(**batch)
        if items:
            loss = outputs["loss"] * (items / num_items_in_batch.to(outputs["loss"].dtype))
            loss = loss * self.accelerator.num_processes  # which take the mean of their gradients
        else:  # the mean over nothing is not a number
            loss = sum(parameter.sum() for parameter in self.model.parameters() if parameter.requires_grad) * 0.0
        return (loss, outputs) if return_outputs else loss

    def _count_items(self, loaded: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        """Return a loaded batch as the model takes it, and how much its loss counts."""
        batch = {name: value for name, value in loaded.items() if name != EXAMPLES_KEY}
        if hasattr(self.model, "count_loss_items"):
            return batch, int(self.model.count_loss_items(batch))
        labels = batch.get("labels")
        if labels is None:
            return batch, int(loaded[EXAMPLES_KEY])
        counted = labels[..., 1:] if getattr(self, "_loss_shifts_labels", False) else labels
        return batch, int((counted != -100).sum())

    def _load(self, source: ExampleSource | None, always_first: bool = False) -> Any:
        assert source is not None
        config = self._job.config
        micro_batches = MicroBatches(source, self.args.per_device_train_batch_size, config.seed, always_first)
        workers = config.loader_workers
        loader: Any = DataLoader(
            PlannedExamples(source, micro_batches),
            batch_sampler=micro_batches,
            collate_fn=CountedCollate(self._job.collate),
            num_workers=workers,
            persistent_workers=workers > 0,
            # A fork of a process in which threads of torch and Prefect run can block for ever; and workers of a fork
            # server stay for ever when this process is killed.
            multiprocessing_context="spawn" if workers else None,
            pin_memory=self.args.device.type == "cuda",
            # One of its own: what is loaded, and in how many processes, changes no draw of a dropout.
            generator=torch.Generator().manual_seed(0),
        )
        return self.accelerator.prepare(loader)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """Save the weights; those of a plain module as torch does, which knows of weights that two layers share."""
        if hasattr(self.model, "save_pretrained"):
            super()._save(output_dir, state_dict)
        elif self.args.should_save:
            folder = Path(output_dir or self.args.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(state_dict or self.model.state_dict(), folder / _WEIGHTS_NAME)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = locate_checkpoint(Path(self.args.output_dir), self.state.global_step)
        if self.args.should_save:
            shutil.rmtree(folder, ignore_errors=True)  # what a killed run left of it
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            mark_whole(Checkpoint(folder, self.state.global_step, self._identity, self._resumed_from))
            keep_newest(folder.parent, self._job.config.checkpoints.keep)

    def load_weights(self, checkpoint: Checkpoint) -> None:
        """Give the model the weights of a checkpoint after which nothing is left to train."""
        self._load_from_checkpoint(str(checkpoint.folder))


def name_parameters(model: Any) -> Iterator[str]:
    """Yield a line for each parameter: name, shape, type, whether it is trained."""
    for name, parameter in model.named_parameters():
        yield f"{name} {tuple(parameter.shape)} {parameter.dtype} {parameter.requires_grad}"


def _weigh_nothing(*_: Any, **__: Any) -> None:
    raise AssertionError("the loss is computed elsewhere")
