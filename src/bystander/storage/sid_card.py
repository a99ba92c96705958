"""`README.md` of a SID build: the dataset card, with the YAML head that Hugging Face reads."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import yaml

from bystander.schemas.sid import CATEGORIES, SID_FINAL
from bystander.storage.card_parts import (
    CARD_NAME,
    describe_hours,
    describe_layout,
    describe_tables,
    load_card_template,
    render_table,
)
from bystander.storage.filesystem import Store
from bystander.storage.parquet_files import open_parquet
from bystander.storage.sid_manifest import SidManifest

_OWN_LICENCE = "apache-2.0"

_COLUMN_NOTES = {
    "id": "Stable hash of what the row was made from",
    "split": "Split",
    "audio": "The turn, cut from its speaker's own channel: FLAC, 16 bits, mono",
    "sampling_rate": "Of the clip, in Hz",
    "duration_s": "Of the clip, in seconds",
    "language": "Language code; null for silence and noise",
    "category": "`beginning`, `middle` (a backchannel comes first), `uninterrupted`, `silence` or `noise`",
    "total_nonbreak": "Whether there is no break",
    "break_time_s": "Start of the first phone of the first word with new intent; the clip's duration without a break",
    "break_word_index": "Position of that word in `words`, from 0; null without a break",
    "text": "What is said",
    "text_with_break": "The same with one `<break>` before the word with new intent",
    "words": "Word, start_s, end_s, the aligner's score, and whether its pronunciation was in the lexicon",
    "phones": "Phone, start_s, end_s, and the word that it is in",
    "recording_id": "The recording that the turn was cut from",
    "source": "File or generator",
    "licence": "Licence of the recording or noise, as the user stated it",
    "speaker": "Speaker's name in the recording",
    "turn_start_s": "Start of the clip in the recording",
    "context_text": "What the other speaker was saying",
    "context_start_s": "When that turn began, from the clip's start; negative: before the clip",
    "context_end_s": "When it ended",
    "overlap_s": "Time in which both speak",
    "transcript_source": "Format of the transcript, `recogniser`, or `script`",
    "tag_votes": "What each tagger said: position of the word, null for no break",
    "tag_agreement": "Share of the votes that agree with the tag",
    "aligner": "Forced aligner",
    "alignment_is_fallback": "Whether the word times are a recogniser's",
    "alignment_score": "The aligner's score, on its own scale; higher is better",
    "second_aligner": "Aligner that was run besides",
    "aligner_disagreement_s": "By how much the two differ on the break word's start",
    "synthetic": "Whether the sound was made by a machine",
    "true_category": "Of synthetic turns: the category that was scripted",
    "true_break_word_index": "Of synthetic turns: the scripted position; null without a break",
    "true_break_time_s": "Of synthetic turns: the break as placed",
    "engines": "JSON: role to engine identity",
    "seed": "The build's seed",
}


def write_sid_card(store: Store, manifest: SidManifest) -> None:
    """Write a build's `README.md`; its shards must be in place."""
    store.write_bytes(CARD_NAME, render_sid_card(manifest, _count_licences(store, manifest)).encode())


def render_sid_card(manifest: SidManifest, licences: dict[str, int], schema: pa.Schema = SID_FINAL) -> str:
    """Return a build's dataset card.

    Args:
        manifest: the build.
        licences: rows by licence; those of which none is known under "".
        schema: of its rows.
    """
    licence, licence_note = choose_sid_licence(licences)
    head = {
        "pretty_name": manifest.dataset,
        "license": licence,
        "language": sorted(manifest.counts.by_language) or ["en"],
        "task_categories": ["audio-classification", "voice-activity-detection"],
        "tags": ["speech", "turn-taking", "interruption", "backchannel", "full-duplex", "bystander"],
        **describe_layout(manifest, manifest.counts.by_split, schema),
    }
    languages = list(manifest.counts.by_language_and_category)
    return load_card_template("sid_card.md.j2").render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120),
        manifest=manifest,
        hours=describe_hours(manifest.counts.audio_s),
        first_split=next(iter(manifest.counts.by_split), "sid_bench"),
        licence=licence,
        licence_note=licence_note,
        licence_table=render_table(
            ("Licence of the source", "Rows"), ((name or "not stated", n) for name, n in licences.items())
        ),
        count_table=render_table(
            ("Category", *languages, "all"),
            (
                (
                    category,
                    *(manifest.counts.by_language_and_category[lang].get(category, 0) for lang in languages),
                    manifest.counts.by_category[category],
                )
                for category in CATEGORIES
                if category in manifest.counts.by_category
            ),
        ),
        annotation_table=render_table(
            ("Rows", "Number", "Tag right", "Median, ms", "p90, ms", "≤ 20 ms", "≤ 50 ms", "≤ 100 ms"),
            (
                (
                    ", ".join(part for part in (e.language or "all", e.category) if part),
                    e.rows,
                    _show_share(e.tag_accuracy),
                    _show_millis(e.median_ms),
                    _show_millis(e.p90_ms),
                    *(_show_share(share) for share in (e.within_20_ms, e.within_50_ms, e.within_100_ms)),
                )
                for e in manifest.annotation
            ),
        ),
        **describe_tables(manifest, schema, _COLUMN_NOTES),
    )


def choose_sid_licence(licences: dict[str, int]) -> tuple[str, str]:
    """Return the identifier of a build's licence, and a sentence on where it comes from."""
    if {name.lower() for name in licences} <= {_OWN_LICENCE}:
        return _OWN_LICENCE, "All sound was made by this project's own scripts and by models under Apache-2.0 or MIT."
    return (
        "other",
        "The terms of the sources hold, row by row (`licence`); whoever publishes these rows has to keep them.",
    )


def _count_licences(store: Store, manifest: SidManifest) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for shard in manifest.shards:
        with open_parquet(store, shard.file, shard.bytes) as part:
            counts.update(value or "" for value in part.read(columns=["licence"])["licence"].to_pylist())
    return dict(sorted(counts.items()))


def _show_share(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _show_millis(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
