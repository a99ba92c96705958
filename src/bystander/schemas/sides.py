"""On which of two sides something is, so that train builds and benches share none of it: its own hash decides."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bystander.schemas.identity import digest_json
from bystander.schemas.stages import Params

SideUse = Literal["all", "rest", "held_out"]
SideOf = Literal["sid_voice", "sid_text", "sid_topic", "sid_noise"]
"""What is divided; each kind by hashes of its own."""

_SALT = 0
"""Chosen so that on either side, at a quarter held out, Kokoro has women and men of English and of Mandarin, and the
fake two voices of each."""


class Sided(Params):
    """Settings of what draws from one side only.

    Where `use` is `all`, both fields are left out of what is written down: then the rows are those of builds that were
    made before there were sides, and are found again. So are the fields `LATER_FIELDS` where they are null.
    """

    LATER_FIELDS: ClassVar[frozenset[str]] = frozenset()
    SIDE_FIELDS: ClassVar[frozenset[str]] = frozenset({"hold_out", "use"})

    hold_out: float = Field(0.25, gt=0, lt=1)
    """Share that is set aside, so that train builds and benches have nothing in common. Its own hash decides of each
    piece: neither the seed nor other pieces change on which side it is, and a larger share only adds to it."""
    use: SideUse = "all"
    """What to draw from: all, what is not set aside (train builds), or what is (benches)."""

    def admits(self, of: SideOf, key: str) -> bool:
        """Return whether a piece is on the side that is used; `key` is what it is called, or itself if it is a text."""
        if self.use == "all":
            return True
        held_out = int(digest_json([of, _SALT, key])[:16], 16) / 2.0**64 < self.hold_out
        return held_out == (self.use == "held_out")

    def encode_side(self) -> str:
        """Return the side as a text that `decode_side` reads, such as `held_out 0.25`."""
        return f"{self.use} {self.hold_out!r}"

    @staticmethod
    def decode_side(text: str) -> Sided:
        """Return what `encode_side` wrote."""
        use, hold_out = text.split()
        return Sided.model_validate({"use": use, "hold_out": float(hold_out)})

    @model_serializer(mode="wrap")
    def _leave_out_idle(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        if self.use == "all":
            written = {name: value for name, value in written.items() if name not in self.SIDE_FIELDS}
        return {name: value for name, value in written.items() if value is not None or name not in self.LATER_FIELDS}
