"""Makes rows of the recordings of a session: finds the takes, checks what was read, and publishes a build."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from bystander.schemas.engines import Recogniser, RowFault
from bystander.schemas.errors import InputError
from bystander.schemas.recording_session import ImportSettings, SessionSheet, Take
from bystander.schemas.recordings import Channels, DecodeRequest
from bystander.schemas.sid_engine_configs import FileDecoderConfig
from bystander.storage.call_cache import SqliteCallCache, locate_call_cache
from bystander.storage.filesystem import open_store
from bystander.storage.model_store import ModelStore
from bystander.storage.recording_listing import AUDIO_SUFFIXES, FoundFile, describe_fault, list_files
from bystander.storage.session_files import read_session
from bystander.tasks.engines.cached import CachedRecogniser
from bystander.tasks.engines.registry import open_aligner, open_decoder, open_recogniser
from bystander.tasks.session.found_takes import FoundTake, find_code, find_stretches, mix_down, split_recording
from bystander.tasks.session.match_script import ScriptMatcher
from bystander.tasks.session.publish_session import PublishedSession, publish_session
from bystander.tasks.session.read_take import ReadTake, read_take
from bystander.tasks.session.take_harvest import (
    CHOOSE,
    FIND,
    READ,
    RefusedTake,
    TakeHarvest,
    write_takes_table,
    write_words,
)

_SURELY_OTHER = 0.8
"""Share of words in common from which what was read is another take of the sheet."""


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
        cache = SqliteCallCache(locate_call_cache(open_store(out)))
        stack.callback(cache.close)
        recogniser = CachedRecogniser(open_recogniser(settings.recogniser, resolve), cache)
        stack.callback(recogniser.close)
        aligner = open_aligner(settings.aligner, resolve)
        stack.callback(aligner.close)
        harvest = TakeHarvest()
        matcher = ScriptMatcher(sheet)
        read: dict[str, list[tuple[FoundTake, ReadTake]]] = {}
        for found in _find_takes(files, matcher, settings, recogniser, harvest):
            if found.take is None and not found.heard:
                detail = f"from {found.start_s:.1f} s: no words are heard"
                harvest.refused.append(RefusedTake(FIND, RowFault("no_speech", detail), found, source=found.source))
                continue
            if found.take is None:
                detail = f"from {found.start_s:.1f} s: fits no line of the sheet"
                fault = RowFault("not_in_script", detail, found.heard)
                harvest.refused.append(RefusedTake(FIND, fault, found, source=found.source))
                continue
            result = read_take(found, found.take, settings, recogniser, aligner)
            if isinstance(result, RowFault):
                result = _name_other_take(result, found.take, matcher)
                harvest.refused.append(RefusedTake(READ, result, found, found.take.code, found.source))
            else:
                read.setdefault(found.take.code, []).append((found, result))
        _choose_last(sheet, read, harvest)
        identities = {"recogniser": recogniser.identity, "aligner": aligner.identity}
    digests = sorted({found.digest for found, _ in harvest.good})
    published = publish_session(sheet, harvest, identities, digests, out, name, settings)
    session.write_bytes(f"import-{name}.csv", write_takes_table(sheet, harvest).encode())
    session.write_bytes(f"import-{name}.words.jsonl", write_words(harvest).encode())
    return published


def _name_other_take(fault: RowFault, take: Take, matcher: ScriptMatcher) -> RowFault:
    """Say of a misread take which other one was read, if it was: files are misnamed easily."""
    score, other = matcher.match(fault.raw_output or "")
    if fault.reason != "misread" or other.code == take.code or score < _SURELY_OTHER:
        return fault
    detail = f"{fault.detail}; these are the lines of {other.code}: name the file so"
    return RowFault(fault.reason, detail, fault.raw_output)


def _choose_last(sheet: SessionSheet, read: dict[str, list[tuple[FoundTake, ReadTake]]], harvest: TakeHarvest) -> None:
    """Keep the last good recording of each take: who repeats a take means it."""
    tried = {one.code for one in harvest.refused if one.code}
    for take in sheet.takes:
        tries = read.get(take.code, [])
        if not tries:
            if take.code not in tried:
                who = f"{take.primary} and {take.third_party}"
                fault = RowFault("missing_take", f"{take.room}: {who} are not found in the recordings; record it")
                harvest.refused.append(RefusedTake(FIND, fault, code=take.code))
            continue
        *earlier, (last, result) = tries
        harvest.good.append((last, result))
        detail = f"the last good one is kept: {last.source}, from {result.start_s:.1f} s"
        for found, _ in earlier:
            fault = RowFault("repeated_take", detail)
            harvest.refused.append(RefusedTake(CHOOSE, fault, found, take.code, found.source))


def _find_takes(
    files: Sequence[FoundFile],
    matcher: ScriptMatcher,
    settings: ImportSettings,
    recogniser: Recogniser,
    harvest: TakeHarvest,
) -> Iterator[FoundTake]:
    """Yield what the files hold: tries at one take where a code is in the name, else the takes of a long recording."""
    decoder = open_decoder(FileDecoderConfig())
    for file in files:
        take = find_code(file.stem, matcher.takes)
        code = take.code if take is not None else None
        try:
            with file.open() as source:
                digest = hashlib.file_digest(source, "sha256").hexdigest()
        except Exception as exc:  # file systems raise errors of their own kind
            fault = RowFault("unreadable_file", describe_fault(exc))
            harvest.refused.append(RefusedTake(FIND, fault, code=code, source=file.name))
            continue
        (decoded,) = decoder.decode([DecodeRequest((file.path,), (digest,))])
        if isinstance(decoded, RowFault):
            harvest.refused.append(RefusedTake(FIND, decoded, code=code, source=file.name))
            continue
        samples, rate = decoded.samples, decoded.sampling_rate
        if settings.channels == "mixed":
            samples = mix_down(samples)[:, None]
        if take is not None:
            yield from _find_tries(samples, rate, file.name, digest, take, matcher, settings, recogniser)
            continue
        count = 0
        for found in split_recording(samples, rate, file.name, digest, matcher, settings, recogniser):
            count += 1
            yield found
        if not count:
            fault = RowFault("no_speech", f"{len(samples) / rate:.1f} s without a word; is it the right file?")
            harvest.refused.append(RefusedTake(FIND, fault, source=file.name))


def _find_tries(
    samples: Channels,
    rate: int,
    source: str,
    digest: str,
    take: Take,
    matcher: ScriptMatcher,
    settings: ImportSettings,
    recogniser: Recogniser,
) -> Iterator[FoundTake]:
    """Yield the tries at a take in a file of its own; the whole file where it has one stretch or none fits."""
    whole = FoundTake(source, digest, 0.0, samples, rate, take)
    if len(find_stretches(mix_down(samples), rate, settings.take_pause_s)) < 2:
        yield whole
        return
    own = matcher.only(take)
    tries = [
        found
        for found in split_recording(samples, rate, source, digest, own, settings, recogniser)
        if own.match(found.heard)[0] >= settings.min_take_similarity
    ]
    yield from tries or [whole]


def _list_audio(addresses: Sequence[str]) -> list[FoundFile]:
    found: dict[str, FoundFile] = {}
    for address in addresses:
        files = list_files(address, "audio")
        chosen = [file for file in files if file.suffix in AUDIO_SUFFIXES] if len(files) > 1 else files
        found.update({file.path: file for file in chosen})
    if not found:
        raise InputError(f"audio {', '.join(addresses)}: holds no audio file; name files, a folder or a glob")
    return [found[path] for path in sorted(found)]
