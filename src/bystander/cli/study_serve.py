"""`bystander study serve`: raters at this machine, or in its network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bystander.server.access import Access


def serve(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study's folder, STORE/studies/NAME.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own demands a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one.")] = 0,
    token: Annotated[str | None, typer.Option(help="What raters' browsers must show. Default: a new one.")] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="Another host name of this machine, such as a proxy's; may be repeated.")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in this machine's browser.")] = False,
) -> None:
    """Show the study's pages until Ctrl-C. Each rater gets the next sheet; every answer is kept when it is given."""
    from bystander.cli.interruption import Interrupted
    from bystander.server.access import make_access
    from bystander.server.local_server import serve as run_server
    from bystander.server.study_desk import StudyDesk
    from bystander.server.study_pages import make_study_routes

    desk = StudyDesk(study)

    def announce(access: Access) -> None:
        sheets, begun, finished = desk.count()
        typer.echo(f"Study {desk.manifest.name}: {sheets} sheets, {begun} begun, {finished} sent off.")
        typer.echo(f"For raters: {access.url_with_token} (Ctrl-C ends)")

    try:
        run_server(make_study_routes(desk), make_access(host, port, token, name or ()), announce, open_browser)
    except Interrupted:
        sheets, begun, finished = desk.count()
        typer.echo(f"Ended; every answer is on the disk. {finished} of {sheets} sheets were sent off, {begun} begun.")
