"""What all engines behind an OpenAI-compatible endpoint share: the connection, retries, and what its errors mean."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bystander.schemas.addresses import list_addresses
from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineError, EngineSetupError, EngineUnavailableError
from bystander.tasks.engines.endpoint_pool import Endpoint, EndpointFault, EndpointPool
from bystander.tasks.engines.endpoint_probe import name_cause, probe_server
from bystander.tasks.engines.request_retries import measure_pause, pause_before_retry

if TYPE_CHECKING:
    import openai
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

_T = TypeVar("_T")

_SEED_MODULUS = 2**31
"""Seeds of a build have 63 bits; llama.cpp takes 32 and reads 2**32 - 1 as "any"."""


class EndpointConfig(Protocol):
    """What a configuration says about the server or the servers."""

    @property
    def base_url(self) -> str | tuple[str, ...]: ...

    @property
    def model(self) -> str: ...

    @property
    def api_key_env(self) -> str | None: ...

    @property
    def max_in_flight(self) -> int: ...

    @property
    def timeout_s(self) -> float: ...

    @property
    def max_retries(self) -> int: ...


class Slot:
    """Room for one request at one server at a time, and for all that is tried again for it."""

    def __init__(self, home: int) -> None:
        self.home = home
        self.endpoint: Endpoint | None = None


class ChatClient:
    """Chat completions of one model, called concurrently with at most `max_in_flight` requests a server.

    Its event loop runs in a thread of its own, which starts at the first call and ends with `close()`. So the bound
    and the connections are shared by all threads that call `run`, and a caller may run an event loop itself.

    With several servers, requests are balanced among them (`endpoint_pool`). One that cannot be reached is left out,
    its requests go to the others, and it comes back when it is well again and serves the same model.
    """

    def __init__(
        self,
        config: EndpointConfig,
        engine: str,
        *,
        use_proxies: bool = True,
        check_models: bool = True,
        api_key: str | None = None,
    ) -> None:
        """Take the settings; nothing is contacted yet.

        `engine` is what messages call the engine, `use_proxies` is False for servers on this machine, `check_models`
        for a server that is known to serve the model, and `api_key` stands in for that of the environment.

        Raises:
            EngineSetupError: the environment variable that should hold the key is not set.
        """
        self._config = config
        self._engine = engine
        self._addresses = list_addresses(config.base_url)
        self._api_key = api_key or self._read_api_key()
        self._use_proxies = use_proxies
        self._check_models = check_models
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: list[AsyncOpenAI] = []
        self._first_check: asyncio.Task[None] | None = None
        self._closed = False
        self.pool = EndpointPool(self._addresses, config.max_in_flight, self._probe, engine)

    @property
    def capacity(self) -> int:
        """Requests that all servers together may have in flight."""
        return self._config.max_in_flight * len(self._addresses)

    def run(self, start: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run a coroutine on the client's event loop and return its result; what it started ends with it.

        Raises:
            EngineSetupError: the engine was closed before or meanwhile.
        """
        future = self._submit(start)
        try:
            return future.result()
        except concurrent.futures.CancelledError as exc:
            raise EngineSetupError(f"{self._engine} {self._config.model!r} was closed while it answered") from exc
        except BaseException:
            future.cancel()
            raise

    @asynccontextmanager
    async def take_slot(self, home: int = 0) -> AsyncIterator[Slot]:
        """Hold room at a server, rather the one that is `home`, while a request and what is tried again for it runs.

        Before the first one, all servers are probed once.

        Raises:
            EngineUnavailableError: no server can be reached, after all retries.
            EngineSetupError: a server that can be reached serves other models.
        """
        if self._check_models:
            if self._first_check is None:
                self._first_check = asyncio.create_task(self._check_servers())
            await asyncio.shield(self._first_check)
        slot = Slot(home)
        try:
            await self._occupy(slot, None)
            yield slot
        finally:
            self._vacate(slot)

    async def complete(
        self, slot: Slot, read: Callable[[ChatCompletion], _T], *, seed: int, **body: Any
    ) -> _T | RowFault:
        """Ask for one completion and return what `read` makes of it, or the fault `request_refused`.

        Overload, server errors, timeouts and lost connections are tried again up to `max_retries` times, at another
        server if there is one, with growing pauses or those that the server asks for. `read` may take for granted that
        the answer is a completion.

        Raises:
            EngineUnavailableError: no server can be reached, or they are overloaded, after all retries.
            EngineSetupError: the key, the model or the address is not accepted.
            EngineError: anything else that the client reports.
        """
        import openai

        # A server that is lost costs no retry where another can take over.
        spare = self._config.max_retries + len(self._addresses) - 1
        while True:
            endpoint = slot.endpoint
            assert endpoint is not None
            try:
                completion: ChatCompletion = await self._clients[endpoint.number].chat.completions.create(
                    model=self._config.model, seed=seed % _SEED_MODULUS, **body
                )
                break
            except (openai.APIConnectionError, openai.APIStatusError) as exc:
                error = self._explain(exc, endpoint)
                if isinstance(error, RowFault):
                    return error
                if not error.retryable or spare == 0:
                    raise error from exc
                tries = self._config.max_retries + len(self._addresses) - 1 - spare
                spare -= 1
                await self._look_elsewhere(slot, exc, endpoint, measure_pause(exc, tries, seed))
            except openai.OpenAIError as exc:
                raise EngineError(f"{self._name(endpoint)} failed ({_shorten(str(exc))})") from exc
            except ValueError as exc:
                raise EngineSetupError(self._say_no_completion(endpoint)) from exc
        try:
            result = read(completion)
            _count(endpoint, completion)
        except (AttributeError, IndexError, TypeError) as exc:  # the client does not validate what it was sent
            raise EngineSetupError(self._say_no_completion(endpoint)) from exc
        return result

    def close(self) -> None:
        """Cancel what is in flight, close the connections and end the thread; a second call does nothing."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    # ---- where a request goes --------------------------------------------------------------------------------

    async def _check_servers(self) -> None:
        faults = await self.pool.check_all()
        for endpoint, fault in zip(self.pool.endpoints, faults, strict=True):
            if fault is not None and fault.other_model:
                raise EngineSetupError(f"{self._name(endpoint)}: {fault.text}; check `model` and `base_url`")

    async def _occupy(self, slot: Slot, avoid: Endpoint | None) -> None:
        for tries in range(self._config.max_retries + 1):
            slot.endpoint = await self.pool.take(slot.home, avoid)
            if slot.endpoint is not None:
                return
            if tries < self._config.max_retries:
                await self.pool.wait_for_any(pause_before_retry(tries))
        if len(self._addresses) == 1:
            raise EngineUnavailableError(
                f"{self._engine} at {self.pool.describe_faults()}; is it running at this address?"
            )
        raise EngineUnavailableError(
            f"{self._engine}: none of its {len(self._addresses)} addresses can be used ({self.pool.describe_faults()})"
        )

    def _vacate(self, slot: Slot) -> None:
        if slot.endpoint is not None:
            self.pool.put_back(slot.endpoint)
            slot.endpoint = None

    async def _look_elsewhere(self, slot: Slot, exc: Exception, endpoint: Endpoint, pause_s: float) -> None:
        """Make room for another try after a failure, at another server if there is one."""
        import openai

        if isinstance(exc, openai.APITimeoutError):
            self.pool.doubt(endpoint)
        elif isinstance(exc, openai.APIConnectionError):
            self.pool.leave_out(endpoint, f"it cannot be reached ({name_cause(exc)})")
        else:
            if len(self._addresses) > 1:
                self.pool.doubt(endpoint)
            await asyncio.sleep(pause_s)  # the room stays occupied: an overloaded server gets less to do
        self._vacate(slot)
        await self._occupy(slot, endpoint)

    async def _probe(self, endpoint: Endpoint) -> EndpointFault | None:
        return await probe_server(self._clients[endpoint.number], endpoint.address, self._config.model)

    # ---- what its errors mean --------------------------------------------------------------------------------

    def _explain(
        self, exc: openai.APIConnectionError | openai.APIStatusError, endpoint: Endpoint
    ) -> RowFault | EngineError:
        import openai

        config, server = self._config, self._name(endpoint)
        if isinstance(exc, openai.APITimeoutError):
            return EngineUnavailableError(
                f"{server} gave no answer within {config.timeout_s:g} s, {config.max_retries} retries "
                "included; raise `timeout_s` or lower `max_in_flight`"
            )
        if isinstance(exc, openai.APIConnectionError):
            return EngineUnavailableError(f"{server} cannot be reached; is it running at this address?")
        status, said = exc.status_code, _shorten(exc.message)
        if status in (401, 403):
            return EngineSetupError(f"{server}: the key is not accepted ({status}); {self._name_key()}")
        if status == 404:
            return EngineSetupError(
                f"{server}: no model {config.model!r} or no such address; check `model` and that `base_url` ends "
                f"in /v1 ({said})"
            )
        if status in (400, 413, 422):
            return RowFault("request_refused", said)
        if status in (408, 409, 429) or status >= 500:
            return EngineUnavailableError(f"{server} answers {status} after {config.max_retries} retries ({said})")
        return EngineSetupError(f"{server} answers {status} ({said})")

    def _name(self, endpoint: Endpoint) -> str:
        return f"{self._engine} at {endpoint.address}"

    def _say_no_completion(self, endpoint: Endpoint) -> str:
        return f"{self._name(endpoint)} answers with no chat completion; check `base_url`"

    def _read_api_key(self) -> str:
        name = self._config.api_key_env
        if name is None:
            return "none"
        key = os.environ.get(name, "")
        if not key:
            raise EngineSetupError(f"{self._engine} at {self._addresses[0]}: set the environment variable {name}")
        return key

    def _name_key(self) -> str:
        if self._config.api_key_env is None:
            return "name the environment variable that holds it in `api_key_env`"
        return f"put a valid one into the environment variable {self._config.api_key_env}"

    # ---- connections -----------------------------------------------------------------------------------------

    def _submit(self, start: Callable[[], Coroutine[Any, Any, _T]]) -> concurrent.futures.Future[_T]:
        with self._lock:
            if self._closed:
                raise EngineSetupError(f"{self._engine} {self._config.model!r} was closed and cannot be called again")
            if self._loop is None:
                self._open_clients()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="openai-client", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(start(), self._loop)

    def _open_clients(self) -> None:
        import openai

        # A pool of connections each: one for all would be too small for many servers.
        self._clients = [
            openai.AsyncOpenAI(
                base_url=address,
                api_key=self._api_key,
                timeout=self._config.timeout_s,
                max_retries=0,  # `complete` tries again, elsewhere if it can
                http_client=openai.DefaultAsyncHttpxClient(trust_env=self._use_proxies),
            )
            for address in self._addresses
        ]

    async def _shut_down(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for client in self._clients:
            await client.close()


async def run_together(coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines at once to their end; when one fails, the others are cancelled before the failure is raised.

    What fails one is no fault of a row and ends the batch: the others must not go on behind the caller.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _count(endpoint: Endpoint, completion: ChatCompletion) -> None:
    endpoint.answered += 1
    if (usage := completion.usage) is not None:
        endpoint.prompt_tokens += usage.prompt_tokens
        endpoint.completion_tokens += usage.completion_tokens
        details = usage.prompt_tokens_details
        endpoint.cached_tokens += (details.cached_tokens or 0) if details is not None else 0


def _shorten(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 300 else line[:297] + "..."
