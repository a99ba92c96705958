"""How an evaluation's environment opens the systems that are evaluated."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bystander.schemas.engine_configs import (
    EvaluationEngines,
    FakeCandidateConfig,
    OpenAiAudioConfig,
    PredictionsConfig,
    StandInConfig,
)
from bystander.schemas.engines import AnswerReply, AnswerRequest
from bystander.schemas.errors import EngineSetupError
from bystander.schemas.evaluate_config import AnswerClips, EvaluateTpiConfig
from bystander.schemas.stage_job import StageJob
from bystander.schemas.text_engine_configs import LlamaCppTextConfig, PlaybookTextConfig
from bystander.tasks.engines.cached import CachedCandidate, CachedTextEngine
from bystander.tasks.engines.fake_candidate import FakeCandidate
from bystander.tasks.engines.predictions import PredictionsCandidate
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.stages.answer_clips import STAGE


@pytest.fixture
def open_job(tmp_path):
    opened = []

    def open_environment(candidate):
        config = EvaluateTpiConfig(store=str(tmp_path / "store"), seed=3)
        engines = EvaluationEngines(candidate=candidate)
        opened.append(StageEnvironment(StageJob.of_evaluation(config, engines, "reference")))
        return opened[-1]

    yield open_environment
    for environment in opened:
        environment.close()


def ask(**variables):
    return AnswerRequest("row-1", np.ones(8, np.float32), 16000, 1, variables)


def test_the_stage_gets_its_settings_and_the_candidate(open_job):
    environment = open_job(FakeCandidateConfig())
    assert environment.params_of(STAGE) == AnswerClips()
    [(role, engine)] = environment.engines_of(STAGE).items()
    assert role == "candidate"
    assert isinstance(engine, FakeCandidate)


def test_models_are_remembered_and_files_are_not(open_job, tmp_path):
    endpoint = OpenAiAudioConfig(base_url="http://127.0.0.1:1/v1", model="m")
    environment = open_job(endpoint)
    assert isinstance(environment.engine("candidate"), CachedCandidate)
    assert environment.call_counts() == {"candidate": {"made": 0, "remembered": 0}}
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": "row-1", "reply": "Yes."}))
    assert isinstance(open_job(PredictionsConfig(path=str(path))).engine("candidate"), PredictionsCandidate)


def test_a_stand_in_writes_with_the_pack_and_its_own_writer(open_job):
    environment = open_job(StandInConfig(kind="transcript", writer=PlaybookTextConfig()))
    texts = {"primary": "What is the capital of Austria?", "third_party": "You read my mind."}
    [reply] = environment.engine("candidate").answer([ask(**texts)])
    assert isinstance(reply, AnswerReply)
    assert reply.text.endswith("The capital of Austria is Vienna.")
    identity = dict(environment.engine("candidate").identity.settings)
    assert identity["prompt"] == environment.pack.task_digest("write_one_speaker_reply")


def test_calls_of_a_stand_in_s_writer_are_remembered_and_counted(open_job, tmp_path):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"no model: it is loaded at the first call only")
    environment = open_job(StandInConfig(kind="transcript", writer=LlamaCppTextConfig(model=str(model))))
    environment.engine("candidate")
    assert isinstance(environment.engine("writer"), CachedTextEngine)
    assert environment.call_counts() == {"writer": {"made": 0, "remembered": 0}}


def test_a_stand_in_without_its_writer_is_one_sentence(open_job):
    with pytest.raises(EngineSetupError, match="stand-in 'ignore_second': needs a text engine"):
        open_job(StandInConfig(kind="ignore_second")).engine("candidate")
