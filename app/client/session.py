"""The session itself: events and sound over one WebSocket at a time, taken up again when that is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from app.audio.frames import Pcm
from app.client.address import ServerAddress
from app.client.buffer import NetworkBuffer
from app.client.certificate import UntrustedCertificate
from app.client.errors import ClientError, ServerRefused
from app.dialogue.ports import EventSink, WireEvent
from app.telemetry.log import log_event

_log = logging.getLogger("parley.client")
_OPEN_TIMEOUT_S = 10.0
_PING_S, _PONG_S = 4.0, 5.0
"""A network that is gone says nothing: after 9 s at most it is known."""
_BEAT_S = 5.0
"""The server drops a client that sends nothing for 15 s, as one does who types and has no microphone."""
_FRAMES_WAITING = 100
"""2 s of the microphone; a network that is slower loses the oldest sound."""
_EVENTS_WAITING = 200
_RETRY_S, _LONGEST_RETRY_S = 0.25, 4.0
_KEEP_S = 60.0
"""How long to try, where the server did not say how long it waits."""
_CLOSE_S = 1.0
_LARGEST_MESSAGE = 1 << 20
_BEAT = json.dumps({"type": "parley.ping", "id": "beat"})
_NORMAL, _REPLACED = 1000, 4409
_CODES_FROM = 4000
"""Close codes above it are HTTP's."""
_REASONS = {
    401: "it wants the token that it printed at start: --token, PARLEY_SERVER__TOKEN, or the address with #token=",
    403: "it does not let this program in; add its origin to server.allowed_origins there",
    404: "there is no /call at that address; is it a Parley that can do WebSocket sound?",
    410: "the session was over before we came back",
    421: "it does not answer to that name; add it to server.allowed_origins there",
    429: "it has as many sessions as it takes (server.max_sessions); try again later",
    503: "it has as many sessions as it takes, or is still loading; try again later",
}


class RemoteSession:
    """Implements ConversationPort. All methods belong on the event loop of ``open``.

    When the connection breaks, the session is taken up again with its resume token for as long as the server keeps it;
    ``send`` hears ``parley.state`` "reconnecting" meanwhile. What the microphone hears in between is lost.
    """

    def __init__(
        self,
        address: ServerAddress,
        send: EventSink,
        *,
        options: Mapping[str, Any],
        context: ssl.SSLContext | None,
    ) -> None:
        """Use ``open``."""
        self._address = address
        self._send = send
        self._options = options
        self._context = context
        self._sound = NetworkBuffer()
        self._frames: deque[bytes] = deque(maxlen=_FRAMES_WAITING)
        self._events: deque[str] = deque()
        self._waiting = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._id = ""
        self._token = ""
        self._keep_s = _KEEP_S
        self._heard: dict[str, Any] | None = None
        self._over = asyncio.Event()
        self._replaced = False
        self._runner: asyncio.Task[None] | None = None
        self.reconnects = 0

    @classmethod
    async def open(
        cls,
        address: ServerAddress,
        send: EventSink,
        *,
        options: Mapping[str, Any] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> RemoteSession:
        """Connect and wait until the session can be talked to. ``options`` is a session object (docs/events.md).

        Raises ServerRefused, UntrustedCertificate, ClientError.
        """
        session = cls(address, send, options=options or {}, context=context)
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                socket = await session._connect()
        except TimeoutError as error:
            raise ClientError(
                f"{address.url} does not answer; is the server running, and the address right?"
            ) from error
        session._runner = asyncio.get_running_loop().create_task(session._run(socket), name="remote session")
        return session

    # ConversationPort

    @property
    def id(self) -> str:
        return self._id

    @property
    def resume_token(self) -> str:
        return self._token

    @property
    def replaced(self) -> bool:
        """Whether another client has taken this session up."""
        return self._replaced

    @property
    def underruns(self) -> int:
        """Times that speech broke off because the network was late."""
        return self._sound.gaps

    def push_audio(self, pcm: Pcm) -> None:
        if self._socket is not None:
            self._frames.append(pcm.astype("<i2").tobytes())
            self._waiting.set()

    def pull_audio(self, count: int) -> Pcm:
        return self._sound.pull(count)

    def receive(self, event: WireEvent) -> None:
        if len(self._events) < _EVENTS_WAITING:  # typed faster than the network takes it, for minutes
            self._events.append(json.dumps(event))
            self._waiting.set()

    async def close(self, reason: str) -> None:
        """Hang up: the server ends the session too, if it can still be told."""
        await self._end(hang_up=True)

    async def leave(self) -> None:
        """Go without a word, so that the session waits for its token."""
        await self._end(hang_up=False)

    async def wait_closed(self) -> None:
        await self._over.wait()

    # The connection

    async def _connect(self) -> ClientConnection:
        """A socket on which the session has begun, or been taken up. Raises ClientError and its kin."""
        address = self._address
        try:
            socket = await connect(
                address.websocket_url,
                subprotocols=address.subprotocols,  # type: ignore[arg-type] # a NewType of str
                ssl=(self._context or ssl.create_default_context()) if address.secure else None,
                compression=None,  # sound does not get smaller
                open_timeout=None,
                ping_interval=_PING_S,
                ping_timeout=_PONG_S,
                close_timeout=_CLOSE_S,
                max_size=_LARGEST_MESSAGE,
                proxy=None,
            )
        except InvalidStatus as error:
            raise _refusal(address, error) from error
        except ssl.SSLCertVerificationError as error:
            raise UntrustedCertificate(
                f"{address.url}: its certificate is not signed by anybody this machine trusts ({error.verify_message})."
            ) from error
        except ssl.SSLError as error:
            raise ClientError(f"{address.url} does not speak https ({error.reason}); try http://.") from error
        except (OSError, InvalidHandshake, InvalidURI, EOFError) as error:
            raise ClientError(f"{address.url} cannot be reached: {_words(error)}.") from error
        try:
            start: dict[str, Any] = {"type": "parley.start", "session": {"type": "realtime", **self._options}}
            if self._token:
                start["resume"] = {"token": self._token, "heard": self._heard}
            with contextlib.suppress(ConnectionClosed):  # why is in what it sent before it closed
                await socket.send(json.dumps(start))
            await self._greeted(socket)
        except ConnectionClosed as error:
            raise _closed_early(address, error) from error
        except BaseException:
            socket.transport.abort()
            raise
        self._socket = socket
        return socket

    async def _greeted(self, socket: ClientConnection) -> None:
        """Read until the session is there. Raises ServerRefused if the server says no instead."""
        async for message in socket:
            if isinstance(message, bytes):
                self._sound.push(message)
                continue
            event = json.loads(message)
            if event.get("type") == "error":
                error = event.get("error", {})
                kind = ClientError if "retry_after_s" in error and self._token else ServerRefused
                raise kind(f"{self._address.url}: {self._in_words(str(error.get('message', error)))}")
            self._take(event)
            if event.get("type") == "session.created":
                return
            if event.get("type") == "parley.closed":
                raise ServerRefused(f"{self._address.url} ended the session: {event.get('reason')}.")
        raise ClientError(f"{self._address.url} hung up before the session began.")  # with code 1000

    def _in_words(self, message: str) -> str:
        """A refusal names the key of the session object; whoever chose a voice knows only its name."""
        key, _, there_are = message.partition(": unknown; there are ")
        if key != "session.audio.output.voice":
            return message
        return f"there is no voice {self._options['audio']['output']['voice']!r} on this server; there are: {there_are}"

    async def _run(self, socket: ClientConnection) -> None:
        try:
            while True:
                await self._carry(socket)
                if self._over.is_set():
                    return
                found = await self._reconnect()
                if found is None:
                    return
                socket = found
        except Exception as error:
            log_event(_log, "remote_session_broke", level=logging.ERROR, error=error)
            self._finish("internal_error")

    async def _carry(self, socket: ClientConnection) -> None:
        """Both directions, until the connection ends."""
        sending = asyncio.get_running_loop().create_task(self._send_all(socket))
        try:
            async for message in socket:
                if isinstance(message, bytes):
                    self._sound.push(message)
                else:
                    self._take(json.loads(message))
        except (ConnectionClosed, ValueError) as error:
            log_event(_log, "connection_lost", level=logging.DEBUG, why=str(error))
        finally:
            if socket.close_code in (_NORMAL, _REPLACED):  # and the event that says so was lost
                self._replaced = self._replaced or socket.close_code == _REPLACED
                self._finish("replaced" if self._replaced else "session_ended")
            self._socket = None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            socket.transport.abort()

    async def _send_all(self, socket: ClientConnection) -> None:
        while True:
            try:
                async with asyncio.timeout(_BEAT_S):
                    await self._waiting.wait()
            except TimeoutError:
                await socket.send(_BEAT)
            self._waiting.clear()
            while self._events:
                await socket.send(self._events[0])
                self._events.popleft()  # only now: what a dying connection did not take is said on the next
            while self._frames:
                await socket.send(self._frames.popleft())

    async def _reconnect(self) -> ClientConnection | None:
        self._frames.clear()
        self._sound.clear()
        self._send({"type": "parley.state", "state": "reconnecting"})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._keep_s
        pause_s = _RETRY_S
        why = "connection_lost"
        while loop.time() < deadline and not self._over.is_set():
            try:
                async with asyncio.timeout(_OPEN_TIMEOUT_S):
                    socket = await self._connect()
            except ServerRefused as error:
                why = str(error)
                break
            except (ClientError, TimeoutError):
                await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
                pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
            else:
                self.reconnects += 1
                self._waiting.set()
                return socket
        self._finish(why)
        return None

    def _take(self, event: WireEvent) -> None:
        match event.get("type"):
            case "parley.pong":
                return
            case "session.created":
                session = event.get("session", {})
                self._id = str(session.get("id", ""))
                resume = session.get("resume") or {}
                self._token = str(resume.get("token", ""))
                self._keep_s = float(resume.get("keep_s", _KEEP_S))
            case "parley.heard":
                self._heard = {"response_id": event.get("response_id"), "chars": event.get("chars")}
            case "parley.closed":
                self._replaced = event.get("reason") == "replaced"
                self._over.set()
        self._send(event)

    def _finish(self, reason: str) -> None:
        if not self._over.is_set():
            self._over.set()
            self._send({"type": "parley.closed", "reason": reason})

    async def _end(self, *, hang_up: bool) -> None:
        self._over.set()
        socket = self._socket
        if socket is not None:
            if hang_up:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_S):
                        await socket.close(1000)
            socket.transport.abort()
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)


def _refusal(address: ServerAddress, error: InvalidStatus) -> ClientError:
    status = error.response.status_code
    reason = _REASONS.get(status, f"it answered {status}")
    return ServerRefused(f"{address.url}: {reason}.")


def _closed_early(address: ServerAddress, error: ConnectionClosed) -> ClientError:
    code = error.rcvd.code - _CODES_FROM if error.rcvd is not None else 0
    if code in _REASONS:
        return ServerRefused(f"{address.url}: {_REASONS[code]}.")
    return ClientError(f"{address.url} hung up before the session began.")


def _words(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.rstrip(".") or type(error).__name__
