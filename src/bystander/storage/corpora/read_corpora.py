"""Reads corpora of any layout into UTTERANCE rows."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from bystander.schemas.errors import InputError
from bystander.schemas.real_world_config import CorpusFormat, CorpusSource, name_corpus
from bystander.storage.corpora.ami_nxt import is_ami_nxt, read_ami_nxt
from bystander.storage.corpora.corpus_files import CorpusFiles, list_corpus_files
from bystander.storage.corpora.dialogue_csv import read_dialogue_csv
from bystander.storage.corpora.friends_mmc import is_friends_mmc, read_friends_mmc
from bystander.storage.corpora.lhotse_supervisions import is_lhotse, read_lhotse
from bystander.storage.corpora.rttm import name_speaker, read_rttm
from bystander.storage.corpora.transcript_files import read_transcript_file
from bystander.storage.corpora.utterances import Utterance, decode_text, make_table
from bystander.storage.transcripts.read_transcript import SUFFIXES

_ENDINGS = (*SUFFIXES, ".csv")


def read_corpus(source: CorpusSource) -> pa.Table:
    """Return the utterances of a corpus as UTTERANCE rows, those of a recording together, in order of time.

    A row of a file that cannot be read comes with its fault. Rows that stand twice come once.

    Raises:
        InputError: the files are missing, unreadable or of no layout that is known, or hold no utterance.
    """
    files = list_corpus_files(source.path)
    utterances = list(_read(files, source))
    if source.rttm is not None:
        listed = list_corpus_files(source.rttm, "rttm")
        stretches = read_rttm(
            [(name, decode_text(listed.read(name), name)) for name in listed.names if name.lower().endswith(".rttm")]
        )
        for one in utterances:
            name_speaker(one, stretches)
    for one in utterances:
        if one.fault is None and not one.speaker:
            one.fault = "names no speaker; give a folder of RTTM files (rttm) that says who speaks when"
    if not utterances:
        raise InputError(f"corpus {source.path}: there is no utterance in it")
    if all(one.fault is not None for one in utterances):
        first = utterances[0]
        raise InputError(f"corpus {source.path}: no row can be used; the first is {first.place}: {first.fault}")
    utterances.sort(key=lambda one: (one.recording, one.fault is not None, one.start_s or 0.0, one.end_s or 0.0))
    return make_table(utterances, name_corpus(source), source.language, source.licence)


def _read(files: CorpusFiles, source: CorpusSource) -> Iterator[Utterance]:
    if source.format == "ami_nxt" or (source.format is None and is_ami_nxt(files.names)):
        if not is_ami_nxt(files.names):
            raise InputError(
                f"corpus {source.path}: has no words/<meeting>.<speaker>.words.xml, of which AMI's annotations consist"
            )
        yield from read_ami_nxt(files.names, files.read)
        return
    found = [name for name in files.names if _strip_gz(name).endswith(_ENDINGS)]
    if not found:
        raise InputError(
            f"corpus {source.path}: has no transcript; files that are read end in {', '.join(_ENDINGS)}, or lie in "
            "AMI's folders words/ and segments/"
        )
    for name in found:
        text = decode_text(files.read(name), f"corpus {source.path}: {name}")
        layout = source.format or _detect(name, text)
        if layout == "lhotse":
            yield from read_lhotse(name, text)
        elif layout == "friends_mmc":
            yield from read_friends_mmc(name, text, source.frames_per_s)
        elif layout == "dialogue_csv":
            yield from read_dialogue_csv(name, text)
        else:
            bare = name.removesuffix(".gz")
            yield from read_transcript_file(bare, bare.rpartition("/")[2].partition(".")[0], text)


def _strip_gz(name: str) -> str:
    return name.lower().removesuffix(".gz")


def _detect(name: str, text: str) -> CorpusFormat:
    bare = _strip_gz(name)
    if bare.endswith(".csv"):
        return "dialogue_csv"
    if bare.endswith(".jsonl"):
        try:
            return "lhotse" if is_lhotse(json.loads(text.lstrip().partition("\n")[0])) else "transcript"
        except ValueError:
            return "transcript"
    if bare.endswith(".json") and text.lstrip().startswith("["):
        try:
            return "friends_mmc" if is_friends_mmc(json.loads(text)) else "transcript"
        except (ValueError, RecursionError):
            return "transcript"
    return "transcript"
