"""A copy of a prompt pack whose prompts also say, in one line at their end, what is asked: no model need read them.

The prompts keep their wording, their length and their order, so that token counts and cached beginnings are those of
the real pack; a simulated server answers from the last line alone. Openings of replies, which hold a small model to
the policy by a pattern, are left out: nothing that is simulated needs them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from bystander.prompts.find_packs import MANIFEST_NAME, list_built_in_packs
from bystander.prompts.load import LoadedPack, load_pack
from bystander.prompts.manifest import EXAMPLES, PROMPT_VARIABLES
from bystander.schemas.text_tasks import (
    AMBIGUITY_GRADES,
    CONDUCT,
    LABEL_CLASS,
    LABEL_KIND,
    SCORE_AMBIGUITY,
    TWO_OPTION_TASKS,
)

MARK = "[simulated] "
"""What the line begins with; JSON follows."""

_OBJECTS = frozenset({"scenario", "class"})
"""Variables that templates get as objects, known by their key."""


def write_marked_pack(source: str, folder: Path) -> LoadedPack:
    """Write the marked copy of a pack into a folder, which is made, and return it as loaded.

    Files of the same names are replaced.

    Raises:
        PackError: `source` is no pack, or one so long that the mark does not fit.
    """
    pack = load_pack(source)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = pack.describe_manifest()
    if pack.name in list_built_in_packs():  # the name stands for its very text
        manifest["name"] = f"{pack.name}_simulated"
    for item in manifest["classes"]:
        item.pop("reply_openings", None)
    for task, entry in manifest["tasks"].items():
        shown = {EXAMPLES} & set(entry["variables"])
        entry["variables"] = sorted(PROMPT_VARIABLES[task] | shown)
        entry["template"] = f"{task}.j2"
        marked = pack.source(task).rstrip() + "\n" + _make_mark(task, pack) + "\n"
        (folder / entry["template"]).write_text(marked, "utf-8")
    text = yaml.safe_dump(manifest, allow_unicode=True, sort_keys=False)
    (folder / MANIFEST_NAME).write_text(text, "utf-8")
    return load_pack(str(folder))


def read_mark(prompt: str) -> dict[str, Any] | None:
    """Return what the mark of a prompt says: `task`, `variables`, and `options` or `kinds`; None if it has none.

    What a repair adds after it is not read.
    """
    at = prompt.rfind(MARK)
    if at < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(prompt, at + len(MARK))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _make_mark(task: str, pack: LoadedPack) -> str:
    names = sorted(PROMPT_VARIABLES[task])
    values = ", ".join(
        f'"{name}": {{{{ {name}.key | tojson }}}}' if name in _OBJECTS else f'"{name}": {{{{ {name} | tojson }}}}'
        for name in names
    )
    if "class" in names and task not in (LABEL_CLASS.name, LABEL_KIND.name):  # of a reply to a remark, not of a remark
        values += f', "{CONDUCT}": {{{{ class.conduct | tojson }}}}'
    fields = [f'"task": {json.dumps(task)}', f'"variables": {{{values} }}']
    if task in TWO_OPTION_TASKS:
        fields.append(f'"options": {json.dumps(list(pack.answers(task)))}')
    elif task == SCORE_AMBIGUITY.name:
        fields.append(f'"options": {json.dumps(AMBIGUITY_GRADES)}')
    elif task == LABEL_KIND.name:
        fields.append('"kinds": {{ class.kinds | length }}')
    return MARK + "{" + ", ".join(fields) + " }"
