"""`bystander listen`: hear all rows and rejects of a build in a local page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bystander.server.access import Access


def listen(
    build: Annotated[str, typer.Argument(help="The finished build's folder or fsspec URL.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this machine's own demands a token of each browser.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8711,
    token: Annotated[
        str | None, typer.Option(envvar="BYSTANDER_TOKEN", help="Token that browsers must give, once, in the address.")
    ] = None,
    public_name: Annotated[
        list[str] | None,
        typer.Option(help="Another host name that the page may be asked for by, of a proxy say. May be repeated."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in this machine's browser.")] = (
        True
    ),
) -> None:
    """Serve a page with every row and reject of a build, to be filtered and heard, until Ctrl-C. It changes nothing.

    Rejects whose sound the build does not hold are looked for in the caches of its store.
    """
    from bystander.cli.interruption import Interrupted
    from bystander.server.access import make_access
    from bystander.server.listening_index import ListeningIndex
    from bystander.server.listening_routes import make_listening_routes
    from bystander.server.local_server import serve
    from bystander.storage.placed_rows import PlacedRows
    from bystander.tasks.reject_sounds import RejectSounds

    access = make_access(host, port, token, public_name or ())
    rows = PlacedRows(build)
    index = ListeningIndex(rows, RejectSounds(rows.store, rows.manifest).find)

    def announce(access: Access) -> None:
        kept = sum(item.facets["state"] == "kept" for item in index.items)
        typer.echo(f"{kept} rows and {len(index.items) - kept} rejects of {rows.name}")
        typer.echo(f"Open {access.url_with_token}   (Ctrl-C ends it)")

    try:
        serve(make_listening_routes(index), access, announce, open_browser)
    except Interrupted:
        typer.echo("Ended.")
