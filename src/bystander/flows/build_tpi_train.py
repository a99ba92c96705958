"""The flow that builds TPI-Train: queries, waves of two-speaker rows and hard negatives, selection, publication."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from prefect import flow, tags
from prefect.task_runners import ThreadPoolTaskRunner

from bystander.flows.listeners import current_listener
from bystander.flows.prefect_housekeeping import (
    fail_abandoned_flow_runs,
    mark_this_process,
    owner_tag,
    stop_orphaned_servers,
)
from bystander.flows.prefect_listener import PrefectListener
from bystander.flows.tpi_harvest import Harvest
from bystander.schemas.config import TpiTrainConfig
from bystander.schemas.errors import BuildError, CorruptPartError, InputError
from bystander.schemas.tpi import CANDIDATE, HARD_NEGATIVE_LABEL, RAW_QUERY, VOICED
from bystander.storage.parts import read_partition, read_partition_columns
from bystander.storage.query_files import read_queries
from bystander.storage.stage_results import discard_result_of_part
from bystander.tasks.environment import StageEnvironment, StageJob, close_environments, open_environment
from bystander.tasks.publish_tpi import Outcome, find_published, publish_tpi
from bystander.tasks.stages import HARD_NEGATIVE_STAGES, PAIR_STAGES, QUERY_STAGES
