"""What a comparison of two builds of different packs shows: labels, kinds, replies, rejects and cost."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeanFigure(_Frozen):
    """A mean over `n` rows with its 95 % interval, whose resamples draw whole requests; all None without rows."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class ComparedSide(_Frozen):
    """One of the two builds."""

    address: str
    dataset: str
    build: str
    seed: int
    pack: str
    pack_digest: str
    classes: tuple[str, ...]
    published: int
    """Two-speaker rows in its shards."""
    labels: dict[str, LabelFigures]
    """By label, `hard_negative` included, over all rows that got one, published or not."""


class LabelFigures(_Frozen):
    """Rows of a label in one build."""

    labelled: int
    published: int
    words: MeanFigure
    """Words of a reply."""
    mentions: MeanFigure
    """Whether the reply says that somebody else spoke."""


class Membership(_Frozen):
    """Where the two-speaker rows of one build are in the other, by their ids."""

    in_both: int
    """Published in both."""
    only_here: int
    elsewhere: dict[str, int]
    """Of those only here: what became of them in the other build, `stage: reason`, and how many."""


class Shared(_Frozen):
    """Two-speaker rows that both builds know, published or not."""

    ids: int
    other_words: int
    """Of them, those whose texts differ, which are not compared: another remark may well get another label."""
    unlabelled: int
    """Of those with the same texts, rows that were not labelled in one of the builds or in both."""
    compared: int


class LabelFlips(_Frozen):
    """Labels of the rows with the same texts that both builds labelled."""

    matrix: dict[str, dict[str, int]]
    """Label in A to label in B to rows, those without rows too: A's classes in its order, and B's, those of A first."""
    flipped: MeanFigure
    kappa: float | None
    """Cohen's kappa; None where the packs' classes differ, or with the reason in `kappa_note`."""
    kappa_low: float | None
    kappa_high: float | None
    kappa_note: str | None
    association: float | None
    """Cramér's V in [0, 1], how well a row's label in one build tells that in the other, where classes differ and kappa
    means nothing; None where they are the same, or one build has but one label."""


class KindFlips(_Frozen):
    """Kinds of the rows that have the same label in both builds, for one label."""

    label: str
    counts: dict[str, dict[str, int]]
    """Kind in A to kind in B to rows, only pairs that occur; a row without a kind has `none`."""
    flipped: MeanFigure


class RepliesAlike(_Frozen):
    """How alike the builds reply to the same texts, for one label, or for one flip."""

    group: str
    """The label in both, or those in A and in B, `actionable → ignorable`."""
    bleu: MeanFigure
    rouge_l: MeanFigure
    identical: MeanFigure
    words_a: MeanFigure
    words_b: MeanFigure
    mentions_a: MeanFigure
    mentions_b: MeanFigure


class RowSide(_Frozen):
    """What one build made of a row."""

    label: str | None
    label_score: float | None
    kind: str | None
    reply: str | None
    fate: str
    """`published`, or where and why it was left out: `stage: reason`."""


class RowPair(_Frozen):
    """One row in both builds."""

    id: str
    request: str
    scenario: str
    timing: str
    primary_text: str
    third_party_text: str
    rouge_l: float | None
    """Between the replies, where there are two."""
    a: RowSide
    b: RowSide


class StageRejects(_Frozen):
    """Rejects of one stage for one reason; shares are of the rows that the stage read in that build."""

    stage: str
    reason: str
    a: int
    b: int
    share_a: float | None
    share_b: float | None


class TaskCost(_Frozen):
    """Calls of one task in each build, and the mean size of its prompts.

    Sizes are None where the build's pack cannot be had any more as it was.
    """

    role: str
    task: str
    calls_a: float
    calls_b: float
    characters_a: float | None
    characters_b: float | None
    tokens_a: float | None
    tokens_b: float | None


class Cost(_Frozen):
    """What the texts of both builds took. Calls that a cache remembered count like others."""

    tasks: tuple[TaskCost, ...]
    tries_a: MeanFigure
    """Replies asked for a row that got one."""
    tries_b: MeanFigure
    pack_fault_a: str | None
    """Why the size of the prompts of A cannot be known; None where it is."""
    pack_fault_b: str | None
    tokens_per_row_a: float | None
    """Prompt tokens of all tasks for one published row, hard negatives included."""
    tokens_per_row_b: float | None


class PackDiff(_Frozen):
    """All that is shown. A and B stand for the builds in the order in which they were named."""

    a: ComparedSide
    b: ComparedSide
    notes: tuple[str, ...]
    """What else than the pack differs, and what limits the comparison."""
    membership_a: Membership
    membership_b: Membership
    shared: Shared
    labels: LabelFlips
    kinds: tuple[KindFlips, ...]
    replies: tuple[RepliesAlike, ...]
    rejects: tuple[StageRejects, ...]
    cost: Cost
    flip_examples: tuple[RowPair, ...]
    reply_examples: tuple[RowPair, ...]
    """Rows whose replies are least alike: of those labelled alike, if there are any."""


ComparedSide.model_rebuild()
