"""Settings of the SID stages. Every field is overridable from a YAML file or the command line."""

from __future__ import annotations

from pydantic import Field

from bystander.schemas.stages import Params


class DecodeRecordings(Params):
    """`decode_recordings`: which audio is fit to be annotated."""

    min_duration_s: float = Field(0.5, gt=0, le=3600)
    max_channel_correlation: float = Field(0.9, gt=0, le=1)
    """Channels more alike than this, sample by sample, hold the same signal: no turn can be cut from them."""
    min_channel_separation_db: float = Field(9.0, ge=0, le=60)
    """How far the other speaker must lie below a channel's own. Telephone lines have 20 to 40 dB, one room with a
    microphone for each speaker 6 to 15, a mix 0."""
    min_speech_s: float = Field(0.3, ge=0, le=3600)
    """Speech that each channel must have in all."""


class TranscribeRecordings(Params):
    """`transcribe_recordings`: the recogniser's transcript where there is none, else whether the given one fits."""

    min_transcript_overlap: float = Field(0.5, ge=0, le=1)
    """Share of the transcribed time in which the channel must have speech."""
    min_transcript_contrast: float = Field(0.3, ge=-1, le=1)
    """By how much that share must be above the share of speech in the time that is not transcribed; -1 for transcripts
    of chosen stretches. A right transcript has 0.55 and more, one of another recording 0, by chance up to 0.3."""
    max_overrun_s: float = Field(0.5, ge=0, le=60)
    """How far the transcript's times may reach past the end of the audio."""
    min_words_heard: float = Field(0.5, ge=0, le=1)
    """Share of the words of a transcript without times that the recogniser must hear too."""
    exchange_swapped: bool = False
    """Whether the speakers of a transcript that fits with its channels exchanged are exchanged; else it is rejected."""
    max_pause_s: float = Field(0.5, ge=0, le=10)
    """Speech with pauses up to this long is one utterance for the recogniser."""
    margin_s: float = Field(0.15, ge=0, le=2)
    """Audio that it hears on either side of an utterance."""
    max_utterance_s: float = Field(25.0, ge=2, le=30)
    """Longer stretches are cut at their longest pause; Whisper hears 30 s at once."""
    min_utterance_s: float = Field(0.1, gt=0, le=5)


class WriteConversations(Params):
    """`write_conversations`: scripts of an assistant that talks and a user who overlaps it."""

    max_attempts: int = Field(3, ge=1, le=10)
    temperature: float = Field(0.8, ge=0, le=2)
    top_p: float = Field(0.9, gt=0, le=1)
    max_tokens: int = Field(200, ge=16)


class SpeakConversations(Params):
    """`speak_conversations`: the two channels of a scripted conversation, whose break times are then known."""

    sampling_rate: int = Field(16000, ge=8000, le=48000)


class FindTurns(Params):
    """`find_turns`: where a turn of one speaker begins while the other speaks."""

    max_pause_s: float = Field(0.5, ge=0, le=10)
    """Speech of one speaker with pauses up to this long is one turn."""
    min_overlap_s: float = Field(0.1, gt=0, le=10)
    """Least time in which both speak."""
    min_lead_s: float = Field(0.1, ge=0, le=10)
    """The other must have spoken this long before: who came first is not known more finely."""
    max_backchannel_s: float = Field(1.0, ge=0, le=10)
    """A turn of the other up to this long, begun inside this speaker's last turn, is listening: who then goes on has
    not interrupted it."""
    transcript_slack_s: float = Field(0.3, ge=0, le=5)
    """Speech this far from the times of the transcript is still that of its words."""
    margin_s: float = Field(0.3, ge=0, le=5)
    """Kept on either side of a turn, where the neighbouring turns leave room."""
    min_turn_s: float = Field(0.2, gt=0, le=60)
    max_turn_s: float = Field(30.0, gt=0, le=600)
    min_silence_s: float = Field(0.5, gt=0, le=60)
    """Shortest near-silent stretch that is noted."""
    silence_above_floor_db: float = Field(6.0, ge=0, le=40)
    """Near-silence is no louder than the channel's noise floor and this."""
    max_silence_dbfs: float = Field(-35.0, ge=-96, le=0)
    """Stretches louder than this are no silence, however loud the channel's noise is."""


class TagBreaks(Params):
    """`tag_breaks`: the first word with new intent."""

    samples: int = Field(1, ge=1, le=15)
    """Votes of each tagger, with seeds of their own."""
    min_agreement: float = Field(0.5, ge=0, le=1)
    """Rows whose votes agree less than this on the tag are rejected as `taggers_disagree`."""
    max_attempts: int = Field(3, ge=1, le=10)
    """Tries of one vote with a new seed while the reply names a word that is not there."""
    max_words: int = Field(60, ge=1, le=500)
    temperature: float = Field(0.0, ge=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(64, ge=8)


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
