"""The Montreal Forced Aligner's command line: where it is, its version, and one corpus aligned.

It lives in a conda environment of its own, for it brings Kaldi, OpenFst and a Python that no other environment has. It
is run as if that environment were active: it looks for its programs on PATH.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bystander.schemas.errors import EngineError, EngineSetupError
from bystander.schemas.sid_engine_configs import MfaAlignerConfig
from bystander.tasks.engines.mfa_models import locate_root

OLDEST_VERSION = (3, 0)
"""Earlier ones lack options that are used here."""
TESTED_VERSIONS = "3.4.3"
INSTALL = "conda create -n mfa -c conda-forge montreal-forced-aligner=3.4.3"

_VERSION_TIMEOUT_S = 300.0
_LAST_LINES = 5
_OF_OUR_OWN = frozenset({"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD"})
"""What is set for this process, and would lead the other environment's Python and libraries astray."""


def find_version(config: MfaAlignerConfig, timeout_s: float = _VERSION_TIMEOUT_S) -> str:
    """Return what `mfa version` prints, such as 3.4.3.

    Raises:
        EngineSetupError: the program is missing, cannot run, or is too old.
    """
    program = locate_program(config)
    try:
        output = _run([program, "version"], timeout_s, make_environment(config, program))
    except EngineError as exc:
        raise EngineSetupError(f"{exc}; install it with: {INSTALL}") from exc
    lines = output.split("\n")
    version = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None:
        raise EngineSetupError(f"{program}: `mfa version` prints {version!r}, which is no version; {_advise(config)}")
    if (int(number[1]), int(number[2])) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        raise EngineSetupError(
            f"{program}: is version {version}, but {oldest} or later is needed (tested: {TESTED_VERSIONS}); "
            f"{_advise(config)}"
        )
    return version


def locate_program(config: MfaAlignerConfig) -> str:
    """Return the path of the program: in the environment at `prefix`, else `command` as the shell would find it.

    Raises:
        EngineSetupError: there is none.
    """
    if config.prefix is not None:
        program = Path(config.prefix).expanduser() / "bin" / "mfa"
        if not program.is_file():
            raise EngineSetupError(
                f"{program}: no such program; prefix must be the folder of a conda environment with MFA, which "
                f"`conda env list` shows; {_advise(config)}"
            )
        return str(program)
    found = shutil.which(config.command)
    if found is None:
        raise EngineSetupError(
            f"{config.command}: cannot be started (not on PATH); set prefix to the folder of MFA's conda environment; "
            f"{_advise(config)}"
        )
    return found


def make_environment(config: MfaAlignerConfig, program: str) -> dict[str, str]:
    """Return the variables with which the program runs: those of its conda environment, if it is in one.

    Without one (no `conda-meta` beside its `bin`) they are this process's.
    """
    return _activate(find_conda_prefix(config, program), os.environ, config.root_dir)


def find_conda_prefix(config: MfaAlignerConfig, program: str) -> Path | None:
    """Return the conda environment that the program is in: `prefix`, or what its place tells."""
    if config.prefix is not None:
        return Path(config.prefix).expanduser().absolute()
    folder = Path(program).resolve().parent.parent
    return folder if (folder / "conda-meta").is_dir() else None


def _activate(prefix: Path | None, variables: Mapping[str, str], root_dir: str | None) -> dict[str, str]:
    changed = dict(variables)
    if prefix is not None:
        changed = {name: value for name, value in variables.items() if name not in _OF_OUR_OWN}
        changed["PATH"] = os.pathsep.join([str(prefix / "bin"), variables.get("PATH", os.defpath)])
        changed["CONDA_PREFIX"] = str(prefix)
        changed["CONDA_DEFAULT_ENV"] = prefix.name
        changed["PYTHONNOUSERSITE"] = "1"
    if root_dir is not None:
        changed["MFA_ROOT_DIR"] = str(locate_root(root_dir))
    return changed


def align_corpus(
    config: MfaAlignerConfig,
    dictionary: str,
    acoustic: str,
    g2p: str | None,
    folders: tuple[Path, Path, Path],
) -> None:
    """Run `mfa align` over a folder of WAV and text files; it writes a JSON file each.

    Clips that it cannot align are no failure of the program: it writes nothing for them.

    Args:
        config: where the program is, and how it aligns.
        dictionary: path of the pronunciations.
        acoustic: path of the model.
        g2p: path of the model that guesses further pronunciations.
        folders: of the corpus, of what is written, and of MFA's own files.

    Raises:
        EngineError: the program failed, with the last lines of what it said, or ran longer than `timeout_s`.
    """
    corpus, output, scratch = folders
    program = locate_program(config)
    command = [
        program,
        "align",
        str(corpus),
        dictionary,
        acoustic,
        str(output),
        "--output_format",
        "json",
        "--clean",
        "--single_speaker",
        # The texts are words already. For Mandarin it would also need packages that MFA does not bring.
        "--no_tokenization",
        "--beam",
        str(config.beam),
        "--retry_beam",
        str(config.retry_beam),
        "-j",
        str(config.jobs),
        "-t",
        str(scratch),
    ]
    if g2p is not None:
        command += ["--g2p_model_path", g2p]
    if config.fine_tune:
        command.append("--fine_tune")
    _run(command, config.timeout_s, make_environment(config, program))


def _advise(config: MfaAlignerConfig) -> str:
    if config.prefix is not None:
        return (
            f"prefix must be the conda environment that has it; make one with: conda create -p {config.prefix} "
            "-c conda-forge montreal-forced-aligner=3.4.3"
        )
    return f"install it with: {INSTALL}"


def _run(command: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> str:
    name = " ".join([Path(command[0]).name, *command[1:2]])
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
            env=environment,
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
