"""`bystander study make`: sheets for raters, a page for crowd platforms, and the key to both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def make(
    kind: Annotated[
        str,
        typer.Argument(
            help="realism (of the text), naturalness (of the clip), reply (RSF and OH), preference (A/B), satisfaction."
        ),
    ],
    bench: Annotated[str, typer.Option(help="Folder or URL of the finished build.")],
    name: Annotated[str, typer.Option(help="Name of the study's folder, OUT/studies/NAME.")],
    out: Annotated[str, typer.Option(help="Store that gets the study: folder or URL.")] = "bystander-store",
    evaluation: Annotated[
        list[str] | None, typer.Option(help="Folder of an evaluation whose replies are rated; may be repeated.")
    ] = None,
    system: Annotated[
        list[str] | None,
        typer.Option(help="System to rate, `bench` for the bench's own replies; may be repeated. Default: all."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides items, order, options and sides.")] = 0,
    raters: Annotated[int | None, typer.Option(min=1, help="Default: as many as the TPI paper had.")] = None,
    per_rater: Annotated[int | None, typer.Option(min=1, help="Ratings of each, without traps.")] = None,
    items: Annotated[int | None, typer.Option(min=1, help="Items to draw. Default: by --ratings-per-item.")] = None,
    ratings_per_item: Annotated[
        int | None, typer.Option(min=1, help="Ratings that each item gets.  [default: 3]")
    ] = None,
    test: Annotated[list[str] | None, typer.Option(help="tpi_test, janus_test; may be repeated.")] = None,
    traps: Annotated[int | None, typer.Option(min=0, help="Traps on each sheet.  [default: 2]")] = None,
    max_failed_traps: Annotated[
        int | None, typer.Option(min=0, help="A rater who fails more is dropped.  [default: 0]")
    ] = None,
    min_seconds: Annotated[
        float | None, typer.Option(help="A rater whose median time for an item is below is dropped.")
    ] = None,
    option_order: Annotated[str | None, typer.Option(help="shuffled, reversed or fixed.  [default: shuffled]")] = None,
    layout: Annotated[
        str | None, typer.Option(help="A line of tasks.csv is a rater's `sheet` or one `item`.  [default: sheet]")
    ] = None,
    audio: Annotated[
        bool | None, typer.Option("--audio/--no-audio", help="Whether raters hear the clip. Default: naturalness only.")
    ] = None,
    clip_format: Annotated[str | None, typer.Option(help="mp3, ogg or wav.  [default: mp3]")] = None,
    clips_url: Annotated[str | None, typer.Option(help="Where the clips will be uploaded.")] = None,
    submit_url: Annotated[
        str | None, typer.Option(help="Where the page sends its form. Default: where the platform says.")
    ] = None,
    consent: Annotated[Path | None, typer.Option(help="Text file of the consent, a paragraph a block.")] = None,
    wording: Annotated[Path | None, typer.Option(help="YAML file of words to use instead of the shipped ones.")] = None,
    sd: Annotated[float | None, typer.Option(help="Standard deviation of one rating, to plan with.")] = None,
) -> None:
    """Draw items from a bench, deal them out to raters with traps among them, and write the page that shows them."""
    from pydantic import ValidationError

    from bystander.schemas.errors import ConfigError
    from bystander.schemas.field_faults import describe_field_faults
    from bystander.schemas.study import KINDS, SIZES, StudySettings
    from bystander.schemas.study_wording import load_wording
    from bystander.tasks.make_study import make_study

    if kind not in KINDS:
        raise ConfigError(f"study {kind}: no such kind; there are {', '.join(KINDS)}")
    usual = SIZES[kind]
    given: dict[str, Any] = {
        "kind": kind,
        "bench": bench,
        "evaluations": tuple(evaluation or ()),
        "systems": tuple(system or ()),
        "seed": seed,
        "raters": raters or usual[0],
        "per_rater": per_rater or usual[1],
        "items": items,
        "ratings_per_item": ratings_per_item,
        "tests": tuple(test) if test else None,
        "traps_per_rater": traps,
        "max_failed_traps": max_failed_traps,
        "min_seconds": min_seconds,
        "option_order": option_order,
        "layout": layout,
        "audio": audio,
        "clip_format": clip_format,
        "clips_url": clips_url,
        "submit_url": submit_url,
        "assumed_sd": sd,
    }
    try:
        settings = StudySettings.model_validate({field: value for field, value in given.items() if value is not None})
    except ValidationError as exc:
        raise ConfigError(f"study make: {describe_field_faults(StudySettings, exc)}") from exc
    words = load_wording(kind, _read_text(wording, "--wording") if wording else None, f"--wording {wording}")
    if consent is not None:
        blocks = [" ".join(block.split()) for block in _read_text(consent, "--consent").split("\n\n")]
        words = words.model_copy(update={"consent": tuple(block for block in blocks if block)})
        if not words.consent:
            raise ConfigError(f"--consent {consent}: is empty; write what raters agree to")
    for line in make_study(out, name, settings, words).summary:
        typer.echo(line)


def _read_text(path: Path, option: str) -> str:
    from bystander.schemas.errors import InputError

    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{option} {path}: cannot be read as text ({exc})") from exc
