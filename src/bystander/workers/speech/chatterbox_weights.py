"""Where Chatterbox's weights lie and what identifies them. Loads neither torch nor the model."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from importlib import metadata
from pathlib import Path

from .model import ModelFault
from .protocol import Hello

SAMPLING_RATE = 24000
REPOSITORY = "ResembleAI/chatterbox"
CANGJIE = "Cangjie5_TC.json"
FILES = {
    "english": ("ve.safetensors", "t3_cfg.safetensors", "s3gen.safetensors", "tokenizer.json"),
    "multilingual": (
        "ve.pt",
        "t3_mtl23ls_v2.safetensors",
        "s3gen.pt",
        "grapheme_mtl_merged_expanded_v1.json",
        CANGJIE,
    ),
}
"""What upstream's `from_local` reads, and the table without which Mandarin would be spoken as gibberish."""
LANGUAGES = {
    "english": ("en",),
    # The keys of upstream's SUPPORTED_LANGUAGES, which only an import of everything would tell; a test compares them.
    "multilingual": tuple("ar da de el en es fi fr he hi it ja ko ms nl no pl pt ru sv sw tr zh".split()),
}
_CHUNK_BYTES = 1 << 22


def describe(args: argparse.Namespace) -> Hello:
    """Return what decides the samples of the model that the arguments ask for.

    Its device's kind does: a GPU draws other random numbers than a CPU for the same seed, so it speaks another take.
    Which GPU, how many and which threads do not, but for the last bits of floating point.

    Raises:
        ModelFault: a package or a file is missing.
    """
    folder = find_weights(args)
    facts = {
        "package": find_version("chatterbox-tts"),
        "torch": find_version("torch").partition("+")[0],
        "device": args.device.partition(":")[0],
        "dtype": args.dtype,
        "watermark": f"perth {find_version('resemble-perth')}",
    }
    if args.model == "multilingual":
        facts["segmenter"] = f"spacy-pkuseg {find_version('spacy-pkuseg')}"
    digest = digest_weights(folder, FILES[args.model], Path(args.cache) if args.cache else None)
    return Hello("chatterbox", args.model, digest, SAMPLING_RATE, LANGUAGES[args.model], facts)


def find_weights(args: argparse.Namespace) -> Path:
    """Return the folder of the weights, from the hub where none is given.

    Raises:
        ModelFault: a file is missing, or the hub does not give it.
    """
    if args.weights:
        folder = Path(args.weights)
    else:
        try:
            from huggingface_hub import snapshot_download

            found = snapshot_download(
                REPOSITORY, revision=args.revision or None, allow_patterns=list(FILES[args.model])
            )
            folder = Path(found)
        except Exception as exc:  # the hub's client raises many kinds, of packages that it may or may not use
            lines = str(exc).splitlines() or [type(exc).__name__]
            raise ModelFault(
                f"the hub does not give {REPOSITORY} ({lines[0][:200]}); name a folder of its files as the weights"
            ) from exc
    missing = [name for name in FILES[args.model] if not (folder / name).is_file()]
    if missing:
        raise ModelFault(f"{folder} has no {', '.join(missing)}, which the {args.model} model needs")
    return folder


def find_version(package: str) -> str:
    """Return the version of an installed package.

    Raises:
        ModelFault: it is not installed here.
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ModelFault(f"the package {package} is missing in the worker's environment; see envs/chatterbox") from None


def digest_weights(folder: Path, names: tuple[str, ...], cache: Path | None) -> str:
    """Return the SHA-256 of the files' names and contents.

    They are gigabytes, so the digest of each is kept in `cache` under its path, size and time of change.
    """
    known_path = cache / "weights.json" if cache is not None else None
    known: dict[str, str] = {}
    if known_path is not None:
        with contextlib.suppress(OSError, ValueError):
            known = dict(json.loads(known_path.read_text("utf-8")))
    total, fresh = hashlib.sha256(), False
    for name in names:
        path = (folder / name).resolve()
        facts = path.stat()
        key = f"{path} {facts.st_size} {facts.st_mtime_ns}"
        if key not in known:
            known[key], fresh = _hash_file(path), True
        total.update(f"{name} {known[key]}\n".encode())
    if fresh and known_path is not None:
        with contextlib.suppress(OSError):  # then it is computed again
            known_path.parent.mkdir(parents=True, exist_ok=True)
            known_path.write_text(json.dumps(known, indent=1), "utf-8")
    return total.hexdigest()


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
