"""`manifest.json` of a bank of reference voices: what it is made of, how it came about, the checksums of its files."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bystander.schemas.errors import BuildError
from bystander.storage.build_manifest import MANIFEST_NAME, EngineInfo, FileInfo, ModelFileInfo, ShardInfo
from bystander.storage.filesystem import Store


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VoiceSourceInfo(_Section):
    """Where the voices come from. `ignored` counts files that are no audio, by their endings."""

    uri: str
    layout: str
    name: str
    licence: str
    ignored: dict[str, int] = Field(default_factory=dict)


class VoiceCounts(_Section):
    """Speakers and clips: what was found is a voice or rejected, or, of clips, was not needed.

    `clips_usable` is what was read and not rejected; reasons are of all rejects, the source's stray files included.
    """

    speakers: int = Field(ge=0)
    voices: int = Field(ge=0)
    speaker_reasons: dict[str, int] = Field(default_factory=dict)
    clips: int = Field(ge=0)
    clips_read: int = Field(ge=0)
    clips_usable: int = Field(ge=0)
    clip_reasons: dict[str, int] = Field(default_factory=dict)


class VoiceBankManifest(_Section):
    """Everything about a bank; written last, so that a bank without one is unfinished."""

    format: Literal["bystander-voices"] = "bystander-voices"
    format_version: Literal[1] = 1
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of all that decides which voices there are and how they sound: ids, languages, clips, embeddings."""
    content_digest: str
    """Of all that the bank was made from: an equal one means that indexing again would make the same bank."""
    config: dict[str, Any]
    code_version: str
    packages: dict[str, str]
    engines: dict[str, EngineInfo]
    models: tuple[ModelFileInfo, ...] = ()
    source: VoiceSourceInfo
    counts: VoiceCounts
    shards: tuple[ShardInfo, ...]
    rejects: tuple[FileInfo, ...] = ()


def write_bank_manifest(store: Store, manifest: VoiceBankManifest) -> None:
    """Write a bank's `manifest.json`; call it after every other file is in place."""
    store.write_bytes(MANIFEST_NAME, manifest.model_dump_json(indent=2).encode() + b"\n")


def read_bank_manifest(store: Store) -> VoiceBankManifest:
    """Read a bank's `manifest.json`.

    Raises:
        BuildError: there is none, or it is not that of a voice bank.
    """
    where = store.uri_of(MANIFEST_NAME)
    if not store.exists(MANIFEST_NAME):
        raise BuildError(
            f"{where}: is missing, so this is not a finished voice bank; make one with `bystander voices index`"
        )
    try:
        return VoiceBankManifest.model_validate_json(store.read_bytes(MANIFEST_NAME))
    except ValidationError as exc:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'manifest'}: {e['msg']}" for e in exc.errors()[:5])
        raise BuildError(f"{where}: is not the manifest of a voice bank of this version ({faults})") from exc
