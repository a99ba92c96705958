"""From a script to cut turns: what is found of a spoken conversation is what was put into it."""

from __future__ import annotations

import pytest

from bystander.schemas.sid import SCRIPTED
from bystander.schemas.sid_engine_configs import SileroVadConfig
from bystander.schemas.sid_params import CutTurns, FindTurns, SpeakConversations
from bystander.schemas.speech_engine_configs import FakeSpeechConfig
from bystander.tasks.engines.fake_speech import FakeSpeechEngine
from bystander.tasks.engines.registry import open_vad
from bystander.tasks.stages import find_turns, speak_conversations
from bystander.tasks.stages.cut_turns import cut_turns
from scripted_engines import make_context
from tpi_rows import make_rows

TALK = "The train to the coast leaves at nine and it stops at every station on the way to the harbour."
SCRIPTS = [
    {"backchannel": "", "substance": "What about the other train?", "gap_s": None},
    {"backchannel": "Yeah, right.", "substance": "What about the other train?", "gap_s": 0.4},
    {"backchannel": "Yeah, right.", "substance": "No, wait.", "gap_s": 0.8},
    {"backchannel": "Mhm, I see.", "substance": "", "gap_s": None},
]


@pytest.mark.parametrize("with_vad", [True, False])
def test_each_scripted_turn_is_found_with_its_truth(with_vad):
    scripts = [{"recording_id": f"c{at}", "assistant_text": TALK, **script} for at, script in enumerate(SCRIPTS)]
    speech = FakeSpeechEngine(FakeSpeechConfig())
    settings = SpeakConversations(second_backchannel_share=0)
    spoken = speak_conversations.STAGE(make_rows(SCRIPTED, scripts), make_context(settings, speech=speech)).kept
    engines = {"vad": open_vad(SileroVadConfig())} if with_vad else {}
    found = find_turns.STAGE(spoken, make_context(FindTurns(), **engines))
    assert not len(found.rejected), found.rejected["reject_detail"].to_pylist()
    truths = [[truth for truth in row if truth["channel"] == 1] for row in spoken["truths"].to_pylist()]
    turns = cut_turns(found.kept, CutTurns()).to_pylist()
    assert [turn["recording_id"] for turn in turns] == ["c0", "c1", "c2", "c3"]
    assert [(turn["true_category"], turn["true_break_word_index"]) for turn in turns] == [
        ("beginning", 0),
        ("middle", 2),
        ("middle", 2),
        ("uninterrupted", None),
    ]
    for turn, (truth,) in zip(turns, truths, strict=True):
        clip_s = turn["turn_start_s"]
        assert turn["channel"] == 1
        assert turn["speech"][0]["start_s"] + clip_s == pytest.approx(truth["start_s"], abs=0.03)
        assert turn["speech"][-1]["end_s"] + clip_s == pytest.approx(truth["end_s"], abs=0.03)
        if truth["break_time_s"] is not None:
            assert turn["true_break_time_s"] + clip_s == pytest.approx(truth["break_time_s"], abs=1e-6)
    assert sum(map(len, found.kept["silences"].to_pylist())) > 0
