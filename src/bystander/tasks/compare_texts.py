"""Labels, kinds and replies of the rows that two builds have in common, held against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bystander.schemas.identity import derive_seed
from bystander.schemas.ordering import interleave
from bystander.schemas.pack_diff import (
    KindFlips,
    LabelFigures,
    LabelFlips,
    MeanFigure,
    Membership,
    RepliesAlike,
    RowPair,
    RowSide,
    Shared,
)
from bystander.schemas.tpi import HARD_NEGATIVE_LABEL
from bystander.tasks.compared_rows import ComparedBuild, ComparedRow
from bystander.tasks.metrics.bootstrap import estimate_mean
from bystander.tasks.metrics.label_agreement import measure_association, measure_label_agreement
from bystander.tasks.metrics.reply_similarity import ReplySimilarity, measure_similarity
from bystander.tasks.texts.mentions import refers_to_other_person
from bystander.tasks.texts.spoken_text import split_words

_SEED = 0
_NO_KIND = "none"


@dataclass(frozen=True, slots=True)
class Pair:
    """A row of the same id and the same texts in both builds."""

    a: ComparedRow
    b: ComparedRow
    similarity: ReplySimilarity | None
    """Of the replies, where both builds have one."""


def match_rows(first: Mapping[str, ComparedRow], second: Mapping[str, ComparedRow]) -> tuple[list[Pair], Shared]:
    """Return the rows with the same texts that both builds labelled, ordered by id, and how many others they share."""
    ids = sorted(first.keys() & second.keys())
    same = [row_id for row_id in ids if None not in first[row_id].words and first[row_id].words == second[row_id].words]
    # A row that was not written in one of them has no words that could differ.
    unwritten = sum(None in first[row_id].words or None in second[row_id].words for row_id in ids)
    labelled = [row_id for row_id in same if first[row_id].label is not None and second[row_id].label is not None]
    pairs = []
    for row_id in labelled:
        a, b = first[row_id], second[row_id]
        alike = None
        if a.reply is not None and b.reply is not None:
            alike = measure_similarity(a.reply, b.reply, a.language)
        pairs.append(Pair(a, b, alike))
    shared = Shared(
        ids=len(ids),
        other_words=len(ids) - len(same) - unwritten,
        unlabelled=len(same) - len(labelled) + unwritten,
        compared=len(labelled),
    )
    return pairs, shared


def locate_rows(here: ComparedBuild, other: ComparedBuild) -> Membership:
    """Return how many published two-speaker rows of a build the other one has too, and where it lost the rest."""
    published = [row.id for row in here.pairs.values() if row.is_published]
    lost = [row_id for row_id in published if row_id not in other.pairs or not other.pairs[row_id].is_published]
    fates = Counter(other.pairs[row_id].fate if row_id in other.pairs else "not drawn there" for row_id in lost)
    return Membership(
        in_both=len(published) - len(lost),
        only_here=len(lost),
        elsewhere=dict(sorted(fates.items(), key=lambda item: (-item[1], item[0]))),
    )


def compare_labels(pairs: Sequence[Pair], classes_a: Sequence[str], classes_b: Sequence[str]) -> LabelFlips:
    """Return which labels became which. A flip is another name: packs may mean different things by the same one."""
    counts = Counter((pair.a.label, pair.b.label) for pair in pairs)
    # Classes of both packs stand in the order of A's, so that rows labelled alike are the diagonal.
    columns = sorted(classes_b, key=lambda key: classes_a.index(key) if key in classes_a else len(classes_a))
    matrix = {one: {other: counts[one, other] for other in columns} for one in classes_a}
    flipped = _estimate([pair.a.label != pair.b.label for pair in pairs], [pair.a for pair in pairs], "flipped")
    if {*classes_a} != {*classes_b}:
        return LabelFlips(
            matrix=matrix,
            flipped=flipped,
            kappa=None,
            kappa_low=None,
            kappa_high=None,
            kappa_note="the packs have different classes, so there is no agreement by chance to hold it against",
            association=measure_association(
                [str(pair.a.label) for pair in pairs], [str(pair.b.label) for pair in pairs]
            ),
        )
    agreement = measure_label_agreement(
        [str(pair.a.label) for pair in pairs],
        [str(pair.b.label) for pair in pairs],
        seed=derive_seed(_SEED, "kappa", "bootstrap"),
        clusters=[pair.a.query_id for pair in pairs],
    )
    return LabelFlips(
        matrix=matrix,
        flipped=flipped,
        kappa=agreement.kappa,
        kappa_low=agreement.low,
        kappa_high=agreement.high,
        kappa_note=agreement.reason,
        association=None,
    )


def compare_kinds(pairs: Sequence[Pair], classes: Sequence[str]) -> list[KindFlips]:
    """Return which kinds became which, for each class whose rows have kinds; only of rows labelled alike."""
    found = []
    for label in classes:
        same = [pair for pair in pairs if pair.a.label == pair.b.label == label]
        if not any(pair.a.kind or pair.b.kind for pair in same):
            continue
        counts = Counter((pair.a.kind or _NO_KIND, pair.b.kind or _NO_KIND) for pair in same)
        table: dict[str, dict[str, int]] = {}
        for (one, other), count in sorted(counts.items()):
            table.setdefault(one, {})[other] = count
        flipped = _estimate([pair.a.kind != pair.b.kind for pair in same], [pair.a for pair in same], f"kind {label}")
        found.append(KindFlips(label=label, counts=table, flipped=flipped))
    return found


def compare_replies(pairs: Sequence[Pair], singles: Sequence[Pair], classes: Sequence[str]) -> list[RepliesAlike]:
    """Return how alike replies are by label, then by flip, then for hard negatives."""
    groups: dict[str, list[Pair]] = {label: [] for label in classes}
    groups |= {name_flip(one, other): [] for one in classes for other in classes if one != other}
    for pair in pairs:
        one, other = str(pair.a.label), str(pair.b.label)
        groups[one if one == other else name_flip(one, other)].append(pair)
    groups[HARD_NEGATIVE_LABEL] = list(singles)
    return [
        _compare_group(group, replied)
        for group, members in groups.items()
        if (replied := [pair for pair in members if pair.similarity is not None])
    ]


def name_flip(one: str, other: str) -> str:
    """Return how rows of one label in A and another in B are named."""
    return f"{one} → {other}"


def describe_labels(build: ComparedBuild) -> dict[str, LabelFigures]:
    """Return the figures of each label over all rows of a build that have one, hard negatives last."""
    rows = [row for row in (*build.pairs.values(), *build.singles.values()) if row.label is not None]
    found = {}
    for label in (*build.manifest.pack.classes, HARD_NEGATIVE_LABEL):
        mine = [row for row in rows if row.label == label]
        if not mine and label == HARD_NEGATIVE_LABEL:
            continue
        replied = [row for row in mine if row.reply is not None]
        found[label] = LabelFigures(
            labelled=len(mine),
            published=sum(row.is_published for row in mine),
            words=_estimate([len(split_words(row.reply or "")) for row in replied], replied, f"{label} words"),
            mentions=_estimate([refers_to_other_person(row.reply or "") for row in replied], replied, f"{label} says"),
        )
    return found


def estimate_tries(build: ComparedBuild) -> MeanFigure:
    """Return the mean of how often a reply was asked for, over two-speaker rows that got one."""
    rows = [row for row in build.pairs.values() if row.reply_attempts is not None]
    return _estimate([row.reply_attempts or 0 for row in rows], rows, "tries")


def choose_flips(pairs: Sequence[Pair], limit: int) -> list[RowPair]:
    """Return rows whose labels differ: flips of all kinds take turns, and within one the surest come first."""
    flips: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        if pair.a.label != pair.b.label:
            flips.setdefault((str(pair.a.label), str(pair.b.label)), []).append(pair)
    for found in flips.values():
        found.sort(key=lambda pair: (-min(pair.a.label_score or 0.0, pair.b.label_score or 0.0), pair.a.id))
    return [_show(pair) for pair in interleave([flips[key] for key in sorted(flips)])[:limit]]


def choose_least_alike(pairs: Sequence[Pair], limit: int) -> list[RowPair]:
    """Return rows whose replies have the fewest words in common: of those labelled alike, if there are any."""
    alike = [pair for pair in pairs if pair.a.label == pair.b.label]
    replied = [
        (pair.similarity.rouge_l, pair.similarity.bleu, pair.a.id, pair)
        for pair in alike or pairs
        if pair.similarity is not None and pair.similarity.rouge_l < 1
    ]
    replied.sort(key=lambda item: item[:3])
    return [_show(pair) for *_, pair in replied[:limit]]


def _compare_group(group: str, pairs: Sequence[Pair]) -> RepliesAlike:
    rows = [pair.a for pair in pairs]
    texts = [(" ".join((p.a.reply or "").split()), " ".join((p.b.reply or "").split())) for p in pairs]

    def estimate(values: Sequence[float], name: str) -> MeanFigure:
        return _estimate(values, rows, f"{group} {name}")

    return RepliesAlike(
        group=group,
        bleu=estimate([pair.similarity.bleu for pair in pairs if pair.similarity is not None], "bleu"),
        rouge_l=estimate([pair.similarity.rouge_l for pair in pairs if pair.similarity is not None], "rouge_l"),
        identical=estimate([one == other for one, other in texts], "identical"),
        words_a=estimate([len(split_words(one)) for one, _ in texts], "words a"),
        words_b=estimate([len(split_words(other)) for _, other in texts], "words b"),
        mentions_a=estimate([refers_to_other_person(one) for one, _ in texts], "mentions a"),
        mentions_b=estimate([refers_to_other_person(other) for _, other in texts], "mentions b"),
    )


def _estimate(values: Sequence[float], rows: Sequence[ComparedRow], name: str) -> MeanFigure:
    """Return a mean whose interval draws whole requests: the rows of one are alike."""
    found = estimate_mean(
        [float(value) for value in values],
        seed=derive_seed(_SEED, name, "bootstrap"),
        clusters=[row.query_id for row in rows],
    )
    return MeanFigure(mean=found.mean, low=found.low, high=found.high, n=found.n)


def _show(pair: Pair) -> RowPair:
    row = pair.a
    return RowPair(
        id=row.id,
        request=row.request,
        scenario=row.scenario,
        timing=row.timing,
        primary_text=row.primary_text or "",
        third_party_text=row.third_party_text or "",
        rouge_l=pair.similarity.rouge_l if pair.similarity is not None else None,
        a=_show_side(pair.a),
        b=_show_side(pair.b),
    )


def _show_side(row: ComparedRow) -> RowSide:
    return RowSide(label=row.label, label_score=row.label_score, kind=row.kind, reply=row.reply, fate=row.fate)
