"""`bystander evaluate sid`: score detectors of interruptions in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from bystander.cli.evaluate_options import Name, Out, Seed, Workers, name_once, run_and_show
from bystander.cli.overrides import gather_overrides


def evaluate_sid(
    bench: Annotated[
        str | None,
        typer.Option(
            help="Folder or URL of a finished build of SID rows; or published references: a JSONL file, or a folder of "
            "them."
        ),
    ] = None,
    detectors: Annotated[
        list[str] | None,
        typer.Option(
            help="Detectors to run, comma-separated, with settings after colons and kN: for N chunks in a row: "
            "energy_vad,webrtc_vad:aggressiveness=3,k3:silero_vad. May be repeated; name=... gives one a name."
        ),
    ] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            help="A system that ran elsewhere, as name=file.jsonl in the published form: audio, total_nonbreak, "
            "break_time; may be repeated."
        ),
    ] = None,
    audio: Annotated[
        str | None,
        typer.Option(help="Folder of the clips of published references. Default: beside them. Predictions need none."),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Let clips without a prediction count as never stopped.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds from the break within which a stop is exact. Default: 0.05, as published."),
    ] = None,
    no_tolerance: Annotated[
        bool, typer.Option("--no-tolerance", help="Count no stop as exact: IRL is over all right stops.")
    ] = False,
    cap: Annotated[
        float | None,
        typer.Option(min=0, help="Also show APT with false alarms in clips without speech costing at most so many s."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Only so many clips of each language and category, the first ones. Default: all."),
    ] = None,
    no_published: Annotated[
        bool, typer.Option("--no-published", help="Leave the figures of the SID paper's Tables II and III out.")
    ] = False,
    seed: Seed = None,
    out: Out = None,
    name: Name = None,
    workers: Workers = None,
    config: Annotated[
        list[str] | None, typer.Option(help="YAML file of fields; may be repeated, the last one wins.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One field as name=value, over all files. E.g. resample_by=case."),
    ] = None,
) -> None:
    """Score detectors of interruptions: do they stop for a break, how late, and for nothing else?

    Ctrl-C loses nothing that is finished: the same command goes on from there.
    """
    from bystander.schemas.detector_configs import parse_detectors
    from bystander.schemas.errors import ConfigError
    from bystander.schemas.evaluate_profiles import parse_pair
    from bystander.schemas.evaluate_sid_config import load_sid_evaluation_config

    if no_tolerance and tolerance is not None:
        raise ConfigError("--tolerance and --no-tolerance: give one of them")
    given = {
        "bench": bench,
        "audio": audio,
        "allow_missing": allow_missing or None,
        "tolerance_s": tolerance,
        "penalty_cap_s": cap,
        "rows": rows,
        "published": False if no_published else None,
        "seed": seed,
        "store": out,
        "name": name,
        "workers": workers,
    }
    overrides = gather_overrides(set_, given)
    if no_tolerance:
        overrides["tolerance_s"] = None
    settings = load_sid_evaluation_config(
        config or (),
        overrides,
        parse_detectors(",".join(detectors)) if detectors else None,
        name_once([parse_pair(text, "--predictions") for text in predictions or []], "--predictions"),
    )

    from bystander.flows.check_evaluate_sid import check_evaluate_sid

    # Prefect takes seconds to import, and its server more to start: mistakes are found before.
    check_evaluate_sid(settings)

    def evaluate() -> tuple[Sequence[str], str]:
        from bystander.flows.evaluate_sid import run_evaluate_sid
        from bystander.tasks.sid_tables import format_sid_table

        outcome = run_evaluate_sid(settings)
        return outcome.summary, format_sid_table(outcome.scores, "markdown", settings.published)

    run_and_show(evaluate)
