"""Genders from the tables of MLS and LibriSpeech."""

import fsspec
import pytest

from bystander.schemas.errors import InputError
from bystander.storage.speaker_tables import read_genders


def read(tmp_path, text):
    path = tmp_path / "table.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return dict(read_genders(fsspec.filesystem("file"), str(path)))


def test_metainfo_has_a_row_a_book(tmp_path):
    text = """ SPEAKER   |   GENDER   | PARTITION  |  MINUTES   |  BOOK ID   |  TITLE  |  CHAPTER
  10232    |     M      |   train    |   17.148   |   10057    | A Tale | Ch. I | and more
  10232    |     M      |   train    |   17.148   |   10058    | Another |
   9508    |     F      |    dev     |   1.5      |   1        | X | Y
    77     |     M      |   test     |   1.5      |   1        | X | Y
    77     |     F      |   test     |   1.5      |   2        | X | Y
    78     |            |   test     |   1.5      |   2        | X | Y
"""
    assert read(tmp_path, text) == {"10232": "male", "9508": "female"}  # 77 contradicts itself


def test_librispeech_names_its_columns_in_a_comment(tmp_path):
    text = "; Some metadata\n;ID  |SEX| SUBSET           |MINUTES| NAME\n14   | F | train-clean-360  | 25.03 | A B\n"
    assert read(tmp_path, text + "17 | M | x | 1 | C | D\n") == {"14": "female", "17": "male"}


def test_bytes_that_are_no_text_are_no_reason_to_stop(tmp_path):
    assert read(tmp_path, b"SPEAKER|GENDER\n1|F|\xff\xfe\n") == {"1": "female"}


def test_a_table_without_headings_is_said(tmp_path):
    with pytest.raises(InputError, match="no line names the columns"):
        read(tmp_path, "14 | F | train\n")
