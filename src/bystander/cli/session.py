"""`bystander session`: script sheets for recording sessions, and rows of what was recorded."""

from __future__ import annotations

from typing import Annotated

import typer

session_app = typer.Typer(
    help="Record interruptions with real people: a script sheet, and rows of the recordings.", no_args_is_help=True
)


@session_app.command("sheet")
def make_session_sheet(
    build: Annotated[str, typer.Argument(help="A finished TPI build, TPI-Bench say: folder or fsspec URL.")],
    out: Annotated[str, typer.Option(help="Folder that gets sheet.html, sheet.csv and session.json.")],
    speakers: Annotated[
        str, typer.Option(help="How many people read, or their names or pseudonyms, separated by commas.")
    ] = "4",
    rooms: Annotated[str, typer.Option(help="Places, separated by commas.")] = "reverberant_room,hallway,outdoors",
    takes: Annotated[
        int, typer.Option(min=1, max=10_000, help="Takes in all, balanced over scenarios and rooms.")
    ] = 60,
    overlap_s: Annotated[
        float | None,
        typer.Option(
            min=0, max=3, help="Overlap asked for in each take, in seconds. Default: that of the build's row."
        ),
    ] = None,
    scenarios: Annotated[
        str | None, typer.Option(help="Only rows of these scenarios, separated by commas. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Chooses the rows and the order of speakers.")] = 0,
) -> None:
    """Write the script sheet of a recording session: who reads what where, and when the other one cuts in."""
    from bystander.schemas.recording_session import SessionPlan, read_session_settings
    from bystander.tasks.session.make_sheet import make_sheet

    names = _name_speakers(speakers)
    places = _split_names(rooms)
    wanted = _split_names(scenarios) if scenarios else ()
    fields = {
        "speakers": names,
        "rooms": places,
        "takes": takes,
        "seed": seed,
        "overlap_s": overlap_s,
        "scenarios": wanted,
    }
    plan = read_session_settings(SessionPlan, fields)
    sheet = make_sheet(build, out, plan)
    short = f" ({takes} were asked for)" if len(sheet.takes) < takes else ""
    typer.echo(f"{out}: {len(sheet.takes)} takes{short}, {len(names)} speakers; print sheet.html.")
    typer.echo(f"Codes begin with {sheet.prefix}: name files {sheet.takes[0].code}.wav, or record many takes in one.")


@session_app.command("import")
def import_recordings(
    folder: Annotated[str, typer.Argument(help="Folder that `bystander session sheet` wrote.")],
    audio: Annotated[
        list[str],
        typer.Option(help="Recordings: a folder, glob or file; may be repeated. One channel, or one a speaker."),
    ],
    name: Annotated[str, typer.Option(help="Name of the new build, OUT/tpi-real/NAME.")],
    out: Annotated[str, typer.Option(help="Store that gets the build: folder or URL.")] = "bystander-store",
    max_wer: Annotated[
        float | None, typer.Option(min=0, help="Most word errors a word of the script. Default: 0.34.")
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="Terms that the speakers agreed to, as rows and card state them.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting as name=value, e.g. aligner.engine=kaldi_gmm; may be repeated."),
    ] = None,
) -> None:
    """Make rows of recorded takes; misread, badly recorded and missing ones are listed with their reasons.

    Beside the sheet, import-NAME.csv says of every take what came of it and when B came in, import-NAME.words.jsonl
    when each word was said. Run again after more was recorded, or after a stop: what was heard is not heard again.
    """
    from bystander.cli.overrides import gather_overrides
    from bystander.schemas.config import lay_over
    from bystander.schemas.recording_session import ImportSettings, read_session_settings
    from bystander.tasks.session.import_session import import_session

    fields = lay_over({}, (), gather_overrides(set_, {"max_wer": max_wer, "licence": licence}))
    settings = read_session_settings(ImportSettings, fields)
    for line in import_session(folder, audio, out, name, settings).summary:
        typer.echo(line)


def _name_speakers(text: str) -> tuple[str, ...]:
    if text.strip().isdigit():
        return tuple(f"speaker_{number}" for number in range(1, int(text) + 1))
    return _split_names(text)


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))
