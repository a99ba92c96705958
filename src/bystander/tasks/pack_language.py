"""Is a pack written in the language that it says, and can builds speak it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jinja2 import nodes

from bystander.prompts.find_packs import MANIFEST_NAME
from bystander.prompts.pack_faults import PackFault
from bystander.prompts.read_pack import PackParts
from bystander.prompts.render import parse_template
from bystander.tasks.stages.normalise_queries import SPOKEN_LANGUAGES

_LEAST_LETTERS = 60
"""Of shorter texts the language cannot be told."""
_LEAST_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class LanguageCoverage:
    """How much of a pack's text is in its language: letters that are, and letters of which the language was told."""

    letters: int = 0
    told: int = 0

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None where the language of no text can be told."""
        return self.letters / self.told if self.told else None


def check_language(parts: PackParts) -> tuple[list[PackFault], LanguageCoverage]:
    """Return what is wrong with the language of a pack's classes and templates, and how much of them is in it.

    The language of each text of some length is told by py3langid, so this is a warning, unless no TPI build can speak
    the pack's language at all.
    """
    language = parts.yaml.data.get("language")
    if not isinstance(language, str):
        return [], LanguageCoverage()
    if language not in SPOKEN_LANGUAGES:
        line = parts.yaml.find_line(("language",))
        message = f"no build can speak {language!r}; there are rules for {', '.join(SPOKEN_LANGUAGES)}"
        return [PackFault(MANIFEST_NAME, line, "language", message)], LanguageCoverage()
    faults: list[PackFault] = []
    import py3langid

    letters = told = 0
    for (file, line, field), text in _list_texts(parts):
        count = sum(sign.isalpha() for sign in text)
        if count < _LEAST_LETTERS:
            continue
        found = str(py3langid.classify(text)[0])
        told += count
        if found == language:
            letters += count
        else:
            faults.append(PackFault(file, line, field, f"reads like {found!r}, not like {language!r}", "warning"))
    coverage = LanguageCoverage(letters, told)
    if coverage.share is not None and coverage.share < _LEAST_SHARE:
        faults.append(
            PackFault(
                MANIFEST_NAME,
                parts.yaml.find_line(("language",)),
                "language",
                f"{coverage.share:.0%} of the text of classes and templates is in {language!r}",
                "warning",
            )
        )
    return faults, coverage


def _list_texts(parts: PackParts) -> Iterator[tuple[tuple[str, int | None, str], str]]:
    for number, item in parts.classes.items():
        fields: Mapping[tuple[str | int, ...], str] = {
            ("criteria",): item.criteria,
            ("policy",): item.policy,
            **{("kinds", place, "definition"): kind.definition for place, kind in enumerate(item.kinds)},
        }
        for path, text in fields.items():
            place = ("classes", number, *path)
            yield (MANIFEST_NAME, parts.yaml.find_line(place), parts.name_field(place)), text
    for task in sorted(parts.templates):
        tree = parse_template(parts.sources[task])
        text = "".join(node.data for node in tree.find_all(nodes.TemplateData))
        yield (parts.tasks[task].template, None, ""), text
