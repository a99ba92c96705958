"""Stage `choose_voices`: two different voices a row."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa

from bystander.schemas.engines import RowFault, Voice
from bystander.schemas.errors import ConfigError
from bystander.schemas.exclusions import NO_EXCLUSIONS, Exclusions, VoicePair
from bystander.schemas.identity import make_rng
from bystander.schemas.stages import Stage, StageContext, StageOutput, split_rows
from bystander.schemas.tpi import SCORED, VOICED
from bystander.schemas.tpi_params import ChooseVoices
from bystander.tasks.stages.voice_pairs import PairTables, find_usable, has_pair

NAME = "choose_voices"
_MOST_NAMED = 40


def choose_voices(rows: pa.Table, context: StageContext) -> StageOutput:
    """Draw the primary's voice and another one for the third party, seeded by the row.

    Every voice that has a permitted partner is drawn equally often in either role, in expectation, as far as the pairs
    that are not permitted allow it: pairs to avoid, pairs that sound alike, pairs of other builds, and those on the
    side of the hold-out that is not to be used. Where voices are held out, those on the other side and those of other
    builds are not drawn at all. Both voices speak the row's language.

    Columns read: id, language. Written: n_speakers (2), primary_voice, third_party_voice, twin_id (null).

    Reject reasons:
        no_voices_for_language: fewer than two voices that may be paired speak the row's language.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, ask for embeddings that it does not state, or
            leave no pair to draw.
    """
    tables = _open_tables(context.speech.voices, cast(ChooseVoices, context.params), context.exclusions)
    outcomes: list[dict[str, Any] | RowFault] = []
    for row_id, language in zip(rows["id"].to_pylist(), rows["language"].to_pylist(), strict=True):
        table = tables.find(language)
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


def check_voices(
    offered: Sequence[Voice],
    params: ChooseVoices,
    languages: Sequence[str],
    exclusions: Exclusions = NO_EXCLUSIONS,
) -> None:
    """See whether an engine's voices can speak a build's rows, before there are any.

    Raises:
        ConfigError: the settings name a voice that the engine lacks, ask for embeddings that it does not state, or
            leave no pair for one of the languages.
    """
    tables = _open_tables(offered, params, exclusions)
    for language in languages:
        if tables.find(language) is None:
            raise ConfigError(
                f"stages.{NAME}: no two of {len(tables.voices)} voices that may be paired speak {language!r}; change "
                "`voices`, `avoid_pairs` or stages.normalise_queries.languages"
            )


def _open_tables(offered: Sequence[Voice], params: ChooseVoices, exclusions: Exclusions) -> PairTables:
    taken_voices = frozenset(exclusions.voices if params.hold_out_by == "voice" else ())
    return _build_tables(tuple(offered), params, frozenset(exclusions.pairs), taken_voices)


# With thousands of voices, finding the pairs takes a second: once a process, not once a partition.
@lru_cache(maxsize=2)
def _build_tables(
    offered: tuple[Voice, ...],
    params: ChooseVoices,
    taken: frozenset[VoicePair],
    taken_voices: frozenset[str],
) -> PairTables:
    _check_names(offered, params)
    wanted = frozenset(params.voices)
    named = [voice for voice in offered if not wanted or voice.id in wanted]
    usable = find_usable(named, params)
    if not has_pair(usable, params):
        side, remedy = "", ""
        if params.use != "all":
            side = f" of the {params.hold_out_by}s to use ({params.use!r} at hold_out {params.hold_out:g})"
            remedy = ", or set `use: all`"
        raise ConfigError(
            f"stages.{NAME}: {len(named)} voices leave no pair to draw{side}; name at least two in `voices` "
            f"that `avoid_pairs` and `avoid_similar` do not keep apart{remedy}"
        )
    left = [voice for voice in usable if voice.id not in taken_voices]
    if (taken or taken_voices) and not has_pair(left, params, taken):
        what = "all but one voice" if taken_voices and len(left) < 2 else "every pair"
        raise ConfigError(
            f"stages.{NAME}: the builds in `disjoint_from` use {what} of {len(named)} voices that may be drawn; "
            "build the others with `use: rest` and this one with `use: held_out`, or add voices"
        )
    return PairTables(left, params, taken)


def _check_names(offered: Sequence[Voice], params: ChooseVoices) -> None:
    known = {voice.id for voice in offered}
    named = {"voices": params.voices, "avoid_pairs": [voice for pair in params.avoid_pairs for voice in pair]}
    for setting, ids in named.items():
        unknown = sorted(set(ids) - known)
        if unknown:
            raise ConfigError(
                f"stages.{NAME}.{setting}: the speech engine has no voice {_list_names(unknown)}; it has "
                f"{_list_names(sorted(known))}"
            )
    bare = sorted(voice.id for voice in offered if not voice.embedding)
    if params.avoid_similar is not None and bare:
        raise ConfigError(
            f"stages.{NAME}.avoid_similar: the speech engine states no speaker embedding of {_list_names(bare)}; a "
            "voice bank that `bystander voices index` made has them; set it to null, or name pairs in `avoid_pairs`"
        )


def _list_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


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
