"""Rules for the replies and spoken texts that a pack shows: those that stages reject a model's own replies by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bystander.prompts.manifest import TaskManifest
from bystander.prompts.read_pack import PackParts
from bystander.schemas.engines import RowFault, TextReply
from bystander.schemas.packs import PackClass
from bystander.schemas.taxonomy import Taxonomy
from bystander.schemas.text_tasks import WRITE_INTERRUPTION, WRITE_ONE_SPEAKER_REPLY, WRITE_REPLY
from bystander.schemas.tpi_params import WriteInterruptions, WriteReplies
from bystander.tasks.stages.reply_rules import read_reply
from bystander.tasks.stages.write_interruptions import check_line
from bystander.tasks.stages.write_replies import check_mention
from bystander.tasks.texts.mentions import refers_to_other_person
from bystander.tasks.texts.spoken_text import clean_spoken_text, find_unspeakable

_SPOKEN = ("primary", "third_party")
_PASSES_OVER = re.compile(
    r"\bas if\b.*\b(?:not|never|nothing|nobody|no one)\b|\b(?:do not|don't|never|without) (?:mention|refer|repeat)",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTES = re.compile(
    r"\b(?:say|mention|note|acknowledge)(?:ing|s)? (?:that )?(?:someone|somebody|another person|the other person|who)\b"
    r"|\battribut",
    re.IGNORECASE,
)


def check_replies(parts: PackParts, taxonomy: Taxonomy) -> None:
    """Add to a pack's faults what is wrong with its classes' openings and its tasks' examples, by the stages' rules."""
    for number, item in parts.classes.items():
        _check_class(number, item, parts)
    for task, entry in sorted(parts.tasks.items()):
        for number, example in enumerate(entry.examples):
            here = ("tasks", task, "examples", number)
            for name in _SPOKEN:
                if (fault := _find_unspeakable(example.given.get(name))) is not None:
                    parts.add((*here, "given", name), fault)
            _check_example(task, entry, number, parts, taxonomy)


def find_reply_rule_fault(
    task: str, reply: Mapping[str, Any], item: PackClass | None, given: Mapping[str, str], classes: Sequence[PackClass]
) -> str | None:
    """Return the rule by which the stages would reject a reply to the user, or None; other tasks have none here.

    `given` are the request and remark that it answers, as far as they are known.
    """
    if task not in (WRITE_REPLY.name, WRITE_ONE_SPEAKER_REPLY.name):
        return None
    keys = [other.key for other in classes] + [kind.key for other in classes for kind in other.kinds]
    text = read_reply(TextReply(text="", value=reply), keys, WriteReplies().max_words)
    if isinstance(text, RowFault):
        return _say(text)
    if task == WRITE_ONE_SPEAKER_REPLY.name:
        return (
            "refers to another person, though one person said it all (reply_mentions_speaker)"
            if refers_to_other_person(text)
            else None
        )
    if item is None:
        return None
    row = {"primary_complete": given.get("primary", ""), "third_party_text": given.get("third_party", "")}
    if (fault := check_mention(text, row, item)) is not None:
        return f"breaks the rules of class {item.key}: {_say(fault)}"
    if item.reply_openings and not text.startswith(item.reply_openings):
        return f"begins with none of the reply_openings of class {item.key}"
    if item.reply_ends_with and not text.endswith(item.reply_ends_with):
        return f"does not end with one of {' '.join(item.reply_ends_with)}, as class {item.key} has it"
    return None


def _say(fault: RowFault) -> str:
    return f"{fault.detail} ({fault.reason})"


def _check_class(number: int, item: PackClass, parts: PackParts) -> None:
    passes_over = bool(_PASSES_OVER.search(item.policy))
    policy = ("classes", number, "policy")
    attributes = bool(_ATTRIBUTES.search(item.policy))
    if item.requires_mention and passes_over and not attributes:
        message = "says to pass over the remark, but requires_mention has every such reply rejected"
        parts.add(policy, message, "warning")
    if not item.mentions_third_party and not passes_over and attributes:
        message = "says to mention the other person, but mentions_third_party is false, so such replies are rejected"
        parts.add(policy, message, "warning")
    here = ("classes", number, "reply_openings")
    for place, opening in enumerate(item.reply_openings):
        if not item.mentions_third_party and refers_to_other_person(opening):
            parts.add(
                (*here, place),
                "says that another person spoke, but mentions_third_party is false: every reply would be rejected",
            )
    if (
        item.requires_mention
        and item.reply_openings
        and not any(refers_to_other_person(opening) for opening in item.reply_openings)
    ):
        parts.add(here, "none says that another person spoke, which requires_mention asks of every reply", "warning")


def _check_example(task: str, entry: TaskManifest, number: int, parts: PackParts, taxonomy: Taxonomy) -> None:
    example = entry.examples[number]
    here = ("tasks", task, "examples", number)
    scenario = example.given.get("scenario")
    if scenario is not None and scenario not in taxonomy.keys:
        parts.add((*here, "given", "scenario"), f"{scenario!r} is no scenario of the taxonomy {taxonomy.name}")
    if task == WRITE_INTERRUPTION.name:
        _check_interruption(here, example.reply, scenario, parts, taxonomy)
        return
    classes = {item.key: item for item in parts.classes.values()}
    if task == WRITE_REPLY.name and "class" not in example.given:
        parts.add((*here, "given"), "names no class, so the reply cannot be held to its rules", "warning")
    item = classes.get(example.given.get("class", ""))
    if (fault := find_reply_rule_fault(task, example.reply, item, example.given, list(classes.values()))) is not None:
        parts.add((*here, "reply", "reply"), fault)


def _check_interruption(
    here: tuple[str | int, ...], reply: Mapping[str, Any], scenario: str | None, parts: PackParts, taxonomy: Taxonomy
) -> None:
    spoken = {name: reply[name] for name in _SPOKEN if isinstance(reply.get(name), str)}
    unspeakable = {name: _find_unspeakable(text) for name, text in spoken.items()}
    for name, fault in unspeakable.items():
        if fault is not None:
            parts.add((*here, "reply", name), fault)
    if len(spoken) < len(_SPOKEN) or any(unspeakable.values()):
        return
    known = taxonomy[scenario] if scenario in taxonomy.keys else None
    keys = [item.key for item in parts.classes.values()] + ([known.key] if known else [])
    broken = check_line(
        clean_spoken_text(spoken["third_party"], keep_apostrophes=True),
        spoken["primary"],
        keys,
        known.openings if known else (),
        known.ends_with if known else (".", "!", "?"),
        WriteInterruptions(),
    )
    if broken is not None:
        parts.add((*here, "reply", "third_party"), f"would be rejected: {_say(broken)}")


def _find_unspeakable(text: str | None) -> str | None:
    if text is None:
        return None
    found = find_unspeakable(clean_spoken_text(text, keep_apostrophes=True))
    if found is None:
        return None
    position, sign = found
    # Cleaning may have moved it; the author looks for it in the text as written.
    position = text.find(sign) if sign in text else position
    return (
        f"{sign!r} (character {position + 1}) cannot be spoken; voices take letters, digits, apostrophes inside words "
        "and . , ? !"
    )
