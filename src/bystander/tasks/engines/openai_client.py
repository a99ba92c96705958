"""What all engines behind an OpenAI-compatible endpoint share: the connection, retries, and what its errors mean."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bystander.schemas.engines import RowFault
from bystander.schemas.errors import EngineError, EngineSetupError, EngineUnavailableError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

_T = TypeVar("_T")

_SEED_MODULUS = 2**31
"""Seeds of a build have 63 bits; llama.cpp takes 32 and reads 2**32 - 1 as "any"."""


class EndpointConfig(Protocol):
    """What a configuration says about the server."""

    @property
    def base_url(self) -> str: ...

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


class ChatClient:
    """Chat completions of one model, called concurrently with at most `max_in_flight` requests.

    Its event loop runs in a thread of its own, which starts at the first call and ends with `close()`. So the bound
    and the connections are shared by all threads that call `run`, and a caller may run an event loop itself.
    """

    def __init__(self, config: EndpointConfig, engine: str, *, use_proxies: bool = True) -> None:
        """Take the settings; nothing is contacted yet.

        `engine` is what messages call the engine, `use_proxies` is False for servers on this machine.

        Raises:
            EngineSetupError: the environment variable that should hold the key is not set.
        """
        self._config = config
        self._engine = engine
        self._api_key = self._read_api_key()
        self._use_proxies = use_proxies
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: AsyncOpenAI | None = None
        self._closed = False
        self.in_flight = asyncio.Semaphore(config.max_in_flight)
        """To be held around a request, and all that is tried again for it."""

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

    async def complete(self, read: Callable[[ChatCompletion], _T], *, seed: int, **body: Any) -> _T | RowFault:
        """Ask for one completion and return what `read` makes of it, or the fault `request_refused`.

        Overload, server errors, timeouts and lost connections are tried again up to `max_retries` times, with growing
        pauses or those that the server asks for. `read` may take for granted that the answer is a completion.

        Raises:
            EngineUnavailableError: the server cannot be reached or is overloaded, after all retries.
            EngineSetupError: the key, the model or the address is not accepted.
            EngineError: anything else that the client reports.
        """
        import openai

        assert self._client is not None
        config = self._config
        server = f"{self._engine} at {config.base_url}"
        try:
            completion: ChatCompletion = await self._client.chat.completions.create(
                model=config.model, seed=seed % _SEED_MODULUS, **body
            )
        except (openai.AuthenticationError, openai.PermissionDeniedError) as exc:
            raise EngineSetupError(
                f"{server}: the key is not accepted ({exc.status_code}); {self._name_key()}"
            ) from exc
        except openai.NotFoundError as exc:
            raise EngineSetupError(
                f"{server}: no model {config.model!r} or no such address; check `model` and that `base_url` ends "
                f"in /v1 ({_shorten(exc.message)})"
            ) from exc
        except (openai.BadRequestError, openai.UnprocessableEntityError) as exc:
            return RowFault("request_refused", _shorten(exc.message))
        except openai.APIStatusError as exc:
            if exc.status_code == 413:
                return RowFault("request_refused", _shorten(exc.message))
            if exc.status_code in (408, 409, 429) or exc.status_code >= 500:
                raise EngineUnavailableError(
                    f"{server} answers {exc.status_code} after {config.max_retries} retries ({_shorten(exc.message)})"
                ) from exc
            raise EngineSetupError(f"{server} answers {exc.status_code} ({_shorten(exc.message)})") from exc
        except openai.APITimeoutError as exc:
            raise EngineUnavailableError(
                f"{server} gave no answer within {config.timeout_s:g} s, {config.max_retries} retries "
                "included; raise `timeout_s` or lower `max_in_flight`"
            ) from exc
        except openai.APIConnectionError as exc:
            raise EngineUnavailableError(f"{server} cannot be reached; is it running at this address?") from exc
        except openai.OpenAIError as exc:
            raise EngineError(f"{server} failed ({_shorten(str(exc))})") from exc
        except ValueError as exc:
            raise EngineSetupError(f"{server} answers with no chat completion; check `base_url`") from exc
        try:
            return read(completion)
        except (AttributeError, IndexError, TypeError) as exc:  # the client does not validate what it was sent
            raise EngineSetupError(f"{server} answers with no chat completion; check `base_url`") from exc

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

    def _submit(self, start: Callable[[], Coroutine[Any, Any, _T]]) -> concurrent.futures.Future[_T]:
        with self._lock:
            if self._closed:
                raise EngineSetupError(f"{self._engine} {self._config.model!r} was closed and cannot be called again")
            if self._loop is None:
                self._client = self._open_client()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="openai-client", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(start(), self._loop)

    def _open_client(self) -> AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            base_url=self._config.base_url,
            api_key=self._api_key,
            timeout=self._config.timeout_s,
            max_retries=self._config.max_retries,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=self._use_proxies),
        )

    async def _shut_down(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    def _read_api_key(self) -> str:
        name = self._config.api_key_env
        if name is None:
            return "none"
        key = os.environ.get(name, "")
        if not key:
            raise EngineSetupError(f"{self._engine} at {self._config.base_url}: set the environment variable {name}")
        return key

    def _name_key(self) -> str:
        if self._config.api_key_env is None:
            return "name the environment variable that holds it in `api_key_env`"
        return f"put a valid one into the environment variable {self._config.api_key_env}"


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


def _shorten(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 300 else line[:297] + "..."
