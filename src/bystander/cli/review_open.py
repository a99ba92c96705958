"""`bystander review open`: people listen to rows, say which are good, and put the others right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bystander.cli.review_options import Build, Reviews, Seed
from bystander.schemas.errors import ConfigError

if TYPE_CHECKING:
    from bystander.server.access import Access


def open_review(
    build: Build,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own demands a token of each browser.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8710,
    token: Annotated[
        str | None, typer.Option(envvar="BYSTANDER_TOKEN", help="Token that browsers must give, once, in the address.")
    ] = None,
    public_name: Annotated[
        list[str] | None,
        typer.Option(help="Another host name that the page may be asked for by, of a proxy say. May be repeated."),
    ] = None,
    annotator: Annotated[
        str | None, typer.Option(help="Name of whoever reviews; without it the page asks for it.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in this machine's browser.")] = (
        True
    ),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help="Rows with this label, scenario, split, language, or (of rejects) reason. May be repeated: values of "
            "one field are alternatives, fields must all match.",
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Review so many rows, drawn by the seed.")] = None,
    seed: Seed = 0,
    rejects: Annotated[
        bool, typer.Option("--rejects", help="Show what stages rejected and has audio, instead of the build's rows.")
    ] = False,
    clips_for: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A site whose pages may read the clips, http://localhost:8080 say, where a Label Studio runs.",
        ),
    ] = None,
    reviews: Reviews = None,
) -> None:
    """Serve the review page until Ctrl-C. Every change is on the disk before the page says that it is saved."""
    from bystander.cli.interruption import Interrupted
    from bystander.schemas.review import normalise_annotator
    from bystander.schemas.review_selection import select_rows
    from bystander.server.access import make_access
    from bystander.server.local_server import serve
    from bystander.server.review_routes import make_review_routes
    from bystander.server.review_session import ReviewSession
    from bystander.storage.review_rows import ReviewBuild, find_reviews_folder

    access = make_access(host, port, token, public_name or (), clips_for or ())
    if annotator is not None:
        try:
            annotator = normalise_annotator(annotator)
        except ValueError as exc:
            raise ConfigError(f"--annotator: {exc}") from exc
    opened = ReviewBuild(build, "rejects" if rejects else "rows")
    folder = find_reviews_folder(opened, reviews)
    session = ReviewSession(opened, folder, select_rows(opened.rows.values(), only or (), sample, seed), _warn)
    if annotator is not None:
        session.enter(annotator)

    def announce(access: Access) -> None:
        typer.echo(f"{len(session.row_ids)} rows of {opened.name} to review, journals in {folder}")
        typer.echo(f"Open {access.url_with_token}   (Ctrl-C ends it)")

    try:
        serve(make_review_routes(session, annotator, seed), access, announce, open_browser)
    except Interrupted:
        typer.echo("Ended; all that the page showed as saved is on the disk.")
    finally:
        session.close()


def _warn(sentence: str) -> None:
    typer.echo(f"note: {sentence}", err=True)
