"""Makes rows of the recordings of a session: finds the takes, checks what was read, and publishes a build."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bystander.schemas.engines import Recogniser, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.recording_session import ImportSettings, SessionSheet
from bystander.schemas.recordings import DecodeRequest
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.recording_listing import AUDIO_SUFFIXES, FoundFile, list_files
from bystander.storage.session_files import read_session
from bystander.tasks.engines.registry import open_aligner, open_decoder, open_recogniser
from bystander.tasks.session.found_takes import FoundTake, find_code, split_recording
from bystander.tasks.session.publish_session import PublishedSession, publish_session
from bystander.tasks.session.read_take import ReadTake, read_take
from bystander.tasks.session.take_harvest import CHOOSE, FIND, READ, RefusedTake, TakeHarvest, write_takes_table


def import_session(
    folder: str, audio: Sequence[str], out: str, name: str, settings: ImportSettings
) -> PublishedSession:
    """Make the build `out`/tpi-real/`name` of the recordings of a session, and list the takes beside its sheet.

    Args:
        folder: where `bystander session sheet` wrote its files.
        audio: files, folders and globs of the recordings.
        out: the store.
        name: of the build.
        settings: thresholds and engines.

    Raises:
        InputError: there is no session, no recording, or no take that became a row.
        BuildError: there is a build of other recordings under this name, or another process makes it.
        EngineError: an engine cannot be opened, or failed.
    """
    session = open_store(folder)
    sheet = read_session(session)
    files = _list_audio(audio)
    with ExitStack() as stack:
        resolve = ModelStore().resolve
        recogniser = open_recogniser(settings.recogniser, resolve)
        stack.callback(recogniser.close)
        aligner = open_aligner(settings.aligner, resolve)
        stack.callback(aligner.close)
        harvest = TakeHarvest()
        read: dict[str, list[tuple[FoundTake, ReadTake]]] = {}
        for found in _find_takes(files, sheet, settings, recogniser, harvest):
            if found.take is None:
                detail = f"from {found.start_s:.1f} s: fits no line of the sheet"
                fault = RowFault("not_in_script", detail, found.heard)
                harvest.refused.append(RefusedTake(FIND, fault, found, source=found.source))
                continue
            result = read_take(found, found.take, settings, recogniser, aligner)
            if isinstance(result, RowFault):
                harvest.refused.append(RefusedTake(READ, result, found, found.take.code, found.source))
            else:
                read.setdefault(found.take.code, []).append((found, result))
        _choose_best(sheet, read, harvest)
        identities = {"recogniser": recogniser.identity, "aligner": aligner.identity}
    digests = sorted({found.digest for found, _ in harvest.good})
    published = publish_session(sheet, harvest, identities, digests, out, name, settings)
    session.write_bytes(f"import-{name}.csv", write_takes_table(sheet, harvest).encode())
    return published


def _choose_best(sheet: SessionSheet, read: dict[str, list[tuple[FoundTake, ReadTake]]], harvest: TakeHarvest) -> None:
    """Keep the recording with the fewest word errors of each take, of equals the last: who repeats a take means it."""
    tried = {one.code for one in harvest.refused if one.code}
    for take in sheet.takes:
        tries = read.get(take.code, [])
        if not tries:
            if take.code not in tried:
                fault = RowFault("missing_take", f"{take.room}: nobody recorded {take.primary} and {take.third_party}")
                harvest.refused.append(RefusedTake(FIND, fault, code=take.code))
            continue
        best = min(range(len(tries)), key=lambda at: (tries[at][1].errors, -at))
        harvest.good.append(tries[best])
        for at, (found, _) in enumerate(tries):
            if at != best:
                fault = RowFault("doubled_take", f"{tries[best][0].source} is kept")
                harvest.refused.append(RefusedTake(CHOOSE, fault, found, take.code, found.source))


def _find_takes(
    files: Sequence[FoundFile],
    sheet: SessionSheet,
    settings: ImportSettings,
    recogniser: Recogniser,
    harvest: TakeHarvest,
) -> Iterator[FoundTake]:
    """Yield what the files hold: one take a file with a code in its name, else the stretches of a long recording."""
    decoder = open_decoder(FileDecoderConfig())
    for file in files:
        with file.open() as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
        (decoded,) = decoder.decode([DecodeRequest((file.path,), (digest,))])
        take = find_code(file.stem, sheet)
        if isinstance(decoded, RowFault):
            code = take.code if take is not None else None
            harvest.refused.append(RefusedTake(FIND, decoded, code=code, source=file.name))
        elif take is not None:
            yield FoundTake(file.name, digest, 0.0, decoded.samples, decoded.sampling_rate, take)
        else:
            yield from split_recording(
                decoded.samples, decoded.sampling_rate, file.name, digest, sheet, settings, recogniser
            )


def _list_audio(addresses: Sequence[str]) -> list[FoundFile]:
    found: dict[str, FoundFile] = {}
    for address in addresses:
        files = list_files(address, "audio")
        chosen = [file for file in files if file.suffix in AUDIO_SUFFIXES] if len(files) > 1 else files
        found.update({file.path: file for file in chosen})
    if not found:
        raise InputError(f"audio {', '.join(addresses)}: holds no audio file; name files, a folder or a glob")
    return [found[path] for path in sorted(found)]
