"""What a trained model saw: its rows by part and by source, as the manifest of a run states them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SourceKind = Literal["tpi", "sid", "dyadic"]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceRecord(_Section):
    """A build, or a set of Parquet files."""

    address: str
    """Folder or URL; of a release, that of the build which it stood for."""
    kind: SourceKind
    dataset: str = ""
    build: str = ""
    rows_digest: str
    """Of the checksums of its shards; of names and sizes where no manifest states checksums."""
    rows: int = Field(ge=0)
    """Rows that can be used, whatever the mixture takes of them."""


class PartRecord(_Section):
    """Rows of one part of a mixture, or of one category of SID rows."""

    rows: int = Field(ge=0)
    """Rows to train on."""
    held_out: int = Field(ge=0)
    """Rows of the held-out slice."""
    proportion: float = Field(1.0, ge=0)
    an_epoch: int = Field(ge=0)
    """Examples of it in an epoch: `rows` times `proportion`, rounded."""


class LeftOutRow(_Section):
    """A row that was not trained on though its source was."""

    file: str
    row: int = Field(ge=0)
    """From 0, in the file."""
    reason: str
    """A stable code, such as `empty_reply` or `unreadable_audio`."""
    detail: str = ""


class DataRecord(_Section):
    """All rows of a run. The same record means the same rows, in the same order where the seed is the same."""

    mixture: str = ""
    seed: int
    held_out_share: float
    sources: tuple[SourceRecord, ...]
    parts: dict[str, PartRecord]
    train_digest: str
    """Digest of the sorted ids of the rows to train on."""
    held_out_digest: str
    left_out: dict[str, int] = Field(default_factory=dict)
    """Rows that were not trained on, by reason. In the manifest of a finished run, also those that were found unusable
    when they were read; before it begins, those that the index left out."""
