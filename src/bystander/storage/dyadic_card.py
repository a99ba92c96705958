"""`README.md` of a dyadic build: the dataset card, with the YAML head that Hugging Face reads."""

from __future__ import annotations

import pyarrow as pa
import yaml

from bystander.schemas.dyadic import DYADIC_FINAL
from bystander.storage.card_parts import (
    CARD_NAME,
    describe_hours,
    describe_layout,
    describe_tables,
    load_card_template,
    render_table,
)
from bystander.storage.dataset_card import COLUMN_NOTES
from bystander.storage.dyadic_manifest import DyadicManifest
from bystander.storage.filesystem import Store

_OWN_NOTES = {
    "audio": "The spoken request: FLAC, 16 bits, mono",
    "n_speakers": "1",
    "primary_text": "The whole request, as it is spoken",
    "primary_recognised": "What the recogniser heard",
    "label": "`dyadic`",
    "reply": "The assistant's reply to the request",
    "primary_voice": "Voice that says the request",
    "primary_wer_raw": "Word error rate of the speech, before normalisation",
    "primary_recognition_temperature": (
        "Temperature at which the speech was recognised: above 0 where its text was unlikely at first and then "
        "sampled; null where the recogniser has none"
    ),
    "track_similarity": "Speaker cosine of the halves of the speech",
    "primary_attempts": "Tries that the speech took",
    "source_id": "The two-speaker row that request and reply are taken from",
}


def write_dyadic_card(store: Store, manifest: DyadicManifest) -> None:
    """Write a build's `README.md`."""
    store.write_bytes(CARD_NAME, render_dyadic_card(manifest).encode())


def render_dyadic_card(manifest: DyadicManifest, schema: pa.Schema = DYADIC_FINAL) -> str:
    """Return a build's dataset card."""
    head = {
        "pretty_name": manifest.dataset,
        "license": manifest.licence,
        "language": sorted(manifest.counts.by_language) or ["en"],
        "task_categories": ["audio-text-to-text"],
        "tags": ["speech", "voice-assistant", "synthetic", "bystander"],
        **describe_layout(manifest, manifest.counts.by_split, schema),
    }
    return load_card_template("dyadic_card.md.j2").render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120),
        manifest=manifest,
        hours=describe_hours(manifest.counts.speech_s),
        first_split=next(iter(manifest.counts.by_split), "train"),
        count_table=render_table(("Split", "Rows"), manifest.counts.by_split.items()),
        **describe_tables(manifest, schema, {**COLUMN_NOTES, **_OWN_NOTES}),
    )
