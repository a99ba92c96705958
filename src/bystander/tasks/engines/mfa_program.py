"""The Montreal Forced Aligner's command line: its version, and one corpus aligned."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.sid_engine_configs import MfaAlignerConfig

_VERSION_TIMEOUT_S = 300.0
_LAST_LINES = 5


def find_version(config: MfaAlignerConfig) -> str:
    """Return what `mfa version` prints.

    Raises:
        EngineSetupError: the program is missing or cannot run.
    """
    try:
        output = _run([config.command, "version"], _VERSION_TIMEOUT_S)
    except EngineError as exc:
        raise EngineSetupError(f"{exc}; install it with: conda install -c conda-forge montreal-forced-aligner") from exc
    lines = output.split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "unknown")


def align_corpus(config: MfaAlignerConfig, language: str, corpus: Path, output: Path, scratch: Path) -> None:
    """Run `mfa align` over a folder of WAV and text files; it writes a JSON file each into `output`.

    Clips that it cannot align are no failure of the program: it writes nothing for them.

    Raises:
        EngineError: the program failed, with the last lines of what it said, or ran longer than `timeout_s`.
    """
    command = [
        config.command,
        "align",
        str(corpus),
        config.dictionary[language],
        config.acoustic[language],
        str(output),
        "--output_format",
        "json",
        "--clean",
        "--single_speaker",
        "--beam",
        str(config.beam),
        "--retry_beam",
        str(config.retry_beam),
        "-j",
        str(config.jobs),
        "-t",
        str(scratch),
    ]
    if language in config.g2p:
        command += ["--g2p_model_path", config.g2p[language]]
    if config.fine_tune:
        command.append("--fine_tune")
    _run(command, config.timeout_s)


def _run(command: Sequence[str], timeout_s: float) -> str:
    name = " ".join(command[:2])
    try:
        # A session of its own: MFA starts processes that would outlive it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as exc:
        raise EngineSetupError(f"{command[0]}: cannot be started ({exc.strerror})") from exc
    try:
        output, complaints = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as exc:
        raise EngineError(f"{name}: not done after {timeout_s:g} s") from exc
    finally:
        _stop(process)
    if process.returncode != 0:
        raise EngineError(f"{name}: exit status {process.returncode}: {_cut(complaints) or _cut(output)}")
    return output


def _stop(process: subprocess.Popen[str]) -> None:
    """End the program and all that it started, however the call ended."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _cut(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:])
