"""Stage `choose_voices`: two different voices a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bystander.schemas.engines import RowFault, Voice
from bystander.schemas.errors import ConfigError
from bystander.schemas.identity import make_rng
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import SCORED, VOICED
from bystander.schemas.tpi_params import ChooseVoices

NAME = "choose_voices"
_BALANCING_ROUNDS = 500


def choose_voices(rows: pa.Table, context: StageContext) -> StageOutput:
    """Draw the primary's voice and another one for the third party, seeded by the row.

    Every voice that has a permitted partner is drawn equally often in either role, in expectation, as far as the pairs
    to avoid allow it. Both voices speak the row's language.

    Columns read: id, language. Written: n_speakers (2), primary_voice, third_party_voice, twin_id (null).

    Reject reasons:
        no_voices_for_language: fewer than two voices that may be paired speak the row's language.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, or leave fewer than two usable voices.
    """
    params = cast(ChooseVoices, context.params)
    voices = _select_voices(context.speech.voices, params)
    tables: dict[str, PairTable | None] = {}
    outcomes: list[dict[str, Any] | RowFault] = []
    for row_id, language in zip(rows["id"].to_pylist(), rows["language"].to_pylist(), strict=True):
        if language not in tables:
            tables[language] = _build_table(voices, language, params)
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
    def build(cls, voices: Sequence[str], avoid_pairs: Sequence[tuple[str, str]]) -> PairTable | None:
        """Return the table over all voices that have a permitted partner, or None where no pair is permitted."""
        avoided = {frozenset(pair) for pair in avoid_pairs}
        names = sorted(set(voices))
        usable = tuple(
            one for one in names if any(one != other and frozenset((one, other)) not in avoided for other in names)
        )
        if len(usable) < 2:
            return None
        weights = np.array(
            [[float(one != other and frozenset((one, other)) not in avoided) for other in usable] for one in usable]
        )
        # Sinkhorn's scaling: rows and columns that both sum to 1 make the roles balanced despite the avoided pairs.
        for _ in range(_BALANCING_ROUNDS):
            weights /= weights.sum(axis=0, keepdims=True)
            weights /= weights.sum(axis=1, keepdims=True)
        return cls(usable, np.cumsum(weights, axis=1))

    def draw(self, rng: np.random.Generator) -> tuple[str, str]:
        """Return two different voices."""
        first = int(rng.integers(len(self._voices)))
        sums = self._cumulated[first]
        second = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        return self._voices[first], self._voices[second]


def check_voices(offered: Sequence[Voice], params: ChooseVoices, languages: Sequence[str]) -> None:
    """See whether an engine's voices can speak a build's rows, before there are any.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, or leave no pair for one of the languages.
    """
    voices = _select_voices(offered, params)
    for language in languages:
        if _build_table(voices, language, params) is None:
            raise ConfigError(
                f"stages.{NAME}: no two of {len(voices)} voices that may be paired speak {language!r}; change "
                "`voices`, `avoid_pairs` or stages.normalise_queries.languages"
            )


def _build_table(voices: Sequence[Voice], language: str, params: ChooseVoices) -> PairTable | None:
    speaking = [voice.id for voice in voices if _main_language(voice.language) == _main_language(language)]
    return PairTable.build(speaking, params.avoid_pairs)


def _select_voices(offered: Sequence[Voice], params: ChooseVoices) -> list[Voice]:
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
    if PairTable.build([voice.id for voice in selected], params.avoid_pairs) is None:
        raise ConfigError(
            f"stages.{NAME}: {len(selected)} voices leave no pair to draw; name at least two in `voices` "
            "that `avoid_pairs` does not keep apart"
        )
    return selected


def _main_language(tag: str) -> str:
    return tag.replace("_", "-").split("-")[0].lower()


STAGE = Stage(
    name=NAME,
    version=1,
    reads=SCORED,
    writes=VOICED,
    reasons=frozenset({"no_voices_for_language"}),
    run=choose_voices,
    params_type=ChooseVoices,
    engines=("speech",),
    uses=("id", "language"),
)
