"""`bystander voices`: banks of reference voices for zero-shot speech."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bystander.cli.overrides import gather_overrides

if TYPE_CHECKING:
    from bystander.tasks.index_voices import IndexOutcome

app = typer.Typer(help="Make, show and verify banks of reference voices.", no_args_is_help=True)

_Bank = Annotated[str, typer.Argument(metavar="BANK", help="The bank's folder or fsspec URL.")]
_MOST_PAIRS = 20
_MOST_FINDINGS = 50


@app.command("index")
def index(
    source: Annotated[
        str,
        typer.Argument(
            help="Speech of many speakers: a folder with one sub-folder a speaker (LibriSpeech, VCTK, ...) or one file "
            "a voice, a copy of MLS, or Parquet files as on Hugging Face; a path, glob or URL."
        ),
    ],
    to: Annotated[str, typer.Option(help="Folder or URL of the bank; one that was begun there is gone on with.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a finished bank there that something else was made of.")
    ] = False,
    layout: Annotated[
        str | None,
        typer.Option(help="folders, files, mls or parquet. Default: auto, told from the content."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of voices that state none. Default: en.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the speech; it goes on every voice.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Put before each voice's id.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. Default: one a core.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(help="YAML file of fields; may be repeated, the last one wins.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="One field as name=value, over all files. E.g. index.min_snr_db=20."),
    ] = None,
) -> None:
    """Choose a reference clip of each speaker, check and measure it, and write the bank.

    Ctrl-C loses no speaker that is done: the same command goes on from there.
    """
    import os

    from bystander.cli.interruption import run_interruptibly
    from bystander.schemas.voice_bank_config import load_index_config

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = {
        "source.path": source,
        "source.layout": layout,
        "source.language": language,
        "source.licence": licence,
        "source.id_prefix": prefix,
        "workers": workers,
    }
    settings = load_index_config(config or (), {"workers": min(256, cores), **gather_overrides(set_, given)})

    def work() -> IndexOutcome:
        from bystander.tasks.index_voices import index_voices

        with _Progress() as progress:
            return index_voices(settings, to, progress.show, replace_bank=replace)

    outcome = run_interruptibly(work)
    if outcome.unchanged:
        typer.echo("Nothing has changed; the bank is as it was.")
    for line in outcome.summary:
        typer.echo(line)


@app.command("show")
def show(
    bank: _Bank,
    similar: Annotated[
        float, typer.Option(min=-1, max=1, help="Cosine of embeddings from which two voices sound alike.")
    ] = 0.85,
    hold_out: Annotated[
        float, typer.Option(min=0, max=1, help="Share of voices held out, for `hold_out_by: voice`.")
    ] = 0.25,
    pairs: Annotated[int, typer.Option(min=0, help="Pairs of voices that are listed.")] = _MOST_PAIRS,
) -> None:
    """Show a bank: counts, durations, signal-to-noise ratios, and voices that sound alike.

    The pairs are printed as `avoid_pairs` takes them; where they are too many, `stages.choose_voices.avoid_similar`
    with the same value rules them out by the bank's embeddings.
    """
    from rich.console import Console

    from bystander.storage.voice_bank import open_voice_bank
    from bystander.tasks.describe_voices import describe_voices

    console = Console(soft_wrap=True, highlight=False, markup=False)
    for line in describe_voices(open_voice_bank(bank), similar, hold_out, pairs):
        console.print(line)


@app.command("verify")
def verify(bank: _Bank) -> None:
    """Check a bank's files against its manifest and every clip against its row; exit with 2 if anything is wrong."""
    from bystander.storage.voice_bank import verify_voice_bank

    findings = verify_voice_bank(bank)
    for finding in findings[:_MOST_FINDINGS]:
        typer.echo(str(finding))
    if len(findings) > _MOST_FINDINGS:
        typer.echo(f"… and {len(findings) - _MOST_FINDINGS} more.")
    if findings:
        typer.echo(f"{bank}: {len(findings)} finding{'s' if len(findings) > 1 else ''}.", err=True)
        raise typer.Exit(2)
    typer.echo(f"{bank}: sound.")


class _Progress:
    """A bar in a terminal; elsewhere a line for every tenth of the speakers."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, soft_wrap=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._is_terminal = console.is_terminal
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task: Any = None
        self._shown = -1

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int, total: int, voices: int, _reused: bool) -> None:
        """Show how far it is."""
        said = f"speakers ({voices} voices)"
        if self._task is None:
            self._task = self._bar.add_task(said, total=total)
        self._bar.update(self._task, completed=done, description=said)
        tenth = 10 * done // total
        if not self._is_terminal and tenth > self._shown:
            self._shown = tenth
            typer.echo(f"{done} of {total} speakers, {voices} voices", err=True)
