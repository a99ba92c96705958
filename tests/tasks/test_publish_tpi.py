"""When a published build counts as made of the same things."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bystander.schemas.config import load_config
from bystander.schemas.engines import EngineIdentity
from bystander.tasks.publish_tpi import StageRuns, digest_content


def digest(revision: str = "1", pack: str = "p", taxonomy: str = "t", others: str = "o") -> str:
    environment: Any = SimpleNamespace(
        engine=lambda role: SimpleNamespace(identity=EngineIdentity(role, "e", "m", revision)),
        pack=SimpleNamespace(digest=pack),
        taxonomy=SimpleNamespace(digest=lambda: taxonomy),
        other_builds=SimpleNamespace(digest=others),
    )
    return digest_content(load_config("fake"), environment, StageRuns([]), ["row-1"])


def test_engines_pack_taxonomy_and_other_builds_are_part_of_the_content() -> None:
    assert digest() == digest()
    assert len({digest(), digest(revision="2"), digest(pack="q"), digest(taxonomy="u"), digest(others="p")}) == 5
