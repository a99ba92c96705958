"""The stages: one pure function a file, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from bystander.schemas.stages import Stage

QUERY_STAGES: tuple[str, ...] = ("normalise_queries",)
"""What every query passes before rows are drawn from it."""

TEXT_STAGES: tuple[str, ...] = (
    "draw_scenarios",
    "write_interruptions",
    "check_disjointness",
    "check_realism",
    "label_actionability",
    "write_replies",
    "score_ambiguity",
    "choose_voices",
)
"""The way of a row until all is known of it but how it sounds. `check_disjointness` has a part in it only where the
build has others to be disjoint from."""

SPEECH_STAGES: tuple[str, ...] = ("synthesise_speech", "verify_speakers", "mix_speakers", "verify_mixture")
"""The way of a row from its texts and voices to finished."""

PAIR_STAGES: tuple[str, ...] = (*TEXT_STAGES, *SPEECH_STAGES)
"""The way of a two-speaker row, from candidate to finished."""

HARD_NEGATIVE_STAGES: tuple[str, ...] = ("build_hard_negatives", *SPEECH_STAGES)
"""The way of a hard negative, from its two-speaker twin."""

RELABEL_STAGES: tuple[str, ...] = ("label_actionability", "write_replies")
"""The way of a two-speaker row of a finished build under another pack."""

HARD_NEGATIVE_REPLY_STAGES: tuple[str, ...] = ("build_hard_negatives",)
"""The way of a hard negative of a finished build under another pack."""

DYADIC_STAGES: tuple[str, ...] = ("build_dyadic", "synthesise_speech", "verify_speakers", "mix_speakers")
"""The way of a one-speaker request, from the two-speaker row that it is taken from. There is no seam between two texts
that `verify_mixture` could listen to."""

RECORDING_STAGES: tuple[str, ...] = (
    "check_known_recordings",
    "decode_recordings",
    "transcribe_recordings",
    "find_turns",
)
"""The way of a SID recording until its turns are found. `check_known_recordings` has a part in it only where the build
has others to be disjoint from, and so has `check_known_turns` below."""

CONVERSATION_STAGES: tuple[str, ...] = ("write_conversations", "speak_conversations", "find_turns")
"""The same of a recording that is scripted and synthesised."""

TURN_STAGES: tuple[str, ...] = ("check_known_turns", "tag_breaks", "align_words", "place_breaks")
"""The way of a turn, from cut out to finished."""

NOISE_STAGES: tuple[str, ...] = ("make_noise_clips",)
"""The way of a clip without speech."""

UTTERANCE_STAGES: tuple[str, ...] = ("pair_utterances", "filter_pairs", "score_pairs")
"""The way of an utterance of a real recording, until it is one side of a pair that is worth a clip."""

CLIP_STAGES: tuple[str, ...] = ("cut_clips", "human_review")
"""The way of such a pair until its clip is cut and people have decided on it."""

REAL_REPLY_STAGES: tuple[str, ...] = (*RELABEL_STAGES, "score_ambiguity")
"""The way of a pair with a clip, from its texts to label and reply."""


_OF_DISJOINTNESS = frozenset({"check_disjointness", "check_known_recordings", "check_known_turns"})


def list_stages_needed(stages: Sequence[str], disjoint: bool) -> tuple[str, ...]:
    """Return the stages of a way that have something to do; `disjoint` says whether the build must share nothing."""
    return tuple(stage for stage in stages if disjoint or stage not in _OF_DISJOINTNESS)


def get_stage(name: str) -> Stage:
    """Return the stage of a name, which is also the name of its module here."""
    stage: Stage = import_module(f"{__name__}.{name}").STAGE
    return stage
