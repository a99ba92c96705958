"""Settings of the TPI stages. Every field is overridable from a YAML file or the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from bystander.schemas.field_types import Rows
from bystander.schemas.stages import Params
from bystander.schemas.taxonomy import Timing

_SnrDb = Annotated[float, Field(ge=-100, le=100)]


class NormaliseQueries(Params):
    """`normalise_queries`: which requests can be spoken."""

    languages: tuple[str, ...] = ("en",)
    min_words: int = Field(2, ge=1)
    max_words: int = Field(30, ge=1)
    max_characters: int = Field(220, ge=1)
    keep_apostrophes: bool = True
    """Whether apostrophes inside words stay; the TPI paper drops them (appendix L)."""


class DrawScenarios(Params):
    """`draw_scenarios`: how many rows a query gives and over what they are balanced."""

    draws_per_query: int = Field(2, ge=1, le=26)
    """Rows that one query may give, each in another scenario."""
    scenarios: tuple[str, ...] = ()
    """Scenario keys to use; empty for all of the taxonomy."""
    timings: tuple[Timing, ...] = (Timing.WITHIN_SENTENCE, Timing.AFTER_COMPLETION)


class WriteInterruptions(Params):
    """`write_interruptions`."""

    candidates: int = Field(1, ge=1, le=16)
    """Lines written a row at first; the first that passes all rules is taken."""
    max_attempts: int = Field(3, ge=1, le=10)
    """Tries with a new seed before the row is rejected."""
    guided_openings: bool = True
    """Whether the reply must begin with one of the scenario's openings (small models need it)."""
    temperature: float = Field(0.8, ge=0, le=2)
    top_p: float = Field(0.9, gt=0, le=1)
    max_tokens: int = Field(160, ge=16)
    max_third_party_words: int = Field(28, ge=3)
    max_primary_words: int = Field(34, ge=3)
    max_example_overlap: float = Field(0.7, ge=0, le=1)
    """A line that shares more of its words than this with an example of its scenario is a copy and is tried again."""
    keep_apostrophes: bool = True


class CheckRealism(Params):
    """`check_realism`: the judge's probability that the exchange could really happen."""

    min_score: float = Field(0.5, ge=0, le=1)


class LabelActionability(Params):
    """`label_actionability`: the class and kind of the interruption under the pack's criteria."""

    min_score: float = Field(0.0, ge=0, le=1)
    """Rows whose label is less probable than this are rejected as `uncertain_label`; of several classes that are about
    as probable none has more than its part."""
    thresholds: dict[str, Annotated[float, Field(gt=0, lt=1)]] = Field(default_factory=dict)
    """Class key to the probability from which it is chosen, for a judge that is biased; 0.5 where none is given.

    Scores are shifted in log-odds so that the threshold becomes 0.5, and are so compared among classes; `min_score` is
    compared with what `label_actionability` makes of the shifted scores.
    """


class WriteReplies(Params):
    """`write_replies`: the assistant's reply under the pack's policy."""

    max_attempts: int = Field(3, ge=1, le=10)
    temperature: float = Field(0.6, ge=0, le=2)
    top_p: float = Field(0.9, gt=0, le=1)
    max_tokens: int = Field(160, ge=16)
    max_words: int = Field(80, ge=5)
    guided_openings: bool = True
    """Whether the reply must begin with one of its class's openings, if it has any (small models need it)."""


class ScoreAmbiguity(Params):
    """`score_ambiguity`: 1 to 5, how plausibly one person says both texts."""

    max_score_when_addressed: float = Field(2.0, ge=1, le=5)
    """Highest score of a line that addresses somebody as "you"; 5 leaves it all to the judge."""


class ChooseVoices(Params):
    """`choose_voices`: two different voices of the bank a row."""

    voices: tuple[str, ...] = ()
    """Voice ids to use; empty for all of the engine."""
    avoid_pairs: tuple[tuple[str, str], ...] = ()
    """Pairs that sound too much alike, in either order."""
    avoid_similar: float | None = Field(None, gt=-1, le=1)
    """Pairs whose embeddings in the voice bank have a cosine from this value on sound too much alike as well; null for
    none. `bystander voices show` tells how many pairs a value rules out."""
    hold_out: float = Field(0.25, ge=0, le=1)
    """Share that is set aside, so that train builds and benches can have different voices. A hash decides, of each pair
    or of each voice: neither the seed nor other voices change on which side it is, and a larger share only adds to
    it."""
    hold_out_by: Literal["pair", "voice"] = "pair"
    """What is set aside: pairs, so that a voice occurs on both sides but never with the same partner, or voices, so
    that no speaker occurs on both. With `voice`, a build also shares no voice with those in `disjoint_from`. That takes
    a bank: with V voices and a quarter held out, a bench has V / 4 of them and about V² / 32 pairs."""
    use: Literal["all", "rest", "held_out"] = "all"
    """What to draw from: all, what is not set aside (train builds), or what is (benches)."""


class SynthesiseSpeech(Params):
    """`synthesise_speech`: the acceptance loop of every track."""

    max_attempts: int = Field(4, ge=1, le=20)
    max_wer: float = Field(0.0, ge=0, le=10)
    """Highest accepted word error rate after normalisation; TPI-Bench needs 0."""
    trim_db: float = Field(40.0, gt=0, le=200)
    """Silence is what lies this far below the track's peak level (librosa's `top_db`)."""
    trim_margin_s: float = Field(0.02, ge=0, le=10)
    """Kept on either side of the speech, so that soft onsets survive."""
    min_level_dbfs: float = Field(-45.0, ge=-120, le=0)
    max_clipped_share: float = Field(0.001, ge=0, le=1)
    min_seconds_per_character: float = Field(0.025, gt=0, le=10)
    max_seconds_per_character: float = Field(0.22, gt=0, le=10)
    slow_allowance_s: float = Field(0.4, ge=0, le=60)
    """Added to the longest accepted duration, because even one short word takes a while to say."""
    max_inner_silence_s: float = Field(2.0, gt=0, le=60)
    track_encoding: Literal["flac", "wav"] = "wav"
    """How the clean tracks are kept between stages (both lossless, 16 bits): WAV takes about twice the space of the
    cache and next to no time; FLAC costs as much time as the published clips do, and is decoded twice. Published audio
    is FLAC in any case."""


class VerifySpeakers(Params):
    """`verify_speakers` and `verify_mixture`: does the audio prove its number of speakers?

    Thresholds are cosine similarities from a calibration on the bank's voices, see `benchmarks/`.
    """

    max_pair_similarity: float = Field(0.75, ge=-1, le=1)
    min_single_similarity: float = Field(0.70, ge=-1, le=1)
    reject_unmeasured: bool = False
    """Whether a row whose speech is too short to be measured is rejected; else its similarity is null."""


class MixSpeakers(Params):
    """`mix_speakers`: offset ~ N(mean, sd) from the end of the primary's speech to the third party's start.

    Source of the default offset: TPI paper, appendix F.
    """

    offset_mean_s: float = Field(-0.5, ge=-10, le=10)
    offset_sd_s: float = Field(0.1, ge=0, le=10)
    max_overlap_share: float = Field(0.8, ge=0, le=1)
    """Most of the shorter track that may overlap; a longer overlap than that is cut to it."""
    loudness: Literal["ebu_r128", "rms"] = "ebu_r128"
    target_level: float = Field(-23.0, ge=-70, le=0)
    """LUFS for EBU R128, dBFS for RMS; set on the primary's track."""
    level_difference_sd_db: float = Field(2.0, ge=0, le=40)
    """The third party's level relative to the primary's is drawn from N(0, sd), clipped at 2 sd."""
    peak_ceiling_dbfs: float = Field(-1.0, ge=-70, le=0)
    sampling_rate: int = Field(24000, ge=8000, le=192_000)
    """Of the published clips, Hz. Tracks are resampled to it, whatever the speech engine's own rate is."""
    room_responses: str | None = None
    """Folder of impulse responses; off by default."""
    noises: str | None = None
    """Folder of background noises; off by default."""
    noise_snr_db: tuple[_SnrDb, _SnrDb] = (10.0, 25.0)

    @field_validator("sampling_rate")
    @classmethod
    def _fits_into_flac(cls, rate: int) -> int:
        # RFC 9639, section 9.1.2: a frame's header holds 16 bits of Hz, or of tens of Hz.
        if rate > 0xFFFF and rate % 10:
            raise ValueError("FLAC takes rates above 65535 Hz only in steps of 10 Hz")
        return rate


class BuildHardNegatives(Params):
    """`build_hard_negatives`: whole transcript in the primary's voice, with a reply to one speaker."""

    min_ambiguity: float = Field(4.0, ge=1, le=5)
    reply: WriteReplies = WriteReplies()


class TpiStages(Params):
    """Settings of all TPI stages."""

    normalise_queries: NormaliseQueries = NormaliseQueries()
    draw_scenarios: DrawScenarios = DrawScenarios()
    write_interruptions: WriteInterruptions = WriteInterruptions()
    check_realism: CheckRealism = CheckRealism()
    label_actionability: LabelActionability = LabelActionability()
    write_replies: WriteReplies = WriteReplies()
    score_ambiguity: ScoreAmbiguity = ScoreAmbiguity()
    choose_voices: ChooseVoices = ChooseVoices()
    synthesise_speech: SynthesiseSpeech = SynthesiseSpeech()
    verify_speakers: VerifySpeakers = VerifySpeakers()
    verify_mixture: VerifySpeakers = VerifySpeakers()
    mix_speakers: MixSpeakers = MixSpeakers()
    build_hard_negatives: BuildHardNegatives = BuildHardNegatives()


def deal_out(rows: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return whole numbers that sum to `rows`, in proportion to `shares` (largest remainders, then keys in order).

    Shares are at least 0, and one of them is above.
    """
    total = sum(shares.values())
    exact = {key: rows * share / total for key, share in shares.items()}
    dealt = {key: int(share) for key, share in exact.items()}
    by_remainder = sorted(exact, key=lambda key: (dealt[key] - exact[key], key))
    for key in by_remainder[: rows - sum(dealt.values())]:
        dealt[key] += 1
    return dealt


class TpiTargets(Params):
    """How many rows of each label a build has, exactly; two-speaker rows are balanced over the scenarios.

    The TPI paper's TPI-Train (appendix C): 40,000 actionable, 40,000 ignorable, 8,000 hard negatives.
    """

    labels: dict[str, Rows] = Field(default_factory=lambda: {"actionable": 40_000, "ignorable": 40_000})
    hard_negatives: Rows = 8_000

    @model_validator(mode="after")
    def _one_count_is_positive(self) -> TpiTargets:
        if not self.pairs:
            raise ValueError("labels: one count must be above 0")
        return self

    @property
    def pairs(self) -> int:
        """Number of two-speaker rows."""
        return sum(self.labels.values())

    def scaled_to(self, rows: int) -> TpiTargets:
        """Return targets that sum to `rows`, in the same proportions (largest remainders)."""
        scaled = deal_out(rows, {**self.labels, "": self.hard_negatives})
        hard_negatives = scaled.pop("")
        return type(self)(labels=scaled, hard_negatives=hard_negatives)


class TpiBenchTargets(TpiTargets):
    """How many rows a bench has: `labels` make up TPI-Test, `hard_negatives` Janus-Test.

    The TPI paper's TPI-Bench: 1,200 actionable, 800 ignorable, 2,000 one-speaker rows. Their two-speaker rows need not
    be in TPI-Test, so there may be more one-speaker rows than others.
    """

    labels: dict[str, Rows] = Field(default_factory=lambda: {"actionable": 1_200, "ignorable": 800})
    hard_negatives: Rows = 2_000
