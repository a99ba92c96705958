"""`bystander build sid-bench` and `sid-train`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bystander.cli.build_options import (
    Config,
    Name,
    Out,
    Outcome,
    QuickVerify,
    Release,
    ReleaseDate,
    ReleaseOptions,
    RequireAll,
    Seed,
    Set,
    Workers,
    build_or_release,
    foresee_build_or_release,
    read_release_options,
    run_build,
)
from bystander.cli.overrides import gather_overrides

if TYPE_CHECKING:
    from bystander.schemas.rebuild import RebuildPlan
    from bystander.schemas.sid_config import SidBenchConfig, SidTrainConfig

_Profile = Annotated[
    str,
    typer.Option(
        help="Engines and sizes: laptop (embedded models, no GPU), rules (a lexicon and authored scripts instead of a "
        "language model) or fake (no models, for trying things out)."
    ),
]
_Recordings = Annotated[
    str | None,
    typer.Option(
        help="Recordings of two speakers: a folder, a glob, or a manifest (JSONL, CSV). Default: none; conversations "
        "are scripted and synthesised."
    ),
]
_Transcripts = Annotated[
    str | None, typer.Option(help="Folder or glob of transcripts. Default: they lie beside the audio.")
]
_Language = Annotated[str | None, typer.Option(help="Language of recordings that name none. Default: en.")]
_Licence = Annotated[str | None, typer.Option(help="Licence of recordings that name none; it goes on every row.")]
_Noise = Annotated[
    list[str] | None,
    typer.Option(help="Folder of noise clips, in the layout of ESC-50, MUSAN or any other; may be repeated."),
]
_Languages = Annotated[str | None, typer.Option(help="Languages wanted, such as en,zh. Default: the profile's.")]
_DisjointFrom = Annotated[
    list[str] | None,
    typer.Option(
        help="A finished SID build with which this one shares no recording, no noise and no text with new intent; may "
        "be repeated."
    ),
]
_Natural = Annotated[
    bool, typer.Option("--natural", help="No quotas of speech: every turn of the recordings, as they come.")
]


_HELP = {
    "bench": "Build SID-Bench: two-channel recordings in, turns with the time of their break out; silence and noise "
    "besides.\n\nWithout recordings, conversations are scripted and synthesised, whose breaks are known. Ctrl-C loses "
    "nothing that is finished: the same command goes on from there.",
    "train": "Build SID training data: the rows of SID-Bench, in a split to be trained on.\n\nCtrl-C loses nothing "
    "that is finished.",
}


def make_sid_command(kind: Literal["bench", "train"]) -> Callable[..., None]:
    """Return the command that builds SID-Bench, or SID training data."""

    def build(
        profile: _Profile = "laptop",
        recordings: _Recordings = None,
        transcripts: _Transcripts = None,
        language: _Language = None,
        licence: _Licence = None,
        noise: _Noise = None,
        languages: _Languages = None,
        natural: _Natural = False,
        disjoint_from: _DisjointFrom = None,
        seed: Seed = None,
        out: Out = None,
        name: Name = None,
        workers: Workers = None,
        release: Release = False,
        release_date: ReleaseDate = None,
        quick_verify: QuickVerify = False,
        require_all: RequireAll = False,
        config: Config = None,
        set_: Set = None,
    ) -> None:
        from bystander.flows.check_sid import check_sid_build
        from bystander.schemas.sid_config import SidBenchConfig, SidTrainConfig, load_sid_config

        given = {
            "recordings.path": recordings,
            "recordings.transcripts": transcripts,
            "recordings.language": language,
            "recordings.licence": licence,
            "noise.folders": noise or None,
            "targets.languages": [part.strip() for part in languages.split(",")] if languages else None,
            "disjoint_from": disjoint_from or None,
            "seed": seed,
            "store": out,
            "build": name,
            "workers": workers,
        }
        overrides = gather_overrides(set_, given)
        if natural:
            overrides["targets.per_language"] = None
        if kind == "bench":
            bench = load_sid_config(SidBenchConfig, profile, config or (), overrides)
            options = read_release_options(bench, release, release_date, quick_verify, require_all)
            run_build(
                lambda: check_sid_build(bench),
                lambda: _run_bench(bench, options),
                require_all,
                partial(_foresee_bench, bench, options),
            )
        else:
            train = load_sid_config(SidTrainConfig, profile, config or (), overrides)
            options = read_release_options(train, release, release_date, quick_verify, require_all)
            run_build(
                lambda: check_sid_build(train),
                lambda: _run_train(train, options),
                require_all,
                partial(_foresee_train, train, options),
            )

    build.__doc__ = _HELP[kind]
    return build


# Prefect takes seconds to import: it waits until the settings have been checked.


def _run_bench(settings: SidBenchConfig, options: ReleaseOptions | None) -> Outcome:
    from bystander.flows.build_sid_bench import run_build_sid_bench

    return build_or_release(settings, run_build_sid_bench, options)


def _run_train(settings: SidTrainConfig, options: ReleaseOptions | None) -> Outcome:
    from bystander.flows.build_sid_train import run_build_sid_train

    return build_or_release(settings, run_build_sid_train, options)


def _foresee_bench(settings: SidBenchConfig, options: ReleaseOptions | None, against: str | None) -> RebuildPlan:
    from bystander.flows.build_sid_bench import foresee_build_sid_bench

    return foresee_build_or_release(settings, foresee_build_sid_bench, options, against)


def _foresee_train(settings: SidTrainConfig, options: ReleaseOptions | None, against: str | None) -> RebuildPlan:
    from bystander.flows.build_sid_train import foresee_build_sid_train

    return foresee_build_or_release(settings, foresee_build_sid_train, options, against)
