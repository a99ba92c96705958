"""The worker's command line: which model on which device, where it listens, when it ends."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import select
import signal
import sys
import threading
from pathlib import Path
from typing import TextIO

from . import tone
from .model import ModelFault, SpeechModel
from .prepared_voices import PreparedVoices
from .protocol import TOKEN_VARIABLE, Hello
from .server import SpeechServer, SpeechService

_log = logging.getLogger(__name__)
_PARENT_CHECK_S = 1.0
_EXIT_FAILED = 1


def read_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="speech", description="Serves a text-to-speech model to bystander.")
    parser.add_argument("--model", choices=("english", "multilingual", "tone"), default="english")
    parser.add_argument("--weights", default="", help="folder of the weights; without one they come from the hub")
    parser.add_argument("--revision", default="", help="commit of the weights on the hub")
    parser.add_argument("--device", default="cuda:0", help="cpu, cuda:0, mps ...")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--threads", type=int, default=0, help="threads of the CPU; 0 leaves it to torch")
    parser.add_argument("--cache", default="", help="folder of prepared voices; without one they are kept in memory")
    parser.add_argument("--voices-in-memory", type=int, default=256)
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 in a container; then set " + TOKEN_VARIABLE)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--announce", action="store_true", help="tell port and readiness on the standard output")
    parser.add_argument("--exit-with-stdin", action="store_true", help="end when the standard input does")
    parser.add_argument("--describe", action="store_true", help="say what would decide the samples, and end")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run the worker until it is told to end."""
    args = read_arguments(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(process)d %(levelname)s %(message)s")
    logging.getLogger(__package__).setLevel(logging.INFO)  # ours; models have a word for every clip
    # Libraries print; what the parent reads is ours alone.
    announcements = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ.setdefault("TQDM_DISABLE", "1")
    for number in (signal.SIGTERM, signal.SIGINT):  # as a container's first process it would not end by them
        signal.signal(number, lambda *_: os._exit(0))
    try:
        if args.describe:
            announcements.write(describe_model(args).encode().decode("utf-8") + "\n")
            announcements.flush()
            return
        _serve(args, announcements)
    except ModelFault as fault:
        _announce(announcements if args.announce else None, event="failed", detail=str(fault))
        sys.exit(f"speech worker: {fault}")


def describe_model(args: argparse.Namespace) -> Hello:
    """Return what there is to say of a model without loading it.

    Raises:
        ModelFault: its package or weights are missing.
    """
    if args.model == "tone":
        return tone.describe()
    from .chatterbox_weights import describe

    return describe(args)


def load_model(args: argparse.Namespace) -> SpeechModel:
    """Load a model onto its device.

    Raises:
        ModelFault: it cannot be loaded.
    """
    if args.model == "tone":
        return tone.ToneModel()
    from .chatterbox_model import load

    return load(args)


def _serve(args: argparse.Namespace, announcements: TextIO) -> None:
    if args.exit_with_stdin:
        # Before the model loads, which takes long: no waiting for an import when the parent is killed.
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    service = SpeechService()
    server = SpeechServer(args.host, args.port, service, os.environ.get(TOKEN_VARIABLE) or None)
    tell = announcements if args.announce else None
    _announce(tell, event="listening", port=server.server_address[1])
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        model = load_model(args)
        service.serve(model, PreparedVoices(model, find_voice_folder(args, model.describe()), args.voices_in_memory))
    except ModelFault:
        raise
    except Exception as exc:  # whatever torch and the model's package raise
        _log.exception("the model cannot be loaded")
        raise ModelFault(f"the model cannot be loaded: {type(exc).__name__}: {exc}") from exc
    _announce(tell, event="ready")
    _log.info("%s on %s listens on port %s", args.model, args.device, server.server_address[1])
    serving.join()
    server.server_close()


def find_voice_folder(args: argparse.Namespace, hello: Hello) -> Path | None:
    """Return where this model's voices are kept on disk: models that would prepare them differently have another."""
    if not args.cache:
        return None
    decides = [hello.name, hello.model, hello.revision, dict(hello.facts)]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode("utf-8")).hexdigest()
    return Path(args.cache) / f"{hello.name}-{hello.model}-{digest[:16]}"


def _announce(stream: TextIO | None, **event: object) -> None:
    if stream is not None:
        stream.write(json.dumps(event) + "\n")
        stream.flush()


def _end_with_parent(parent: int) -> None:
    # Its standard input may have been inherited by others who keep it open; its parent may be a launcher that stays.
    while os.getppid() == parent:
        readable, _, _ = select.select([0], [], [], _PARENT_CHECK_S)
        if readable and not os.read(0, 4096):
            break
    os._exit(_EXIT_FAILED)
