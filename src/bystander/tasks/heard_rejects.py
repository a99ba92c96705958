"""The rejects that a report plays."""

from __future__ import annotations

from bystander.pages.clips import MOST_REJECT_AUDIO_BYTES
from bystander.pages.listening_samples import HeardReject
from bystander.schemas.row_sounds import list_sounds
from bystander.storage.build_manifest import ManifestBase
from bystander.storage.filesystem import Store
from bystander.storage.reject_samples import read_heard_rejects


def gather_heard_rejects(store: Store, manifest: ManifestBase, sample_rows: int) -> list[HeardReject]:
    """Return half as many rejects as a report has rows, of those whose sound the files of rejects hold.

    What only caches hold is left to `bystander listen`: a report must not depend on what is still cached.
    """
    count = (sample_rows + 1) // 2
    rows = read_heard_rejects(store, manifest.rejects, count, MOST_REJECT_AUDIO_BYTES)
    return [HeardReject(row, list_sounds(row)) for row in rows]
