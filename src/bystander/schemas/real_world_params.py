"""Settings of the stages that look for interruptions in recordings of several people."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bystander.schemas.stages import Params
from bystander.schemas.tpi_params import LabelActionability, ScoreAmbiguity, WriteReplies


class PairUtterances(Params):
    """`pair_utterances`: which turns follow each other closely enough to be an interruption."""

    max_join_pause_s: float = Field(0.5, ge=0, le=10)
    """Utterances of one speaker with a pause up to this between them, and nobody else's start in it, are one turn.
    People pause that long within a sentence."""
    max_gap_s: float = Field(0.7, ge=0, le=10)
    """Longest silence before the second turn: after more, an assistant would have begun to answer."""
    max_overlap_s: float = Field(2.0, ge=0, le=60)
    """Longest time that both speak at once: after more, the second is no interruption but a conversation beside."""
    max_goes_on_s: float = Field(0.5, ge=0, le=60)
    """How long the first may still speak when the second is done; after more, it was a remark in passing."""
    min_alone_s: float = Field(0.4, ge=0, le=10)
    """How long the first speaks alone at least; with less, both began at once."""
    max_pair_s: float = Field(20.0, gt=0, le=600)
    """Longest time from the first turn's start to the second one's end."""
    max_words_per_s: float = Field(8.0, gt=0, le=100)
    """Faster speech than this is an error of the times; fast talkers say 5 to 6 words a second."""
    min_words_per_s: float = Field(0.3, ge=0, le=10)
    """Slower speech than this is one, too: a text that stands over a stretch of silence."""
    max_own_overlap_s: float = Field(0.2, ge=0, le=10)
    """How far two utterances of one speaker may overlap; nobody says two things at once."""


class FilterPairs(Params):
    """`filter_pairs`: rules that cost nothing, before a language model is asked. English."""

    languages: tuple[str, ...] = ("en",)
    min_primary_words: int = Field(3, ge=1)
    max_primary_words: int = Field(30, ge=1)
    min_third_party_words: int = Field(1, ge=1)
    """One word may answer; acknowledgements are found by themselves."""
    max_third_party_words: int = Field(40, ge=1)
    max_others_s: float = Field(1.0, ge=0)
    """Most speech of anybody else in the clip: it would be in nobody's segments."""
    names: tuple[str, ...] = ()
    """Further names that people of the corpus are called by."""


class ScorePairs(Params):
    """`score_pairs`: what the judge must give at least, from 1 to 5, for each criterion."""

    min_query: float = Field(3.5, ge=1, le=5)
    """The first turn could be a request to a voice assistant."""
    min_interruption: float = Field(3.0, ge=1, le=5)
    """The second turn cuts into it."""
    min_answerable: float = Field(3.5, ge=1, le=5)
    """It can be answered without sight, hands or knowledge of the room."""


class CutClips(Params):
    """`cut_clips`: the clip of a pair, from its recording."""

    lead_s: float = Field(0.3, ge=0, le=10)
    """Context before the first turn."""
    tail_s: float = Field(0.3, ge=0, le=10)
    """Context after the second turn."""
    microphones: Literal["speakers", "all"] = "speakers"
    """Of a recording with a microphone a speaker: those of the two speakers, or all. A recording with one channel is
    taken as it is."""
    sampling_rate: int = Field(16000, ge=8000, le=192_000)
    """Of the clips, Hz. AMI's is 16000."""
    peak_ceiling_dbfs: float = Field(-1.0, ge=-70, le=0)
    """Clips whose peak is above this are turned down to it; others are left as loud as they are."""
    min_peak_dbfs: float = Field(-50.0, ge=-120, le=0)
    """Quieter clips hold no speech."""


class RealWorldStages(Params):
    """Settings of all stages of a build of real recordings."""

    pair_utterances: PairUtterances = PairUtterances()
    filter_pairs: FilterPairs = FilterPairs()
    score_pairs: ScorePairs = ScorePairs()
    cut_clips: CutClips = CutClips()
    label_actionability: LabelActionability = LabelActionability()
    write_replies: WriteReplies = WriteReplies(max_attempts=10)
    """With more tries than other builds have: a real pair is not lost for want of a reply."""
    score_ambiguity: ScoreAmbiguity = ScoreAmbiguity()

    @model_validator(mode="after")
    def _limits_are_in_order(self) -> RealWorldStages:
        rules = self.filter_pairs
        for speaker in ("primary", "third_party"):
            least, most = getattr(rules, f"min_{speaker}_words"), getattr(rules, f"max_{speaker}_words")
            if least > most:
                raise ValueError(f"filter_pairs.min_{speaker}_words is {least}, above the most, {most}")
        return self
