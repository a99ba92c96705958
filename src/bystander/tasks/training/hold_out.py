"""Which rows of SID builds are held out: those of some voices, so that the slice tells how others will be heard.

A slice of the voices that were trained on flatters: a small network knows them. So voices are held out whole, of each
language its share of rows, and so are recordings: rows that share a voice or a recording lie on one side. Where a
language has too few voices for that, or its rows name none, its recordings are drawn instead, and a remark says so.
Clips in which nobody speaks are drawn by recording, of each category its share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import make_rng
from bystander.tasks.training.row_index import RowIndex

_DRAWS = 64
"""Sets of voices that are drawn; the one whose slice is most like all rows, with the newest texts, is taken."""
_MOST_OF_A_LANGUAGE = 0.4
"""Where a single voice has more of a language's rows, or more than twice the share, recordings are drawn."""
_FEW = 5
"""Below so many rows of a category, a slice is called small."""

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HeldOutRows:
    """The slice.

    Attributes:
        held: which rows are held out, shape (rows,).
        remarks: sentences for a person, on what the slice lacks.
    """

    held: npt.NDArray[np.bool_]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Stratum:
    """Rows of which a share is held out, as groups that stay whole."""

    groups: tuple[Places, ...]
    rows: int


def hold_out_voices(index: RowIndex, seed: int, share: float) -> HeldOutRows:
    """Return which rows of SID builds are held out; it hangs on the rows, the seed and the share alone.

    Args:
        index: of SID rows.
        seed: of the run.
        share: of the rows of each language, and of each category without speech, about. One voice at least is held out
            of a language that has several.
    """
    rows = len(index)
    if share <= 0 or not rows:
        return HeldOutRows(np.zeros(rows, bool))
    recordings, voices, languages, categories, texts = (
        index.rows[name].to_pylist() for name in ("query_id", "voice", "language", "part", "query_text")
    )
    strata, remarks = _list_strata(recordings, voices, languages, categories, share)
    labels = [f"{language} {category}" for language, category in zip(languages, categories, strict=True)]
    best: tuple[float, npt.NDArray[np.bool_]] | None = None
    for draw in range(_DRAWS):
        rng = make_rng(seed, str(draw), "hold_out_voices")
        held = np.zeros(rows, bool)
        for stratum in strata:
            held[_draw(stratum, share, rng)] = True
        badness = _judge(held, labels, voices, texts, share)
        if best is None or badness < best[0]:
            best = (badness, held)
    assert best is not None
    return HeldOutRows(best[1], (*remarks, *_describe_lacks(best[1], categories)))


@dataclass(frozen=True, slots=True)
class DealtFolds:
    """Rows in folds, each of which is held out once.

    Attributes:
        folds: the fold of each row, from 0, shape (rows,).
        remarks: sentences for a person, on what the folds cannot tell.
    """

    folds: npt.NDArray[np.int64]
    remarks: tuple[str, ...] = ()


def deal_into_folds(index: RowIndex, seed: int, count: int) -> DealtFolds:
    """Return which fold each row of SID builds is in; voices and recordings are whole, languages about even.

    It hangs on the rows, the seed and the count alone.

    Args:
        index: of SID rows.
        seed: of the run.
        count: of folds, at least 1.

    Raises:
        ConfigError: there are fewer voices and recordings than folds.
    """
    recordings, voices, languages, categories = (
        index.rows[name].to_pylist() for name in ("query_id", "voice", "language", "part")
    )
    strata, remarks = _list_strata(recordings, voices, languages, categories, 1 / count)
    groups = sum(len(stratum.groups) for stratum in strata)
    if groups < count:
        raise ConfigError(
            f"model.folds: the rows have {groups} voices or recordings that stay whole, too few for {count} folds; "
            "lower it, or build more"
        )
    folds, in_all = np.zeros(len(index), np.int64), np.zeros(count)
    for number, stratum in enumerate(strata):
        rng = make_rng(seed, str(number), "deal_into_folds")
        load = np.zeros(count)
        # Large ones first, so that small ones can make up for them.
        for place in sorted(rng.permutation(len(stratum.groups)), key=lambda one: -len(stratum.groups[one])):
            group = stratum.groups[place]
            fold = min(range(count), key=lambda one: (load[one], in_all[one]))
            folds[group] = fold
            load[fold] += len(group)
            in_all[fold] += len(group)
    return DealtFolds(folds, tuple(remarks))


def _list_strata(
    recordings: Sequence[str],
    voices: Sequence[str | None],
    languages: Sequence[str | None],
    categories: Sequence[str],
    share: float,
) -> tuple[list[_Stratum], list[str]]:
    """Return what is drawn from, and remarks on languages whose voices cannot be held out."""
    found: list[_Stratum] = []
    remarks: list[str] = []
    keys = [
        (f"recording {recording}", *([f"voice {language} {voice}"] if voice else []))
        for recording, voice, language in zip(recordings, voices, languages, strict=True)
    ]
    by_voice = _join_keys(keys)
    spoken: dict[str, list[Places]] = defaultdict(list)
    silent: list[Places] = []
    for group in by_voice:
        named = Counter(str(languages[place]) for place in group if languages[place] is not None)
        if named:
            spoken[min(named, key=lambda name: (-named[name], name))].append(group)
        else:
            silent.append(group)
    for language, groups in sorted(spoken.items()):
        whole = np.sort(np.concatenate(groups))
        least = min(len(group) for group in groups)
        named_voices = len({voices[place] for place in whole} - {None})
        if not named_voices or len(groups) < 2 or least > max(2 * share, _MOST_OF_A_LANGUAGE) * len(whole):
            recorded = [whole[part] for part in _join_keys([(recordings[place],) for place in whole])]
            count = f"{named_voices or 'no'} voice{'s' * (named_voices != 1)}"
            remarks.append(
                f"Held-out rows of {language} are of other recordings, not surely of other voices: its {len(whole)} "
                f"rows name {count}, none of which can be held out whole. They do not tell how others will be heard."
            )
            groups = recorded
        found.append(_Stratum(tuple(groups), len(whole)))
    by_category: dict[str, list[Places]] = defaultdict(list)
    for group in silent:
        by_category[categories[group[0]]].append(group)
    found += [_Stratum(tuple(groups), sum(map(len, groups))) for _, groups in sorted(by_category.items())]
    return found, remarks


def _join_keys(keys: Sequence[Iterable[str]]) -> list[Places]:
    """Return groups of rows, each with all rows that share a key with another of it; in the order of first rows."""
    parents = list(range(len(keys)))

    def find(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    first: dict[str, int] = {}
    for place, names in enumerate(keys):
        for name in names:
            one, other = find(first.setdefault(name, place)), find(place)
            parents[max(one, other)] = min(one, other)
    members: dict[int, list[int]] = defaultdict(list)
    for place in range(len(keys)):
        members[find(place)].append(place)
    return [np.array(places, np.int64) for places in members.values()]


def _draw(stratum: _Stratum, share: float, rng: np.random.Generator) -> Places:
    """Return rows of groups that are drawn until about the share is reached: one group at least, never all."""
    if len(stratum.groups) < 2:
        return np.empty(0, np.int64)
    wanted, got = share * stratum.rows, 0
    taken: list[Places] = []
    for number in rng.permutation(len(stratum.groups)):
        group = stratum.groups[number]
        if len(taken) == len(stratum.groups) - 1:
            break
        if not taken or got + len(group) / 2 <= wanted:
            taken.append(group)
            got += len(group)
    return np.concatenate(taken)


def _judge(
    held: npt.NDArray[np.bool_],
    labels: Sequence[str],
    voices: Sequence[str | None],
    texts: Sequence[str | None],
    share: float,
) -> float:
    """Return how bad a slice is: deviations of its shares of each language and category, and texts of both sides."""
    total, out = Counter(labels), Counter(label for label, one in zip(labels, held, strict=True) if one)
    off = sum(abs(out[label] / count - share) + (not out[label]) for label, count in total.items())
    trained = {text for text, one in zip(texts, held, strict=True) if not one}
    said = [text in trained for text, voice, one in zip(texts, voices, held, strict=True) if one and voice]
    return off + (float(np.mean(said)) if said else 0.0)


def _describe_lacks(held: npt.NDArray[np.bool_], categories: Sequence[str]) -> list[str]:
    total = Counter(categories)
    out = Counter(category for category, one in zip(categories, held, strict=True) if one)
    if not held.any():
        return ["No row is held out, since there is but one recording: nothing tells how other clips are heard."]
    lacking = [name for name in sorted(total) if not out[name]]
    small = [f"{name} {out[name]}" for name in sorted(total) if 0 < out[name] < _FEW]
    remarks = []
    if lacking:
        remarks.append(f"No row of {', '.join(lacking)} is held out: what was chosen on the slice knows none of them.")
    if small:
        remarks.append(f"Few rows are held out of some categories ({', '.join(small)}): their figures are rough.")
    return remarks
