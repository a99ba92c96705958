"""Checking a pack as its author needs it: every fault at once, before a build spends anything on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bystander.prompts.find_packs import FoundPack, find_pack
from bystander.prompts.load import digest_files, require_no_errors
from bystander.prompts.pack_faults import PackFault, order_faults
from bystander.prompts.read_pack import PackParts, read_pack
from bystander.schemas.packs import PackClass
from bystander.schemas.taxonomy import Taxonomy, load_taxonomy
from bystander.schemas.text_tasks import JUDGE_TASKS
from bystander.tasks.pack_language import LanguageCoverage, check_language
from bystander.tasks.pack_prompt_rules import PromptLength, check_prompts
from bystander.tasks.pack_reply_rules import check_replies


@dataclass(frozen=True, slots=True)
class PackReport:
    """What a check found. `name`, `digest` and `classes` are those of the sound parts; the digest is None on errors."""

    found: FoundPack
    faults: tuple[PackFault, ...]
    name: str | None = None
    digest: str | None = None
    classes: tuple[PackClass, ...] = ()
    prompts: Mapping[str, PromptLength] = field(default_factory=dict)
    language: LanguageCoverage = field(default_factory=LanguageCoverage)

    @property
    def errors(self) -> list[PackFault]:
        return [fault for fault in self.faults if fault.level == "error"]

    @property
    def warnings(self) -> list[PackFault]:
        return [fault for fault in self.faults if fault.level == "warning"]


def check_pack(source: str, taxonomy: Taxonomy | None = None) -> PackReport:
    """Check a pack whole: files, fields, templates, reply formats, classes, examples, language and rendered prompts.

    Prompts are rendered for the scenarios of `taxonomy`, by default the built-in one.

    Raises:
        PackError: there is no such pack; faults of a pack that is there are in the report.
    """
    found = find_pack(source)
    parts = read_pack(found)
    if not isinstance(parts.yaml.data, dict):
        return PackReport(found, tuple(parts.faults))
    taxonomy = taxonomy or load_taxonomy()
    check_replies(parts, taxonomy)
    prompt_faults, lengths = check_prompts(parts, taxonomy)
    language_faults, coverage = check_language(parts)
    faults = tuple(order_faults([*parts.faults, *prompt_faults, *language_faults]))
    return PackReport(
        found,
        faults,
        _get_name(parts),
        None if parts.errors else digest_files(parts.files),
        tuple(parts.classes.values()),
        lengths,
        coverage,
    )


def require_sound_pack(source: str, taxonomy: Taxonomy) -> None:
    """Raise what `check_pack` has for errors, so that no call is paid for a pack that fails later.

    Packs that come with Bystander are not checked again; warnings stop nothing.

    Raises:
        PackError: there is no such pack, or it has errors: the message has them with file and line.
    """
    if find_pack(source).origin != "built-in":
        require_no_errors(source, check_pack(source, taxonomy).errors)


def require_sound_rubrics(source: str) -> None:
    """Raise what `check_pack` has for errors in the tasks that judge; they are shown no scenario of a taxonomy.

    Raises:
        PackError: there is no such pack, or its judges' tasks have errors.
    """
    found = find_pack(source)
    if found.origin == "built-in":
        return
    parts = read_pack(found)
    judges = [task.name for task in JUDGE_TASKS]
    files = {parts.tasks[name].template for name in judges if name in parts.tasks}
    fields = tuple(f"tasks.{name}." for name in judges)
    errors = [fault for fault in check_pack(source).errors if fault.file in files or fault.field.startswith(fields)]
    require_no_errors(source, errors)


def _get_name(parts: PackParts) -> str | None:
    name = parts.yaml.data.get("name")
    return name if isinstance(name, str) else None
