"""A pack with four classes, made from the reference pack."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

import yaml

CLASSES = ("act", "confirm", "defer", "ignorable")


def write_four_class_pack(folder: Path) -> Path:
    """Write the pack to a folder."""
    shutil.copytree(str(resources.files("bystander.prompts") / "packs" / "reference"), folder)
    manifest = yaml.safe_load((folder / "pack.yaml").read_text("utf-8"))
    manifest["name"] = "four-classes"
    manifest["classes"] = [
        {
            "key": key,
            "criteria": f"The remark calls for the class {key}.",
            "policy": f"Answer as the class {key} wants it.",
            "mentions_third_party": key != CLASSES[-1],
        }
        for key in CLASSES
    ]
    manifest["classes"][0]["kinds"] = [
        {"key": "correction", "definition": "it corrects the request"},
        {"key": "addition", "definition": "it adds to the request"},
    ]
    (folder / "pack.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), "utf-8")
    return folder
