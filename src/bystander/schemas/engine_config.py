"""What the configurations of all engines share."""

from __future__ import annotations

from typing import Any, ClassVar

from bystander.schemas.stages import Params


class EngineConfig(Params):
    """Base of the configurations of all engines."""

    SPEED_ONLY: ClassVar[frozenset[str]] = frozenset()
    """Fields that say where or how fast the engine answers, never what: no build is another for them."""

    MODEL_IN_STORE: ClassVar[bool] = True
    """Whether its `model`, if it has one, is a name in the model store's manifest or a path on this machine."""

    ONE_PROCESS: ClassVar[bool] = False
    """Whether it fills the accelerators with what it starts, so that only one process may open it."""

    def describe(self) -> dict[str, Any]:
        """Return all fields but those, of engines within this one too, as JSON-ready data."""
        data = self.model_dump(mode="json", exclude=set(self.SPEED_ONLY))
        inner = {name: getattr(self, name) for name in data}
        return {**data, **{name: value.describe() for name, value in inner.items() if isinstance(value, EngineConfig)}}
