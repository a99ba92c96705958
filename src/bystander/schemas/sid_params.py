"""Settings of the SID stages. Every field is overridable from a YAML file or the command line."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bystander.schemas.stages import Params


class DecodeRecordings(Params):
    """`decode_recordings`: which audio is fit to be annotated."""

    min_duration_s: float = Field(0.5, gt=0, le=3600)
    max_channel_correlation: float = Field(0.9, gt=0, le=1)
    """Channels more alike than this hold both speakers each, or the same signal: no turn can be cut from them."""


class TranscribeRecordings(Params):
    """`transcribe_recordings`: the recogniser's transcript where there is none, else whether the given one fits."""

    min_transcript_overlap: float = Field(0.5, ge=0, le=1)
    """Share of the transcribed time in which the channel must have speech."""


class WriteConversations(Params):
    """`write_conversations`: scripts of an assistant that talks and a user who overlaps it.

    Lengths are in words; a Chinese character counts for 0.6 of one.
    """

    max_attempts: int = Field(3, ge=1, le=10)
    temperature: float = Field(0.8, ge=0, le=2)
    top_p: float = Field(0.9, gt=0, le=1)
    max_tokens: int = Field(200, ge=16)
    guided_backchannels: bool = True
    """Whether the writer chooses among a few backchannels drawn from the lexicon: small models take the same always."""
    assistant_words: tuple[int, int] = (12, 45)
    """Fewest and most words of the assistant: it must still be talking when the user has begun."""
    substance_words: tuple[int, int] = (2, 20)
    joined_share: float = Field(0.3, ge=0, le=1)
    """Share of `middle` rows whose backchannel and substance are spoken as one utterance, with no pause placed."""
    gap_s: tuple[float, float] = (0.15, 0.8)
    """Shortest and longest pause between backchannel and substance in the others, drawn evenly."""
    max_example_overlap: float = Field(0.8, gt=0, le=1)
    """Share of a text's words that may come from one text of the prompt's examples."""

    @model_validator(mode="after")
    def _ranges_ascend(self) -> WriteConversations:
        for name in ("assistant_words", "substance_words", "gap_s"):
            lowest, highest = getattr(self, name)
            if not 0 <= lowest <= highest:
                raise ValueError(f"{name}: give two numbers from 0 on, the smaller first, not {lowest}, {highest}")
        return self


class SpeakConversations(Params):
    """`speak_conversations`: the two channels of a scripted conversation, whose break times are then known."""

    sampling_rate: int = Field(16000, ge=8000, le=48000)


class FindTurns(Params):
    """`find_turns`: where a turn of one speaker begins while the other speaks."""

    max_pause_s: float = Field(0.5, ge=0, le=10)
    """Speech of one speaker with pauses up to this long is one turn."""
    min_overlap_s: float = Field(0.1, gt=0, le=10)
    margin_s: float = Field(0.3, ge=0, le=5)
    """Kept on either side of a turn, where the neighbouring turns leave room."""
    min_turn_s: float = Field(0.2, gt=0, le=60)
    max_turn_s: float = Field(30.0, gt=0, le=600)


class TagBreaks(Params):
    """`tag_breaks`: the first word with new intent.

    `method` is how a tagger is asked. `json` has it name the word, which large models do well. `options` asks
    whether new intent has begun, of the turn up to the end of each stretch of it (a run of acknowledgements, or what
    stands between two marks), and takes the stretch that the probabilities fit best: for small models, whose
    log-probabilities know more than their answers.
    """

    method: Literal["json", "options"] = "json"
    samples: int = Field(1, ge=1, le=15)
    """Votes of each tagger, with seeds of their own."""
    min_agreement: float = Field(0.51, ge=0, le=1)
    """Rows whose tag has a smaller share of the votes are rejected as `taggers_disagree`: by default, ties too."""
    max_attempts: int = Field(3, ge=1, le=10)
    """Tries of one vote with a new seed while the reply names a word that is not there."""
    max_words: int = Field(60, ge=1, le=500)
    temperature: float = Field(0.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(64, ge=8)
    new_intent_threshold: float = Field(0.5, gt=0, lt=1)
    """With `options`: probability at which a tagger is taken to say that new intent has begun."""

    @model_validator(mode="after")
    def _samples_can_differ(self) -> TagBreaks:
        if self.samples > 1 and self.method == "options":
            raise ValueError("samples: the method options measures probabilities, the same every time; give 1")
        if self.samples > 1 and self.temperature == 0:
            raise ValueError("samples: at temperature 0 all votes of a tagger are the same; raise the temperature")
        return self


class AlignWords(Params):
    """`align_words`: when each word is said."""

    allow_fallback: bool = True
    """Whether rows may have a recogniser's word times, which are marked as such, where no aligner has the language."""
    max_disagreement_s: float | None = Field(None, gt=0, le=10)
    """With a second aligner: most seconds by which the two may differ on the start of the break word."""


class PlaceBreaks(Params):
    """`place_breaks`: break time and category."""

    max_distance_from_speech_s: float = Field(0.15, ge=0, le=5)
    """A break farther from the speech that the channel's energy shows than this is no break."""
    beginning_within_s: float = Field(0.5, ge=0, le=5)
    """A break with no word before it counts as `beginning` up to this long after the turn's first speech."""


class MakeNoiseClips(Params):
    """`make_noise_clips`: silence from near-silent stretches, and noise from files or generators."""

    sampling_rate: int = Field(16000, ge=8000, le=48000)
    silence_s: float = Field(10.0, gt=0, le=600)
    """Length of a silence clip; 10 s in the SID paper, II-C."""
    crossfade_s: float = Field(0.02, ge=0, le=1)
    generated_s: tuple[float, float] = (5.0, 20.0)
    """Shortest and longest generated noise clip."""


class CutTurns(Params):
    """How turns are cut from their recordings."""

    sampling_rate: int | None = Field(16000, ge=8000, le=48000)
    """Rate that clips are resampled to; null keeps each recording's own."""


class SidStages(Params):
    """Settings of all stages of a SID build."""

    decode_recordings: DecodeRecordings = DecodeRecordings()
    transcribe_recordings: TranscribeRecordings = TranscribeRecordings()
    write_conversations: WriteConversations = WriteConversations()
    speak_conversations: SpeakConversations = SpeakConversations()
    find_turns: FindTurns = FindTurns()
    cut_turns: CutTurns = CutTurns()
    tag_breaks: TagBreaks = TagBreaks()
    align_words: AlignWords = AlignWords()
    place_breaks: PlaceBreaks = PlaceBreaks()
    make_noise_clips: MakeNoiseClips = MakeNoiseClips()
