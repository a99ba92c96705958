"""`bystander doctor`: what is installed, which engines work, what is missing and how to get it."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bystander.cli.build_options import Config
from bystander.schemas.addresses import show_addresses
from bystander.schemas.errors import BystanderError
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig

State = Literal["ok", "note", "missing"]

REQUIRED_PROFILE = "laptop"
"""The profile that has to run for the command to succeed."""
MIN_MEMORY_BYTES = 4 << 30
"""The embedded 1.5B model with its context, the speech models and the pipeline itself, with room to spare."""
MIN_DISK_BYTES = 4 << 30
"""Embedded models on disk while they are put together, and a small build."""

_PACKAGES = {
    "av": "av",
    "faster-whisper": "faster_whisper",
    "fsspec": "fsspec",
    "hibari-tts": "hibari",
    "librosa": "librosa",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "openai": "openai",
    "pandas": "pandas",
    "pocketsphinx": "pocketsphinx",
    "prefect": "prefect",
    "pyarrow": "pyarrow",
    "pypinyin": "pypinyin",
    "soundfile": "soundfile",
    "soxr": "soxr",
    "webrtcvad-wheels": "webrtcvad",
    "xllamacpp": "xllamacpp",
}
"""Distribution to module. Prefect is not imported here: it takes seconds and is no engine's."""
_OPTIONAL = {
    "openai-whisper": "the recogniser openai_whisper; pip install 'bystander[whisper]'",
    "s3fs": "stores on S3 (s3://...); pip install 'bystander[s3]'",
    "ten-vad": "the detector ten_vad; pip install 'bystander[ten-vad]'",
}
_OPTIONAL_MODULES = {"openai-whisper": "whisper"}
_ENGINE_PACKAGES = {
    "openai": ("openai",),
    "vllm": ("openai",),
    "llama_cpp": ("xllamacpp", "openai"),
    "kokoro": ("onnxruntime", "hibari-tts"),
    "faster_whisper": ("faster-whisper",),
    "openai_whisper": ("openai-whisper",),
    "onnx_verifier": ("onnxruntime", "librosa"),
}
_REMEDIES = {"openai-whisper": "pip install 'bystander[whisper]'"}
_MFA_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report. `fix` says how to get what is missing, or what its lack costs."""

    state: State
    subject: str
    detail: str
    fix: str = ""


def doctor(
    profile: Annotated[
        str, typer.Option(help="The profile of TPI builds that has to run; with another, only that one is looked at.")
    ] = REQUIRED_PROFILE,
    config: Config = None,
) -> None:
    """Say what is installed, which engines can open, how to get the rest; exit with 1 if the profile cannot run."""
    runs: dict[str, bool] = {}
    _print("System", check_system())
    packages = list(check_packages())
    _print("Packages", packages)
    models = list_models()
    only = None if profile == REQUIRED_PROFILE and not config else profile
    for name, checks in check_profiles(models, only, config or ()):
        runs[name] = all(check.state != "missing" for check in checks)
        _print(f"Profile {name}: {'can run' if runs[name] else 'cannot run'}", checks)
    if not runs.get(profile) or any(check.state == "missing" for check in packages):
        raise typer.Exit(1)


def check_system() -> Iterator[Check]:
    """Yield Python, processor, memory, disk, and the programs that some engines run."""
    yield Check("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield Check("ok", "cores", str(_count_cores()))
    memory = _measure_memory()
    if memory is None:
        yield Check("note", "memory", "unknown")
    elif memory < MIN_MEMORY_BYTES:
        yield Check("note", "memory", _show_size(memory), "the embedded language model wants 4 GiB")
    else:
        yield Check("ok", "memory", _show_size(memory))
    free = shutil.disk_usage(Path.cwd()).free
    if free < MIN_DISK_BYTES:
        yield Check("note", "disk", f"{_show_size(free)} free here", "models and a small build want 4 GiB")
    else:
        yield Check("ok", "disk", f"{_show_size(free)} free here")
    yield Check(
        "ok" if (found := shutil.which("ffmpeg")) else "note",
        "ffmpeg",
        found or "not found",
        ""
        if found
        else "optional: nothing that this version reads needs it (WAV, FLAC, MP3, Ogg, Opus and AIFF do not)",
    )
    yield check_mfa()


def check_mfa() -> Check:
    """Say which version of the Montreal Forced Aligner is on PATH, and which models it has."""
    from bystander.schemas.sid_engine_configs import MfaAlignerConfig
    from bystander.tasks.engines.mfa_models import MODEL_KINDS, list_models, locate_root
    from bystander.tasks.engines.mfa_program import INSTALL, TESTED_VERSIONS, find_version

    config = MfaAlignerConfig()
    program = shutil.which(config.command)
    if program is None:
        return Check("note", "mfa", "not on PATH", f"optional: the aligner mfa; {INSTALL}, and set its prefix")
    try:
        version = find_version(config, _MFA_TIMEOUT_S)
    except BystanderError as exc:
        return Check("note", "mfa", str(exc))
    root = locate_root(None)
    models = "; ".join(f"{kind}: {', '.join(list_models(kind, root)) or 'none'}" for kind in MODEL_KINDS)
    return Check("ok", "mfa", f"{version} (tested: {TESTED_VERSIONS}) at {program}; models in {root}: {models}")


def check_packages() -> Iterator[Check]:
    """Yield the packages that the default install brings, and the optional ones."""
    for name in _PACKAGES:
        version = _find_version(name)
        if version:
            yield Check("ok", name, version)
        else:
            yield Check("missing", name, "not installed", f"pip install {name}")
    for name, use in _OPTIONAL.items():
        version = _find_version(name)
        yield Check(
            "ok" if version else "note", name, version or "not installed", "" if version else f"optional: {use}"
        )


def list_models() -> Mapping[str, str] | str:
    """Return the state of every model in the model store (`present` if it may be opened), or why there is no store."""
    try:
        from bystander.storage.model_store import ModelStore

        return {status.name: status.state for status in ModelStore().list()}
    except BystanderError as exc:
        return str(exc)
    except Exception as exc:  # whatever is wrong with one part, the doctor reports on the others
        return f"{type(exc).__name__}: {exc}"


def check_profiles(
    models: Mapping[str, str] | str, only: str | None = None, files: Sequence[str] = ()
) -> Iterator[tuple[str, list[Check]]]:
    """Yield each profile, or one, with one check an engine; the fields of YAML `files` are laid over it."""
    from bystander.schemas.config import list_profiles, load_config

    for profile in [only] if only is not None else list_profiles():
        try:
            engines = load_config(profile, files).engines
        except BystanderError as exc:
            yield profile, [Check("missing", "configuration", str(exc))]
            continue
        roles = {role: getattr(engines, role) for role in type(engines).model_fields}
        yield profile, [check_engine(role, config, models) for role, config in roles.items() if config is not None]


def check_engine(role: str, config: Any, models: Mapping[str, str] | str) -> Check:
    """Say whether an engine could be opened: its packages import and its model files are right. Nothing is loaded."""
    subject = f"{role}: {config.engine}"
    for name in _ENGINE_PACKAGES.get(config.engine, ()):
        fault = _try_import(name)
        if fault:
            return Check(
                "missing",
                subject,
                f"package {name} {fault}",
                _REMEDIES.get(name, f"pip install --force-reinstall {name}"),
            )
    if config.engine == "openai":
        return Check("ok", subject, f"{config.model} at {show_addresses(config.base_url)} (not contacted)")
    if config.engine == "vllm":
        return _check_vllm(subject, config)
    if config.engine == "vllm_batch":
        return _check_batches(subject, config)
    if config.engine == "chatterbox":
        return check_speech_workers(subject, config)
    model = getattr(config, "model", None)
    if model is None:
        return Check("ok", subject, "needs no model file")
    if config.engine == "openai_whisper" and not model.endswith(".pt"):
        return Check("ok", subject, f"{model}, which openai-whisper fetches at first use and checks itself")
    if Path(model).expanduser().exists():
        return Check("ok", subject, f"{model} (your own file)")
    if isinstance(models, str):
        return Check("missing", subject, f"{model}: the model store cannot be read ({models.rstrip('.')})")
    state = models.get(model)
    if state == "present":
        return Check("ok", subject, model)
    if state is None:
        return Check("missing", subject, f"{model}: no model of that name and no such file", "bystander models list")
    return Check("missing", subject, f"{model}: is {state} in the model store", f"bystander models fetch {model}")


def _check_vllm(subject: str, config: Any) -> Check:
    from bystander.tasks.engines.vllm_command import find_program

    try:
        return Check("ok", subject, f"{config.model} by {find_program(config)} (not started)")
    except BystanderError as exc:
        return Check("missing", subject, str(exc))


def _check_batches(subject: str, config: Any) -> Check:
    from bystander.tasks.engines.vllm_batch_command import find_batch_program

    try:
        program = find_batch_program(config)
    except BystanderError as exc:
        return Check("missing", subject, str(exc))
    where = f"by {program}, which was not started" if config.mode == "run" else "by files, elsewhere"
    return Check("ok", subject, f"{config.model}, {where}")


def check_speech_workers(subject: str, config: ChatterboxSpeechConfig) -> Check:
    """Say whether the bank and the workers' Python are there. No worker is asked."""
    faults, fixes = [], []
    if not config.endpoints and config.python_words and shutil.which(config.python_words[0]) is None:
        faults.append(f"no Python {config.python_words[0]} for the workers")
        fixes.append("make the environment of envs/chatterbox, or set engines.speech.endpoints")
    if not _is_bank(config.bank):
        faults.append(f"no voice bank at {config.bank}")
        fixes.append("make it with `bystander voices index SOURCE --to BANK`, and name it in engines.speech.bank")
    if faults:
        return Check("missing", subject, "; ".join(faults), "; ".join(fixes))
    if config.endpoints:
        return Check("ok", subject, f"{config.model} at {', '.join(config.endpoints)} (not contacted)")
    return Check("ok", subject, f"{config.model} on {', '.join(config.devices)} (not started)")


def _is_bank(uri: str) -> bool:
    from bystander.storage.voice_bank import open_voice_bank

    try:
        open_voice_bank(uri)
    except BystanderError:
        return False
    return True


def _print(title: str, checks: Iterable[Check]) -> None:
    typer.echo(title)
    for check in checks:
        fix = f" -> {check.fix}" if check.fix else ""
        typer.echo(f"  {check.state:<8}{check.subject}: {check.detail}{fix}")
    typer.echo("")


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _try_import(name: str) -> str | None:
    """Return what is wrong with a package, as the end of a sentence."""
    if _find_version(name) is None:
        return "is not installed"
    # llama.cpp's spinning threads must be told off before the first import.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        importlib.import_module({**_PACKAGES, **_OPTIONAL_MODULES}[name])
    except Exception as exc:  # a broken binary may raise anything
        return f"does not import ({type(exc).__name__}: {str(exc).splitlines()[0] if str(exc) else ''})"
    return None


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _measure_memory() -> int | None:
    """Return the bytes of memory that this process may use, as far as the system tells."""
    limits = []
    with contextlib.suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits, default=None)


def _show_size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
