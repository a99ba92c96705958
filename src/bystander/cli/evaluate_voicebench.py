"""`bystander evaluate voicebench`: score systems on a local copy of VoiceBench in this process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bystander.cli.interruption import run_interruptibly


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
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Let rows without an answer count as the worst answer.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Only so many rows of each part, the first ones. Default: all.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of answers, verdicts and intervals. Default: 0.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="Store: folder or URL of evaluations and caches; one that was stopped goes on from them. Default: "
            "bystander-store."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the folder, OUT/evaluations/NAME. Default: derived from the settings."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Partitions in work at once. Changes the speed, never a score.")
    ] = None,
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
    from bystander.schemas.config import parse_override
    from bystander.schemas.evaluate_profiles import parse_judge, parse_system
    from bystander.schemas.evaluate_voicebench_config import load_voicebench_config

    overrides: dict[str, Any] = dict(parse_override(text) for text in set_ or [])
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
    overrides.update({key: value for key, value in given.items() if value is not None})
    settings = load_voicebench_config(
        config or (),
        overrides,
        systems=dict(parse_system(text) for text in system or []),
        judges=dict(parse_judge(text) for text in judge or []),
    )

    from bystander.flows.check_evaluate_voicebench import check_evaluate_voicebench

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_evaluate_voicebench(settings)

    from rich.console import Console

    from bystander.cli.progress import ProgressDisplay
    from bystander.flows.prefect_settings import configure_prefect

    configure_prefect()
    console = Console(soft_wrap=True)
    with ProgressDisplay(console) as display:

        def work() -> tuple[tuple[str, ...], str]:
            from bystander.flows.evaluate_voicebench import run_evaluate_voicebench
            from bystander.flows.listeners import listening
            from bystander.tasks.metrics.voicebench.published import load_published_voicebench
            from bystander.tasks.voicebench_table import format_voicebench_table

            with listening(display):
                outcome = run_evaluate_voicebench(settings)
            beside = load_published_voicebench() if settings.published else None
            return outcome.summary, format_voicebench_table(outcome.scores, "markdown", beside)

        display.on_phase("starting Prefect")
        summary, table = run_interruptibly(work)
    for line in summary:
        console.print(line, markup=False, highlight=False)
    console.print(f"\n{table}", markup=False, highlight=False, end="")
