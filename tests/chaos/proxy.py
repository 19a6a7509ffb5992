"""A proxy on loopback between clients and the S3 server. It disturbs requests like a faulty network or a busy store."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from aiohttp import ClientSession, DummyCookieJar, web
from multidict import CIMultiDict
from yarl import URL

from tests.chaos.log import Log

_HOP_BY_HOP = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})
"""Headers of a single connection, which are not forwarded."""

_LARGEST_BODY = 2**30
_SLOW_S = (0.5, 3.0)
_THROTTLED_PIECES, _THROTTLED_PAUSE_S = 8, 0.15
_STARTING_S = 30

Act = Callable[["FaultProxy", web.Request, Random], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Disturbance:
    """A kind of disturbance: its description, its action, and the methods of the requests to which it applies."""

    description: str
    act: Act
    methods: str = "GET HEAD POST PUT DELETE"


@dataclass(frozen=True)
class Weather:
    """The active disturbances, the fraction of disturbed requests, and whether enough faults were injected."""

    kinds: Sequence[str] = ()
    rate: float = 0.0
    seed: str = ""
    enough: Callable[[], bool] = lambda: True


class FaultProxy:
    """A proxy that forwards requests to ``target``. Runs in its own thread until it is closed.

    The disturbance of a request depends on the seed, the request and its number of repetitions, not on the order in
    which workers send their requests.
    """

    def __init__(self, target: str, log: Log) -> None:
        """Start the proxy.

        Raises:
            TimeoutError: The proxy does not start.
        """
        self._target = target
        self._log = log
        self._weather = Weather()
        self._unavailable_until = 0.0
        self._made: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.endpoint = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_STARTING_S)

    def disturb(self, weather: Weather) -> None:
        """Set the disturbances. ``Weather()`` disables them."""
        self._made.clear()
        self._weather = weather

    def make_unavailable(self, seconds: float) -> None:
        """Answer every request with 503 for a time."""
        self._unavailable_until = time.monotonic() + seconds

    def close(self) -> None:
        """Stop the proxy and its open requests."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_STARTING_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STARTING_S)
        self._loop.close()

    async def forward(self, request: web.Request) -> tuple[int, CIMultiDict[str], bytes]:
        """Forward a request. Return status, headers and body of the response."""
        body = await request.read() if request.body_exists else None
        async with self._session.request(
            request.method,
            URL(self._target + request.raw_path, encoded=True),
            headers=_forwarded(request.headers),
            data=body,
            allow_redirects=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as answer:
            return answer.status, _forwarded(answer.headers), await answer.read()

    async def _start(self) -> str:
        self._session = ClientSession(auto_decompress=False, cookie_jar=DummyCookieJar())
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if time.monotonic() < self._unavailable_until:
            return await _slow_down(self, request, Random())
        name = f"{request.method} {request.raw_path}"
        self._made[name] += 1
        random = Random(f"{self._weather.seed} {name} {self._made[name]}")
        kind = self._kind(request, random)
        act = _undisturbed if kind is None else DISTURBANCES[kind].act
        if kind is not None:
            self._log.add(kind, name)
        try:
            return await act(self, request, random)
        except ConnectionError:  # the client has been killed
            return cut(request)

    def _kind(self, request: web.Request, random: Random) -> str | None:
        weather = self._weather
        if random.random() >= weather.rate or weather.enough():
            return None
        applicable = [kind for kind in weather.kinds if request.method in DISTURBANCES[kind].methods.split()]
        return random.choice(applicable) if applicable else None


def _forwarded(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)


async def _undisturbed(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    status, headers, body = await proxy.forward(request)
    return web.Response(status=status, headers=headers, body=body)


async def _refused(request: web.Request, status: int, code: str) -> web.StreamResponse:
    await request.read()
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{code}</Message></Error>'
    return web.Response(status=status, text=text, content_type="application/xml")


async def _internal_error(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    return await _refused(request, 500, "InternalError")


async def _slow_down(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    return await _refused(request, 503, "SlowDown")


async def _slow(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    await asyncio.sleep(random.uniform(*_SLOW_S))
    return await _undisturbed(proxy, request, random)


async def _throttled(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    status, headers, body = await proxy.forward(request)
    answer = web.StreamResponse(status=status, headers=headers)
    await answer.prepare(request)
    step = -(-len(body) // _THROTTLED_PIECES) or 1
    for start in range(0, len(body), step):
        await answer.write(body[start : start + step])
        await asyncio.sleep(_THROTTLED_PAUSE_S)
    return answer


async def _cut_upload(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    await request.content.read(max(1, (request.content_length or 0) // 2))
    return cut(request)


async def _lost_answer(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    await proxy.forward(request)
    return cut(request)


async def _cut_download(proxy: FaultProxy, request: web.Request, random: Random) -> web.StreamResponse:
    status, headers, body = await proxy.forward(request)
    answer = web.StreamResponse(status=status, headers=headers)
    await answer.prepare(request)
    await answer.write(body[: len(body) // 2])
    return cut(request)


def cut(request: web.Request) -> web.StreamResponse:
    """Abort the connection. The returned response is never sent."""
    if request.transport:
        request.transport.abort()
    return web.Response()


DISTURBANCES: Mapping[str, Disturbance] = {
    "s3-500": Disturbance("S3 answers 500 InternalError", _internal_error),
    "s3-503": Disturbance("S3 answers 503 SlowDown", _slow_down),
    "s3-slow": Disturbance("S3 answers 0.5 to 3 seconds later", _slow),
    "s3-throttled": Disturbance("a response arrives in eight pieces over a second", _throttled, "GET"),
    "s3-cut-upload": Disturbance("the connection is cut during an upload", _cut_upload, "PUT"),
    "s3-cut-download": Disturbance("the connection is cut during a download", _cut_download, "GET"),
    "s3-lost-answer": Disturbance(
        "S3 stores or removes an object, but the connection is cut before the response", _lost_answer, "POST PUT DELETE"
    ),
}
"""The disturbances by kind of fault."""
