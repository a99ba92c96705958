"""`README.md` of a build of real recordings: the dataset card, with the YAML head that Hugging Face reads."""

from __future__ import annotations

import pyarrow as pa
import yaml

from bystander.schemas.real_world import REAL_FINAL
from bystander.storage.build_manifest import BuildManifest
from bystander.storage.card_parts import (
    CARD_NAME,
    describe_hours,
    describe_layout,
    describe_tables,
    load_card_template,
    render_table,
)
from bystander.storage.dataset_card import COLUMN_NOTES
from bystander.storage.filesystem import Store

_UNKNOWN = "null: nothing is known of it in a real recording"
_OWN_NOTES = {
    "audio": "The clip, cut from the recording: FLAC, 16 bits, mono",
    "n_speakers": "2",
    "query_text": "The primary's turn as the transcript has it",
    "query_source": "The corpus",
    "request": "The primary's turn, made speakable",
    "primary_complete": "The same",
    "primary_text": "The same; what was said after the clip is not in it",
    "third_party_text": "The turn that cuts in, made speakable",
    "timing": "`within_sentence` where the primary still speaks, else `after_completion`",
    "segments": "Who speaks from when to when, by the transcript: speaker, start_s, end_s from the clip's start",
    "overlap_s": "Seconds of overlap of the segments",
    "realism_score": _UNKNOWN,
    "corpus": "The corpus",
    "recording": "The recording in the corpus",
    "start_s": "Start of the clip in the recording, in seconds",
    "end_s": "Its end",
    "licence": "The corpus's terms, as they were given",
    "primary_speaker": "The corpus's label of the speaker",
    "third_party_speaker": "Likewise",
    "primary_source_text": "The turn as the transcript has it",
    "third_party_source_text": "Likewise",
    "others_s": "Seconds in which anybody else speaks in the clip, by the transcript",
    "query_score": "1 to 5, by the judge: could the turn be a request to a voice assistant?",
    "interruption_score": "1 to 5, by the judge: does the second turn cut in?",
    "answerable_score": "1 to 5, by the judge: can it be answered without sight, hands or what was said before?",
    "review": "What people decided: verdict, rule, annotators, the columns they put right; null where nobody did",
    **dict.fromkeys(
        (
            "scenario",
            "category",
            "primary_voice",
            "third_party_voice",
            "offset_asked_s",
            "loudness_difference_db",
            "primary_recognised",
            "third_party_recognised",
            "primary_wer_raw",
            "primary_wer",
            "third_party_wer_raw",
            "third_party_wer",
            "primary_recognition_temperature",
            "third_party_recognition_temperature",
            "track_similarity",
            "mixture_similarity",
            "twin_id",
            "write_attempts",
            "primary_attempts",
            "third_party_attempts",
        ),
        _UNKNOWN,
    ),
}

_SESSION_NOTES = {
    **{name: COLUMN_NOTES[name] for name, note in _OWN_NOTES.items() if note == _UNKNOWN and name in COLUMN_NOTES},
    **{name: COLUMN_NOTES[name] for name in ("query_text", "query_source", "request", "primary_complete", "timing")},
    **dict.fromkeys(
        ("primary_voice", "third_party_voice", "track_similarity", "mixture_similarity", "twin_id"), _UNKNOWN
    ),
    **dict.fromkeys(
        ("query_score", "interruption_score", "answerable_score"), "null: the lines were read from a script"
    ),
    "primary_text": "The line that the primary read, as the script has it",
    "third_party_text": "The line that cuts in, as the script has it",
    "segments": "Who speaks from when to when, as measured: speaker, start_s, end_s from the clip's start",
    "overlap_s": "Seconds of overlap as measured; null where both were recorded on one channel",
    "loudness_difference_db": "Third party's level minus the primary's, as measured",
    "corpus": "The session and its room",
    "recording": "The file",
    "primary_speaker": "Name or pseudonym of who read the request",
    "third_party_speaker": "Likewise of who cut in",
    "primary_source_text": "As `primary_text`",
    "third_party_source_text": "As `third_party_text`",
    "others_s": "0: nobody else was to speak",
    "primary_attempts": "1",
    "third_party_attempts": "1",
}
"""Where the lines were read from a script sheet."""


def write_real_world_card(store: Store, manifest: BuildManifest) -> None:
    """Write a build's `README.md`."""
    store.write_bytes(CARD_NAME, render_real_world_card(manifest).encode())


def render_real_world_card(manifest: BuildManifest, schema: pa.Schema = REAL_FINAL) -> str:
    """Return a build's dataset card."""
    languages = {corpus.get("language", "en") for corpus in manifest.config.get("corpora", [])}
    session = manifest.config.get("session")
    head = {
        "pretty_name": manifest.dataset,
        "license": "other",
        "language": sorted(languages) or ["en"],
        "task_categories": ["audio-text-to-text"],
        "tags": ["speech", "voice-assistant", "interruption", "multi-speaker", "bystander"],
        **describe_layout(manifest, manifest.counts.by_split, schema),
    }
    return load_card_template("real_world_card.md.j2").render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120),
        manifest=manifest,
        session=f"session {session}" if session else None,
        hours=describe_hours(manifest.counts.speech_s),
        corpus_table=render_table(
            ("Corpus", "Licence", "Recordings", "with audio", "Utterances"),
            ((c.name, c.licence, c.recordings, c.recordings_with_audio, c.utterances) for c in manifest.corpora),
        ),
        label_table=render_table(("Label", "Rows"), manifest.counts.by_label.items()),
        reviewed=manifest.decisions is not None,
        **describe_tables(manifest, schema, {**COLUMN_NOTES, **_OWN_NOTES, **(_SESSION_NOTES if session else {})}),
    )
