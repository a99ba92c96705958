"""Settings of the SID stages. Every field is overridable from a YAML file or the command line."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from bystander.schemas.sides import Sided
from bystander.schemas.stages import Params
from bystander.schemas.tpi_params import SynthesiseSpeech


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
    """By how much that share must be above the share of speech in the second before and after transcribed speech; -1
    for transcripts of chosen stretches. A right transcript has 0.5 and more, one of another recording 0 on average."""
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


def check_ascending(params: Params, *names: str) -> None:
    """Raise ValueError where a field of two numbers has the larger first."""
    for name in names:
        lowest, highest = getattr(params, name)
        if lowest > highest:
            raise ValueError(f"{name}: give two numbers, the smaller first, not {lowest}, {highest}")


class WriteConversations(Sided):
    """`write_conversations`: scripts of an assistant that talks and a user who overlaps it.

    `use` says which authored texts are taken; where a language model writes, of which topics it does. Backchannels are
    those of the lexicon on either side: there are few.

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
    gap_s: tuple[float, float] = (0.15, 0.45)
    """Shortest and longest pause between backchannel and substance in the others, drawn evenly. Longer pauses than
    `find_turns.max_pause_s` make two turns."""
    max_example_overlap: float = Field(0.8, gt=0, le=1)
    """Share of a text's words that may come from one text of the prompt's examples."""

    @model_validator(mode="after")
    def _ranges_ascend(self) -> WriteConversations:
        for name in ("assistant_words", "substance_words", "gap_s"):
            lowest, highest = getattr(self, name)
            if not 0 <= lowest <= highest:
                raise ValueError(f"{name}: give two numbers from 0 on, the smaller first, not {lowest}, {highest}")
        return self


class SpeakConversations(Sided):
    """`speak_conversations`: the two channels of a scripted conversation, whose break times are then known.

    `use` says which voices speak.

    Ranges are drawn from evenly. Defaults are chosen, not measured: a user cuts in at any point of an answer; overlaps
    end within half a second or so of the interruption in human conversation, and assistants that do not listen go on.
    """

    LATER_FIELDS: ClassVar[frozenset[str]] = frozenset({"assistant_takes"})

    sampling_rate: int = Field(16000, ge=8000, le=48000)
    checks: SynthesiseSpeech = SynthesiseSpeech(max_wer=0.15)
    """When a clip is accepted, and how many attempts it has; `track_encoding` is of no use here."""
    avoid_voices: tuple[str, ...] = ()
    """Voices that are not to be drawn; names that the engine lacks are no error."""
    recognised_languages: tuple[str, ...] = ("en",)
    """Where the configuration has a recogniser: languages that it understands. Other clips are judged by their signal.
    So are lone backchannels: text normalisers drop "mm-hmm"."""
    max_seconds_per_chinese_character: float = Field(0.6, gt=0, le=10)
    """In place of `checks.max_seconds_per_character`: a character is a syllable."""
    assistant_takes: int | None = Field(None, ge=1, le=1000)
    """Takes of each of the assistant's texts, whose voices and sound its conversations share; null for one of each
    conversation's own. An assistant's turn takes several times as long to synthesise as its user's, and is no row."""
    onset_share: tuple[float, float] = (0.25, 0.7)
    """How much of the assistant's turn has been said when the user begins."""
    lead_s: tuple[float, float] = (0.3, 0.8)
    """Before the assistant begins, and after the last word."""
    yield_share: float = Field(0.5, ge=0, le=1)
    """Share of interrupted assistants that stop; the others finish what they are saying."""
    yield_s: tuple[float, float] = (0.25, 0.9)
    """How long after the break such an assistant still speaks; it then ends the word."""
    second_backchannel_share: float = Field(0.3, ge=0, le=1)
    """Share of `uninterrupted` conversations in which the user acknowledges once more, where there is room for it."""
    level_dbfs: tuple[float, float] = (-29.0, -23.0)
    """RMS level of a speaker's clips."""
    room_tone_dbfs: tuple[float, float] = (-68.0, -58.0)
    """RMS level of a channel's background."""
    crosstalk_db: float | None = Field(None, ge=6, le=80)
    """How far below a speaker's own channel the other picks them up; null for not at all."""

    @model_validator(mode="after")
    def _ranges_ascend(self) -> SpeakConversations:
        check_ascending(self, "onset_share", "lead_s", "yield_s", "level_dbfs", "room_tone_dbfs")
        if not 0 < self.onset_share[0] <= self.onset_share[1] < 1:
            raise ValueError(f"onset_share: give two shares above 0 and below 1, not {self.onset_share}")
        if max(self.level_dbfs) > -12 or max(self.room_tone_dbfs) > -30:
            raise ValueError("level_dbfs: at most -12, where speech does not clip; room_tone_dbfs: at most -30")
        return self


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
    """`tag_breaks`: the first word with new intent.

    `method` is how a tagger is asked. `json` has it name the word, which large models do well. `options` asks
    of each stretch of the turn (a run of acknowledgements, or what stands between two marks) whether it carries new
    intent, and takes the first that is likely to: for small models, whose log-probabilities know more than their
    answers.
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
    new_intent_threshold: float = Field(0.35, gt=0, lt=1)
    """With `options`: probability from which a stretch carries new intent; where Qwen2.5-Coder-1.5B is right most often
    on the tuning half of `benchmarks/data/tagger_turns.yaml`."""

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
    """With a second aligner: most seconds by which the two may differ on the start of the break word (on the start of
    any word where none breaks). Null keeps all rows and stores the difference."""
    max_distance_from_speech_s: float = Field(0.3, ge=0, le=10)
    """Most seconds between a word and the nearest speech that the turn's channel shows."""


class PlaceBreaks(Params):
    """`place_breaks`: break time and category."""

    max_distance_from_speech_s: float = Field(0.15, ge=0, le=5)
    """Longest time from a break to the next speech: the word that it stands before must then be heard."""
    beginning_within_s: float = Field(0.5, ge=0, le=5)
    """A break with no word before it is at the turn's start up to this long after the turn's first speech."""


class MakeNoiseClips(Params):
    """`make_noise_clips`: silence from near-silent stretches, and noise from files or generators."""

    sampling_rate: int = Field(16000, ge=8000, le=48000)
    silence_s: float = Field(10.0, gt=0, le=600)
    """Length of a silence clip; 10 s in the SID paper, II-C."""
    crossfade_s: float = Field(0.02, ge=0, le=1)
    min_piece_s: float = Field(0.5, gt=0, le=60)
    """Shortest near-silent stretch that a silence clip may hold, the last of it apart."""
    generated_s: tuple[float, float] = (5.0, 20.0)
    """Shortest and longest generated noise clip."""
    generated_dbfs: tuple[float, float] = (-45.0, -25.0)
    """RMS level of generated noise: from a quiet room to what nearly drowns speech, which lies about -26 dBFS."""
    min_file_s: float = Field(0.5, gt=0, le=60)
    max_file_s: float = Field(60.0, gt=0, le=3600)
    """Longer files of noise are cut to this length, from a drawn place on."""

    @model_validator(mode="after")
    def _pieces_are_longer_than_fades(self) -> MakeNoiseClips:
        if 2 * self.crossfade_s > self.min_piece_s:
            raise ValueError("min_piece_s: must be twice crossfade_s or more, or the fades of a piece would meet")
        if not 0 < self.generated_s[0] <= self.generated_s[1] <= 3600:
            raise ValueError("generated_s: must be two lengths above 0, the shorter first")
        if not -96 <= self.generated_dbfs[0] <= self.generated_dbfs[1] <= -10:
            raise ValueError("generated_dbfs: must be two levels from -96 to -10, the lower first")
        return self


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
