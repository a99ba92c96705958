"""`README.md` of a build: the dataset card, with the YAML head that Hugging Face reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import yaml

from bystander.schemas.tpi import FINAL, HARD_NEGATIVE_LABEL
from bystander.storage.build_manifest import BuildManifest, EngineInfo
from bystander.storage.card_parts import (
    CARD_NAME,
    describe_hours,
    describe_layout,
    describe_tables,
    load_card_template,
    render_table,
)
from bystander.storage.filesystem import Store

_ENGINE_LIMITS = {
    "llama_cpp": "the texts and judgements are as good as the GGUF model, which the manifest names by its checksum.",
    "vllm_batch": "the texts and judgements are as good as the model that vLLM ran, which the manifest names.",
    "openai": "the texts are as good as the endpoint's model, which the manifest names as the user stated it.",
    "vllm": "the texts and judgements are as good as the model that vLLM served, which the manifest names.",
    "playbook": "dialogues come from a fixed set of authored lines, so texts repeat across rows.",
    "fake_text": "a stand-in for tests: texts and labels mean nothing.",
    "kokoro": (
        "a small model with a fixed set of English voices, which read evenly and without hesitations; some voices "
        "resemble each other."
    ),
    "fake_speech": "a stand-in for tests: the audio is no speech.",
    "faster_whisper": (
        "transcripts check the audio. The small English model mishears rare names, and a word that it mishears costs "
        "a good row more often than it lets a bad one through."
    ),
    "openai_whisper": (
        "transcripts check the audio. Words that it mishears cost good rows more often than they let bad ones through; "
        "texts above temperature 0 are sampled."
    ),
    "fake_recogniser": "a stand-in for tests: word error rates mean nothing.",
    "onnx_verifier": (
        "cosines on clips of a few seconds; speech that is too short for it has no similarity (null), and like "
        "voices can lie close to the threshold."
    ),
    "fake_verifier": "a stand-in for tests: similarities mean nothing.",
}
"""Limits by engine name (`EngineIdentity.name`)."""

_MODEL_LIMITS = {
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": (
        "a language model of 1.5 billion parameters. As a writer it writes plain lines, repeats itself and misses "
        "nuances. As a judge, held against authored exchanges under pack `reference`, it labels two of three remarks "
        "rightly (`label_score`, AUC .75); its `realism_score` catches a third of the lines from another situation, "
        "and little else; its `ambiguity_score` crowds around 3 (AUC .70). Use none of them as a measurement."
    ),
}
"""Limits of single models by the file's name (`EngineIdentity.model`); they stand in place of the engine's."""

_STAND_INS = frozenset({"fake_text", "fake_speech"})
_STARTER_LICENCE = "apache-2.0"

COLUMN_NOTES = {
    "id": "Stable hash of what the row was made from",
    "split": "Split",
    "audio": "The mixed clip: FLAC, 16 bits, mono",
    "sampling_rate": "Of the clip, in Hz",
    "duration_s": "Of the clip, in seconds",
    "n_speakers": "2, or 1 in a hard negative",
    "query_id": "Hash of the request and language",
    "query_text": "The request as it stood in the source",
    "query_source": "File that the request came from",
    "language": "Language code",
    "request": "The request made speakable",
    "primary_complete": "What the primary speaker set out to say",
    "primary_text": "What the primary speaker says: the same, or cut at a word and ending in `...`",
    "third_party_text": "What the third party says",
    "primary_recognised": "What the recogniser heard on the primary's clean track (the only one in a hard negative)",
    "third_party_recognised": "What it heard on the third party's clean track",
    "scenario": "How the third party comes in",
    "category": "Category of the scenario",
    "timing": "`within_sentence` (the primary is cut off) or `after_completion`",
    "label": "Class of the interruption under the pack, or `hard_negative`",
    "kind": "Kind within the class, if it has kinds",
    "label_score": "Probability of the label, by the judge",
    "reply": "The assistant's reply under the pack's policy",
    "pack": "Response pack",
    "pack_digest": "SHA-256 of the pack",
    "primary_voice": "Voice of the primary speaker",
    "third_party_voice": "Voice of the third party",
    "segments": "Who speaks from when to when: speaker, start_s, end_s from the clip's start",
    "offset_asked_s": "Third party's start minus primary's end, as drawn; negative overlaps",
    "overlap_s": "Seconds of overlap, measured from the placed tracks",
    "loudness_difference_db": "Third party's level minus the primary's, as set",
    "primary_wer_raw": "Word error rate of the primary's track, before normalisation",
    "primary_wer": "The same after Whisper's text normaliser",
    "third_party_wer_raw": "Word error rate of the third party's track, before normalisation",
    "third_party_wer": "The same after normalisation",
    "primary_recognition_temperature": (
        "Temperature at which the primary's track was recognised: above 0 where its text was unlikely at first and "
        "then sampled; null where the recogniser has none"
    ),
    "third_party_recognition_temperature": "The same of the third party's track",
    "track_similarity": "Speaker cosine of the two tracks (of the halves of a single track)",
    "mixture_similarity": "Speaker cosine of the clip before the overlap and after it",
    "realism_score": "Judge's probability that the exchange could happen",
    "ambiguity_score": "1 (clearly two people) to 5 (clearly one), from the transcript",
    "twin_id": "The row of the same transcript with the other number of speakers",
    "write_attempts": "Tries that the texts took",
    "reply_attempts": "Tries that the reply took",
    "primary_attempts": "Tries that the primary's speech took",
    "third_party_attempts": "Tries that the third party's speech took",
    "engines": "JSON: role to engine identity",
    "seed": "The build's seed",
}


def render_card(
    manifest: BuildManifest,
    schema: pa.Schema = FINAL,
    *,
    licence: str | None = None,
    licence_note: str = "",
    title: str | None = None,
    controls: str = "",
) -> str:
    """Return a build's dataset card.

    Args:
        manifest: the build; a `run` section, if any, is not used.
        schema: of its rows.
        licence: identifier of the dataset's licence, as Hugging Face lists them; by default `choose_licence`'s.
        licence_note: a sentence on where that licence comes from.
        title: `pretty_name` of the head; the dataset's name by default.
        controls: Markdown on how well a bench's rows are told apart without listening; left out where empty.
    """
    if licence is None:
        licence, licence_note = choose_licence(manifest)
    head = _describe_head(manifest, schema, licence, title or manifest.dataset)
    return load_card_template("dataset_card.md.j2").render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120),
        manifest=manifest,
        licence=licence,
        licence_note=licence_note,
        first_split=next(iter(manifest.counts.by_split), "train"),
        hard_negatives=HARD_NEGATIVE_LABEL in manifest.counts.by_label,
        one_speaker_rows=manifest.counts.by_label.get(HARD_NEGATIVE_LABEL, 0),
        least_ambiguity=manifest.config.get("stages", {}).get("build_hard_negatives", {}).get("min_ambiguity"),
        controls=controls,
        hours=describe_hours(manifest.counts.speech_s),
        limits=_list_limits(manifest),
        origins=_list_origins(manifest),
        count_table=lambda name, counts: render_table((name, "Rows"), counts.items()),
        scenario_table=_render_scenarios(manifest),
        **describe_tables(manifest, schema, COLUMN_NOTES),
    )


def choose_licence(manifest: BuildManifest) -> tuple[str, str]:
    """Return the identifier of a build's licence, and a sentence on where it comes from.

    It is `other` unless all that went into the rows is known: the requests of the starter set, and texts and voices of
    this package or of models in its manifest, all of which are under Apache-2.0 or MIT.
    """
    queries = manifest.config.get("queries", {"path": "an unknown source"})
    if queries.get("path") is not None:
        return "other", (
            "The terms of the requests' source hold for what was made of them; whoever publishes these rows has to "
            "state them."
        )
    makers = [manifest.engines[role] for role in ("writer", "speech") if role in manifest.engines]
    wrote = manifest.fingerprints.get("write_interruptions", {}).get("engines", {}).get("writer")
    if wrote is not None:  # another one than the replies' where the texts are of another build
        makers.append(EngineInfo(**wrote))
    known = {part for file in manifest.models for part in file.name.split("/")}
    if not all(maker.name in {"playbook", *_STAND_INS} or maker.model in known for maker in makers):
        return "other", "The requests are this project's own (Apache-2.0), but the terms of a model are not known here."
    return _STARTER_LICENCE, (
        "The requests are this project's own starter set; what wrote and spoke the texts is under Apache-2.0 or MIT."
    )


def write_card(store: Store, manifest: BuildManifest, **options: Any) -> None:
    """Write a build's `README.md`; `options` are those of `render_card`."""
    store.write_bytes(CARD_NAME, render_card(manifest, **options).encode())


def _describe_head(manifest: BuildManifest, schema: pa.Schema, licence: str, title: str) -> dict[str, Any]:
    languages = manifest.config.get("stages", {}).get("normalise_queries", {}).get("languages") or ["en"]
    return {
        "pretty_name": title,
        "license": licence,
        "language": list(languages),
        "task_categories": ["audio-text-to-text", "audio-classification"],
        "tags": ["speech", "voice-assistant", "interruption", "multi-speaker", "synthetic", "bystander"],
        **describe_layout(manifest, manifest.counts.by_split, schema),
    }


def _list_limits(manifest: BuildManifest) -> list[tuple[str, str]]:
    unknown = "its limits are not recorded here; see its own model card."
    limits = (
        (engine.name, _MODEL_LIMITS.get(engine.model) or _ENGINE_LIMITS.get(engine.name, unknown))
        for engine in manifest.engines.values()
    )
    return list(dict.fromkeys(limits))


def _list_origins(manifest: BuildManifest) -> list[str]:
    """Return sentences on who or what made the texts, labels, measurements and placements."""
    writer, judge = (manifest.engines.get(role) for role in ("writer", "judge"))
    names = {engine.name for engine in (writer, judge) if engine is not None}
    if manifest.on_top_of is not None and manifest.on_top_of.rows == "only":
        made = (
            "`primary_complete`, `third_party_text`, `realism_score` and `ambiguity_score` are those of "
            f"`{manifest.on_top_of.dataset}/{manifest.on_top_of.build}`, whose card says how they were made. `label`, "
            "`kind` and `label_score` are the judge's, `reply` is the writer's; no person chose or checked them."
        )
    elif names <= {"playbook"}:
        made = (
            "`primary_complete`, `third_party_text`, `label`, `kind`, `reply` and the two scores were authored "
            "together, line by line, in the playbook: the labels are what the lines were written for."
        )
    elif names <= {"playbook", *_STAND_INS}:
        made = "Texts, labels, replies and scores are stand-ins that mean nothing."
    else:
        made = (
            "Machine-made: `primary_complete`, `third_party_text` and `reply` were written by the writer's model; "
            "`label`, `kind`, `label_score`, `realism_score` and `ambiguity_score` are the judge's. Rules and "
            "thresholds filtered them; no person chose or checked a label."
        )
    margin_s = manifest.config.get("stages", {}).get("synthesise_speech", {}).get("trim_margin_s")
    around = f" Segments keep {1000 * margin_s:g} ms on either side of the speech that was found." if margin_s else ""
    return [
        made,
        "Measured by models: `*_recognised` and the word error rates by the recogniser, the similarities by the "
        "speaker verifier. Both are wrong at times.",
        "Exact, because the clips were put together: `n_speakers`, the voices, `segments`, `offset_asked_s`, "
        f"`overlap_s` and `loudness_difference_db`.{around}",
    ]


def _render_scenarios(manifest: BuildManifest) -> str:
    by_label = manifest.counts.by_label_and_scenario
    labels = list(by_label)
    return render_table(
        ("Scenario", "Category", *labels),
        (
            (scenario, category, *(by_label[label].get(scenario, 0) for label in labels))
            for scenario, category in manifest.taxonomy.scenarios.items()
            if manifest.counts.by_scenario.get(scenario)
        ),
    )
