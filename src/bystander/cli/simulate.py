"""`bystander simulate`: engines of a known capacity that need no accelerator, for dry runs and planning."""

from __future__ import annotations

from typing import Annotated

import typer

from bystander.cli.interruption import Interrupted

simulate_app = typer.Typer(
    help="Engines of a known capacity that need no accelerator, for dry runs and planning.", no_args_is_help=True
)


@simulate_app.command("llm")
def simulate_llm(
    marked_pack: Annotated[
        str | None,
        typer.Option(
            help="Folder to write a marked copy of --pack into. Build with it (`--set pack=FOLDER`), and answers "
            "pass the rules of all stages; other prompts get any text that fits their schema."
        ),
    ] = None,
    pack: Annotated[str, typer.Option(help="The pack to copy: a built-in one, or a folder.")] = "reference",
    slots: Annotated[int, typer.Option(min=1, help="Requests worked on at once; more wait in a queue.")] = 64,
    first_token_s: Annotated[float, typer.Option(min=0, help="Fixed time of each request, in seconds.")] = 0.1,
    prompt_rate: Annotated[float, typer.Option(min=0.1, help="Prompt tokens a second and slot.")] = 4000.0,
    generate_rate: Annotated[float, typer.Option(min=0.1, help="Generated tokens a second and slot.")] = 40.0,
    reasoning_tokens: Annotated[int, typer.Option(min=0, help="Tokens of thinking before each answer.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes one that is free.")] = 8000,
) -> None:
    """Serve a model that is none, by OpenAI's protocol, until it is stopped; then say how busy it was.

    Configure it as `engines.writer: {engine: openai, base_url: "http://127.0.0.1:8000/v1", model: simulated}`.
    While it runs, /metrics has its counters and /occupancy when each slot was busy.
    """
    import threading
    from pathlib import Path

    from bystander.schemas.errors import ConfigError
    from bystander.simulation.llm_server import serve_simulated_llm
    from bystander.simulation.llm_speed import LlmSpeed
    from bystander.simulation.marked_pack import write_marked_pack

    if marked_pack is not None:
        write_marked_pack(pack, Path(marked_pack))
        typer.echo(f"marked copy of {pack}: --set pack={marked_pack}")
    speed = LlmSpeed(
        slots=slots,
        first_token_s=first_token_s,
        prompt_tokens_per_s=prompt_rate,
        generated_tokens_per_s=generate_rate,
        reasoning_tokens=reasoning_tokens,
    )
    try:
        with serve_simulated_llm(speed, host, port) as (base_url, llm):
            typer.echo(f"{base_url} (model: simulated, {slots} slots); Ctrl-C stops it")
            try:
                threading.Event().wait()
            except Interrupted:
                found = llm.describe()
                busy = "" if found["utilisation"] is None else f", {found['utilisation']:.1%} busy in between"
                typer.echo(f"stopped after {found['totals']['answered']} answers{busy}")
    except OSError as exc:
        raise ConfigError(f"--host {host} --port {port}: cannot listen there ({exc.strerror})") from exc
