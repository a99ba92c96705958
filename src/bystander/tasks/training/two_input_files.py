"""A trained two-input model in a folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from bystander.schemas.errors import InputError
from bystander.schemas.trained_two_input import TRAINED_FILE, WEIGHTS_FILE, TrainedTwoInput
from bystander.tasks.training.two_input import TwoInputModel, make_two_input_model


def save_two_input(model: TwoInputModel, about: TrainedTwoInput, folder: Path) -> None:
    """Write weights, and what is needed to open them."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    save_file(weights, folder / WEIGHTS_FILE)
    (folder / TRAINED_FILE).write_text(about.model_dump_json(indent=2) + "\n", "utf-8")


def load_two_input(folder: Path) -> tuple[TwoInputModel, TrainedTwoInput]:
    """Return a model as it was saved, ready to be asked.

    Raises:
        InputError: the folder holds none, or weights that are not what its description says.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        about = TrainedTwoInput.model_validate_json((folder / TRAINED_FILE).read_bytes())
        model = make_two_input_model(about.model, about.width, len(about.classes), seed=0)
        model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (OSError, ValidationError, SafetensorError, RuntimeError) as exc:
        raise InputError(f"{folder}: holds no two-input model ({str(exc).splitlines()[0]})") from exc
    return model.eval(), about
