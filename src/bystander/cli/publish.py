"""`bystander publish`: put a finished build where others get it, a folder or the Hugging Face hub."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bystander.storage.published_files import Part, Publication, PublishStep


def publish(
    build: Annotated[str, typer.Argument(help="The build's folder or fsspec URL; STORE/DATASET/latest is a release.")],
    to: Annotated[
        str, typer.Option(help="Folder or fsspec URL that gets DATASET/BUILD, or hf://datasets/NAME/DATASET.")
    ],
    public: Annotated[
        bool, typer.Option("--public", help="The dataset on the hub is, or is to be, open to everybody.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch on the hub that gets the release instead of main.")
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(help="What is otherwise left out: rejects.", metavar="rejects")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done; nothing is written.")
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the build first, for those who just did.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Decode a sample of the clips instead of all.")] = False,
) -> None:
    """Verify a build and publish it: shards, card, report and manifest.

    What is interrupted goes on with the same command. A dataset on the hub is private unless --public is given; the
    visibility of one that is there is never changed.
    """
    from bystander.schemas.errors import ConfigError
    from bystander.schemas.hub_address import HUB, is_ref_name, parse_hub_address
    from bystander.storage.publish_folder import check_folder, publish_to_folder
    from bystander.storage.publish_hub import publish_to_hub
    from bystander.storage.releases import open_build
    from bystander.tasks.check_build import assert_sound

    parts = _read_parts(include or [])
    on_hub = to.startswith(HUB)
    if not on_hub and (public or revision is not None):
        raise ConfigError(f"{'--public' if public else '--revision'}: is for the hub, and {to} is a folder")
    if on_hub:
        parse_hub_address(to)
        if revision is not None and not is_ref_name(revision):
            raise ConfigError(f"--revision {revision!r}: cannot be the name of a branch on the hub; name another one")
    store = open_build(build)
    if not on_hub:  # before the build is verified, which takes its time
        check_folder(to, dry_run=dry_run)
    if not no_verify:
        assert_sound(store, quick)
    if on_hub:
        done = publish_to_hub(store, to, public, revision, parts, dry_run, _tell_step)
    else:
        done = publish_to_folder(store, to, parts, dry_run, _tell_step)
    _tell(done, dry_run)


def _read_parts(names: list[str]) -> tuple[Part, ...]:
    from bystander.schemas.errors import ConfigError

    parts: list[Part] = []
    for name in names:
        if name != "rejects":
            raise ConfigError(f"--include {name!r}: only rejects can be included")
        parts.append("rejects")
    return tuple(parts)


def _tell_step(step: PublishStep) -> None:
    if step.action != "keep":
        typer.echo(f"{step.path}: {'deleting' if step.action == 'delete' else f'writing {step.size:,} bytes'}")


def _tell(done: Publication, dry_run: bool) -> None:
    would = {"put": "would be written", "keep": "is there", "delete": "would be deleted"}
    if dry_run:
        for step in done.steps:
            typer.echo(f"{step.path}: {step.size:,} bytes, {would[step.action]}")
    counts = f"{done.count('put')} files ({done.bytes_put:,} bytes), {done.count('keep')} there already"
    deleted = f", {done.count('delete')} of before deleted" if done.count("delete") else ""
    typer.echo(f"{done.location}: {'would get' if dry_run else 'published,'} {counts}{deleted}.")
    for note in done.notes:
        typer.echo(note)
    if dry_run:
        typer.echo("Nothing was written.")
