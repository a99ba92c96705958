"""`bystander build tpi-train` and `tpi-bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.build_options import (
    Config,
    Name,
    Out,
    Outcome,
    QuickVerify,
    Release,
    ReleaseDate,
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

_Profile = Annotated[
    str,
    typer.Option(
        help="Engines and sizes: laptop (embedded models, no GPU), playbook (authored texts, embedded speech) or "
        "fake (no models, for trying things out)."
    ),
]
_Queries = Annotated[
    str | None,
    typer.Option(
        help="Requests to build from: path, glob or URL of JSONL, CSV, TSV, TXT or Parquet. Default: the starter "
        "set of the package."
    ),
]
_TextColumn = Annotated[
    str | None,
    typer.Option(help="Column of the request in --queries. Default: question, text, query, ..., the first there is."),
]
_Pack = Annotated[
    str | None,
    typer.Option(
        help="Response strategy: a pack's name, or its folder. Rows are dealt to its classes by their shares. Default: "
        "reference."
    ),
]
_Rows = Annotated[
    int | None,
    typer.Option(min=1, help="Rows in all, one-speaker rows included, in the proportions of the profile."),
]
_DisjointFrom = Annotated[
    list[str] | None,
    typer.Option(
        help="A finished build with which this one shares no query, no text and no pair of voices; may be repeated."
    ),
]
_SameRowsAs = Annotated[
    str | None,
    typer.Option(
        metavar="BUILD",
        help="A finished build whose rows are to be here again, with labels and replies of this pack: its requests, "
        "texts, voices and audio stay, and nothing is spoken. Every class has as many rows as come.",
    ),
]


def build_tpi_train(
    profile: _Profile = "laptop",
    queries: _Queries = None,
    text_column: _TextColumn = None,
    pack: _Pack = None,
    rows: _Rows = None,
    hard_negatives: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of two-speaker rows, how many get a one-speaker twin; these come on top of --rows' pairs."
        ),
    ] = None,
    seed: Seed = None,
    disjoint_from: _DisjointFrom = None,
    grow: Annotated[
        str | None,
        typer.Option(
            metavar="BUILD",
            help="A finished build whose rows are all to be here unchanged; others are added until --rows are there. "
            "Its settings must be the same; --queries may have more requests.",
        ),
    ] = None,
    same_rows_as: _SameRowsAs = None,
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
    """Build TPI-Train: requests in, Parquet shards of interrupted requests with replies out.

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.flows.check_tpi_train import check_tpi_build
    from bystander.flows.pack_targets import fit_to_pack
    from bystander.schemas.config import load_config, resize

    overrides = _lay_over(set_, queries, text_column, pack, seed, disjoint_from, out, name, workers)
    overrides |= _stand_on(grow, same_rows_as, rows, hard_negatives)
    settings = resize(fit_to_pack(load_config(profile, config or (), overrides)), rows, hard_negatives)
    options = read_release_options(settings, release, release_date, quick_verify, require_all)

    def run() -> Outcome:
        from bystander.flows.build_tpi_train import run_build_tpi_train

        return build_or_release(settings, run_build_tpi_train, options)

    def foresee(against: str | None) -> RebuildPlan:
        from bystander.flows.build_tpi_train import foresee_build_tpi_train

        return foresee_build_or_release(settings, foresee_build_tpi_train, options, against)

    run_build(lambda: check_tpi_build(settings), run, require_all, foresee)


def build_tpi_bench(
    profile: _Profile = "laptop",
    queries: _Queries = None,
    text_column: _TextColumn = None,
    pack: _Pack = None,
    rows: _Rows = None,
    one_speaker: Annotated[
        int | None,
        typer.Option(min=0, help="Rows of Janus-Test, the one-speaker split, instead of its share of --rows."),
    ] = None,
    seed: Seed = None,
    disjoint_from: _DisjointFrom = None,
    same_rows_as: _SameRowsAs = None,
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
    """Build TPI-Bench: TPI-Test (two speakers) and Janus-Test (the same kind of words, one speaker), twins linked.

    Name the training builds with --disjoint-from. Ctrl-C loses nothing that is finished.
    """
    from bystander.flows.check_tpi_train import check_tpi_build
    from bystander.flows.pack_targets import fit_to_pack
    from bystander.schemas.config import load_bench_config, resize

    overrides = _lay_over(set_, queries, text_column, pack, seed, disjoint_from, out, name, workers)
    overrides |= _stand_on(None, same_rows_as, rows, one_speaker)
    settings = resize(fit_to_pack(load_bench_config(profile, config or (), overrides)), rows, one_speaker)
    options = read_release_options(settings, release, release_date, quick_verify, require_all)

    def run() -> Outcome:
        from bystander.flows.build_tpi_bench import run_build_tpi_bench

        return build_or_release(settings, run_build_tpi_bench, options)

    def foresee(against: str | None) -> RebuildPlan:
        from bystander.flows.build_tpi_bench import foresee_build_tpi_bench

        return foresee_build_or_release(settings, foresee_build_tpi_bench, options, against)

    run_build(lambda: check_tpi_build(settings), run, require_all, foresee)


def _stand_on(grow: str | None, same_rows_as: str | None, *sizes: int | None) -> dict[str, Any]:
    """Return the fields that name the build to stand on.

    Raises:
        ConfigError: two are named, or sizes where the other build has them.
    """
    from bystander.schemas.errors import ConfigError

    if grow is not None and same_rows_as is not None:
        raise ConfigError("--grow and --same-rows-as: name one build, to add rows to it or to have just its rows")
    if same_rows_as is not None:
        if any(size is not None for size in sizes):
            raise ConfigError("--same-rows-as: a build has as many rows as the other; leave out --rows and the like")
        return {"on_top_of.build": same_rows_as, "on_top_of.rows": "only"}
    return {} if grow is None else {"on_top_of.build": grow, "on_top_of.rows": "first"}


def _lay_over(
    set_: list[str] | None,
    queries: str | None,
    text_column: str | None,
    pack: str | None,
    seed: int | None,
    disjoint_from: list[str] | None,
    out: str | None,
    name: str | None,
    workers: int | None,
) -> dict[str, Any]:
    """Return the fields that options give, over those of `--set`."""
    given = {
        "queries.path": queries,
        "queries.text_column": text_column,
        "pack": pack,
        "seed": seed,
        "disjoint_from": disjoint_from or None,
        "store": out,
        "build": name,
        "workers": workers,
    }
    return gather_overrides(set_, given)
