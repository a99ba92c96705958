"""Stage `choose_voices`: two different voices a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.engines import RowFault, Voice
from bystander.schemas.errors import ConfigError
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions, VoicePair
from bystander.schemas.identity import digest_json, make_rng
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import SCORED, VOICED
from bystander.schemas.tpi_params import ChooseVoices
from bystander.tasks.stages.strata import mix_bits

NAME = "choose_voices"
_BALANCING_ROUNDS = 500
_HOLD_OUT_SALT = np.uint64(0x8EBC6AF09C88C6E3)
"""Chosen so that both sides of Kokoro's and the fake's pairs are balanced: every voice has partners on either."""


def choose_voices(rows: pa.Table, context: StageContext) -> StageOutput:
    """Draw the primary's voice and another one for the third party, seeded by the row.

    Every voice that has a permitted partner is drawn equally often in either role, in expectation, as far as the pairs
    that are not permitted allow it: pairs to avoid, pairs of other builds, and those on the side of the hold-out that
    is not to be used. Both voices speak the row's language.

    Columns read: id, language. Written: n_speakers (2), primary_voice, third_party_voice, twin_id (null).

    Reject reasons:
        no_voices_for_language: fewer than two voices that may be paired speak the row's language.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, or leave no pair to draw.
    """
    params = cast(ChooseVoices, context.params)
    voices = _select_voices(context.speech.voices, params, context.exclusions)
    tables: dict[str, PairTable | None] = {}
    outcomes: list[dict[str, Any] | RowFault] = []
    for row_id, language in zip(rows["id"].to_pylist(), rows["language"].to_pylist(), strict=True):
        if language not in tables:
            tables[language] = _build_table(voices, language, params, context.exclusions)
        table = tables[language]
        if table is None:
            outcomes.append(
                RowFault("no_voices_for_language", f"fewer than two voices that may be paired speak {language!r}")
            )
            continue
        primary, third_party = table.draw(make_rng(context.build_seed, row_id, NAME))
        outcomes.append(
            {"n_speakers": 2, "primary_voice": primary, "third_party_voice": third_party, "twin_id": None},
        )
    return split_rows(NAME, rows, outcomes, VOICED)


class PairTable:
    """The permitted pairs of voices and how probable each partner is."""

    def __init__(self, voices: tuple[str, ...], cumulated: npt.NDArray[np.float64]) -> None:
        self._voices = voices
        self._cumulated = cumulated  # (voices, voices): a row's running sum over its partners

    @classmethod
    def build(
        cls, voices: Collection[str], params: ChooseVoices, taken: Collection[VoicePair] = ()
    ) -> PairTable | None:
        """Return the table over all voices that have a permitted partner, or None where no pair is permitted."""
        names = sorted(set(voices))
        permitted = _find_permitted(names, params, taken)
        usable = np.flatnonzero(permitted.any(axis=1))
        if not len(usable):
            return None
        weights = permitted[np.ix_(usable, usable)].astype(float)
        # Sinkhorn's scaling: rows and columns that both sum to 1 make the roles balanced despite the missing pairs.
        for _ in range(_BALANCING_ROUNDS):
            weights /= weights.sum(axis=0, keepdims=True)
            weights /= weights.sum(axis=1, keepdims=True)
        return cls(tuple(names[i] for i in usable), np.cumsum(weights, axis=1))

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """Return two different voices."""
        first = int(rng.integers(len(self._voices)))
        sums = self._cumulated[first]
        second = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return self._voices[first], self._voices[second]


def find_held_out(voices: Sequence[str], share: float) -> npt.NDArray[np.bool_]:
    """Return which pairs are set aside: symmetric, shape (voices, voices). Each pair's own hash decides."""
    keys = np.array([int(digest_json(voice)[:16], 16) for voice in voices], np.uint64)
    places = mix_bits(mix_bits(keys[:, None] ^ keys[None, :]) ^ _HOLD_OUT_SALT).astype(np.float64) / 2.0**64
    return np.asarray(places < share)


def check_voices(
    offered: Sequence[Voice],
    params: ChooseVoices,
    languages: Sequence[str],
    exclusions: Exclusions = NO_EXCLUSIONS,
) -> None:
    """See whether an engine's voices can speak a build's rows, before there are any.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, or leave no pair for one of the languages.
    """
    voices = _select_voices(offered, params, exclusions)
    for language in languages:
        if _build_table(voices, language, params, exclusions) is None:
            raise ConfigError(
                f"stages.{NAME}: no two of {len(voices)} voices that may be paired speak {language!r}; change "
                "`voices`, `avoid_pairs` or stages.normalise_queries.languages"
            )


def _find_permitted(names: Sequence[str], params: ChooseVoices, taken: Collection[VoicePair]) -> npt.NDArray[np.bool_]:
    """Return which pairs may be drawn: symmetric, shape (voices, voices)."""
    permitted = ~np.eye(len(names), dtype=bool)
    if params.use != "all":
        permitted &= find_held_out(names, params.hold_out) == (params.use == "held_out")
    at = {name: i for i, name in enumerate(names)}
    for one, other in (*params.avoid_pairs, *taken):
        if one in at and other in at:
            permitted[at[one], at[other]] = permitted[at[other], at[one]] = False
    return np.asarray(permitted)


def _build_table(
    voices: Sequence[Voice], language: str, params: ChooseVoices, exclusions: Exclusions
) -> PairTable | None:
    speaking = [voice.id for voice in voices if _main_language(voice.language) == _main_language(language)]
    return PairTable.build(speaking, params, exclusions.pairs)


def _select_voices(offered: Sequence[Voice], params: ChooseVoices, exclusions: Exclusions) -> list[Voice]:
    known = {voice.id for voice in offered}
    named = {"voices": params.voices, "avoid_pairs": [voice for pair in params.avoid_pairs for voice in pair]}
    for setting, ids in named.items():
        unknown = sorted(set(ids) - known)
        if unknown:
            raise ConfigError(
                f"stages.{NAME}.{setting}: the speech engine has no voice {', '.join(unknown)}; it has "
                f"{', '.join(sorted(known))}"
            )
    selected = [voice for voice in offered if not params.voices or voice.id in params.voices]
    ids = [voice.id for voice in selected]
    if PairTable.build(ids, params) is None:
        side, remedy = "", ""
        if params.use != "all":
            side = f" of the pairs to use ({params.use!r} at hold_out {params.hold_out:g})"
            remedy = ", or set `use: all`"
        raise ConfigError(
            f"stages.{NAME}: {len(selected)} voices leave no pair to draw{side}; name at least two in `voices` "
            f"that `avoid_pairs` does not keep apart{remedy}"
        )
    if PairTable.build(ids, params, exclusions.pairs) is None:
        raise ConfigError(
            f"stages.{NAME}: the builds in `disjoint_from` use every pair of {len(selected)} voices that may be drawn; "
            "build the others with `use: rest` and this one with `use: held_out`, or add voices"
        )
    return selected


def _main_language(tag: str) -> str:
    return tag.replace("_", "-").split("-")[0].lower()


STAGE = Stage(
    name=NAME,
    version=2,
    reads=SCORED,
    writes=VOICED,
    reasons=frozenset({"no_voices_for_language"}),
    run=choose_voices,
    params_type=ChooseVoices,
    engines=("speech",),
    uses=("id", "language"),
    uses_exclusions=True,
)
