"""Speech workers as a build opens them: voices from an indexed bank, clips from the call cache."""

from __future__ import annotations

import numpy as np
import pytest

from bystander.schemas.engine_configs import EngineConfigs
from bystander.schemas.engines import SpeechReply, SpeechRequest
from bystander.schemas.errors import InputError
from bystander.schemas.recogniser_configs import FakeRecogniserConfig, FakeVerifierConfig
from bystander.schemas.speech_engine_configs import ChatterboxSpeechConfig
from bystander.schemas.stage_job import StageJob
from bystander.schemas.text_engine_configs import FakeTextConfig
from bystander.schemas.tpi_params import TpiStages
from bystander.tasks.environment import StageEnvironment
from bystander.tasks.index_voices import index_voices
from voice_corpora import make_config, write_folders


def open_job(folder, bank) -> StageEnvironment:
    speech = ChatterboxSpeechConfig(
        bank=str(bank),
        model="tone",
        devices=("cpu",),
        cache_folder=str(folder / "cache"),
        log_folder=str(folder / "logs"),
    )
    engines = EngineConfigs(
        writer=FakeTextConfig(), speech=speech, recogniser=FakeRecogniserConfig(), verifier=FakeVerifierConfig()
    )
    return StageEnvironment(
        StageJob(
            store=str(folder / "store"),
            build_seed=1,
            pack="reference",
            taxonomy=None,
            stages=TpiStages(),
            engines=engines,
        )
    )


def test_a_bank_is_spoken_from_and_clips_are_remembered(tmp_path):
    corpus = write_folders(tmp_path / "corpus", {"ann": 1, "bob": 5})
    outcome = index_voices(make_config(corpus, source__licence="CC0"), str(tmp_path / "bank"), lambda *args: None)
    environment = open_job(tmp_path, tmp_path / "bank")
    engine = environment.engine("speech")
    assert dict(engine.identity.settings)["bank"] == outcome.manifest.digest
    requests = [SpeechRequest("Hello there.", voice.id, 3) for voice in engine.voices]
    assert len(requests) == 2
    spoken = engine.synthesise(requests)
    assert all(isinstance(reply, SpeechReply) for reply in spoken)
    environment.close()
    again = open_job(tmp_path, tmp_path / "bank")
    remembered = again.engine("speech").synthesise(requests)
    assert again.call_counts()["speech"] == {"made": 0, "remembered": 2}
    for one, other in zip(spoken, remembered, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
    again.close()


def test_a_bank_that_is_none_is_named(tmp_path):
    environment = open_job(tmp_path, tmp_path / "nothing")
    with pytest.raises(InputError, match="nothing"):
        environment.engine("speech")
    environment.close()
