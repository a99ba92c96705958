"""`bystander evaluate voicebench`: score systems on a local copy of VoiceBench in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bystander.cli.evaluate_options import (
    AllowMissing,
    Name,
    Out,
    Seed,
    Workers,
    parse_raters,
    run_and_show,
)
from bystander.cli.overrides import gather_overrides


def evaluate_voicebench(
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder of the local copy, with one folder a part, as in the data set hlt-lab/voicebench: Parquet, or "
            "JSONL with sound files."
        ),
    ] = None,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            help="A part to score: alpacaeval, commoneval, wildvoice, sd_qa, mmsu, openbookqa, ifeval or advbench; may "
            "be repeated. Default: all eight."
        ),
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="A system as name=config.yaml, name=predictions.jsonl (or .parquet), or name={engine: ...}; may be "
            "repeated. Predictions go by id: part/split/position, such as sd_qa/usa/00000."
        ),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="A judge as name=config.yaml, name={engine: ...} or name=KIND, such as embedded=llama_cpp; may be "
            "repeated. The parts with open or reference answers need one."
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Show the figures of the TPI paper's Table 3 beside the systems'.")
    ] = False,
    allow_missing: AllowMissing = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only so many rows of each part, the first ones. Default: all.")
    ] = None,
    seed: Seed = None,
    out: Out = None,
    name: Name = None,
    workers: Workers = None,
    config: Annotated[
        list[str] | None, typer.Option(help="YAML file of fields; may be repeated, the last one wins.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One field as name=value, over all files. E.g. splits.sd_qa=[usa,gbr]."),
    ] = None,
) -> None:
    """Score systems on VoiceBench: has training for interruptions cost a model its general ability?

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.schemas.evaluate_voicebench_config import load_voicebench_config

    given = {
        "data": data,
        "parts": parts,
        "rows": rows,
        "seed": seed,
        "store": out,
        "name": name,
        "workers": workers,
        "published": published or None,
        "allow_missing": allow_missing or None,
    }
    overrides = gather_overrides(set_, given)
    settings = load_voicebench_config(
        config or (),
        overrides,
        **parse_raters(system, judge),
    )

    from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_evaluate_voicebench(settings)

    def evaluate() -> tuple[Sequence[str], str]:
        from bystander.flows.evaluate_voicebench import run_evaluate_voicebench
        from bystander.tasks.metrics.voicebench.published import load_published_voicebench
        from bystander.tasks.voicebench_table import format_voicebench_table

        outcome = run_evaluate_voicebench(settings)
        published_figures = load_published_voicebench() if settings.published else None
        return outcome.summary, format_voicebench_table(outcome.scores, "markdown", published_figures)

    run_and_show(evaluate)
