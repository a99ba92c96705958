"""The page on which people rate: one file for crowd platforms, and what the local server makes its page of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from markupsafe import Markup

from bystander.pages.page_templates import render_page_alone
from bystander.schemas.study import StudyManifest, StudySettings, StudyWording

STYLE, SCRIPT = "study_page.css", "study_page.js"

MOST_PLATFORM_BYTES = 65_535
"""Amazon Mechanical Turk takes no longer question, the page with its fields filled in."""


def render_study_page(name: str, settings: StudySettings, wording: StudyWording) -> str:
    """Return `crowd.html`, in which a platform replaces `${task}` by that field of a line of `tasks.csv`."""
    setup = describe_setup(name, wording, clips_url=settings.clips_url, submit_url=settings.submit_url)
    return render_page_alone(
        "study_page.html.j2",
        language=wording.language,
        title=wording.title.replace("${", "$ {"),  # would be a field to a platform
        style=read_asset(STYLE),
        script=read_asset(SCRIPT),
        setup=setup,
    )


def describe_setup(name: str, wording: StudyWording, *, clips_url: str, submit_url: str = "", **more: Any) -> Markup:
    """Return what the script has to know, as JSON that cannot end the block that it stands in.

    `more` are fields for a page of the local server: `server`, the address that the script calls, and `headers`.
    """
    slashed = clips_url if clips_url.endswith(("/", "=")) else f"{clips_url}/"
    setup: Mapping[str, Any] = {
        "study": name,
        "title": wording.title,
        "lead": wording.lead,
        "rules": wording.rules,
        "consent": wording.consent,
        "questions": [
            {
                "name": question.name,
                "text": question.text,
                "options": [{"value": o.value, "label": o.label, "hint": o.hint} for o in question.options],
            }
            for question in wording.questions
        ],
        "ui": wording.ui,
        "clips_url": slashed,
        "submit_url": submit_url,
        **more,
    }
    text = json.dumps(setup, ensure_ascii=False)
    # `${` would be a field to a platform, `<` could end the block.
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026").replace("${", "$\\u007b"))


def setup_of(manifest: StudyManifest, **more: Any) -> Markup:
    """Return the setup of a study's page on the local server."""
    return describe_setup(manifest.name, manifest.wording, **more)


def read_asset(name: str) -> Markup:
    """Return a style sheet or script that ships."""
    return Markup(resources.files("bystander.pages").joinpath("templates", name).read_text("utf-8"))
