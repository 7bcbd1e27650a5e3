"""One thread for PortAudio's blocking calls, which a dead sound server can hold for ever."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from app.transports.microphone.devices import DeviceError, portaudio

_REACH_S = 5.0

_T = TypeVar("_T")


def reach_sound_system(timeout_s: float = _REACH_S) -> None:
    """Make PortAudio look for devices; later questions about them are answered from memory.

    Raises NoDeviceError without PortAudio, DeviceError if the sound server gives no answer: ask nothing else then, it
    would wait for the same answer. Not on an event loop.
    """
    answered: Future[None] = Future()

    def work() -> None:
        try:
            portaudio()
        except BaseException as error:
            answered.set_exception(error)
        else:
            answered.set_result(None)

    with _standard_error_back():
        # Not on this thread: signals are not handled in a call that never returns.
        threading.Thread(target=work, name="parley-sound-begin", daemon=True).start()
        try:
            answered.result(timeout_s)
        except TimeoutError as error:
            raise _unanswered(timeout_s) from error


@contextmanager
def _standard_error_back() -> Iterator[None]:
    """sounddevice sends it to /dev/null while it begins, and nobody would learn that it never ends."""
    try:
        before = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _unanswered(timeout_s: float) -> DeviceError:
    return DeviceError(
        f"The sound system did not answer within {timeout_s:g} s. Restart the sound server "
        "(`systemctl --user restart pipewire pulseaudio`) or unplug the device and plug it in again."
    )


class DeviceThread:
    """Runs calls one after the other. A daemon, so that a call that never returns cannot keep the program alive."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="parley-sound", daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], _T], *, timeout_s: float) -> _T:
        """``function()`` on the thread. Raises what it raises, and DeviceError after ``timeout_s``."""
        future: Future[_T] = Future()
        self._calls.put((function, future))
        try:
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the result.
            async with asyncio.timeout(timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            raise _unanswered(timeout_s) from error

    def post(self, function: Callable[[], None]) -> None:
        """Run ``function`` after what is already waiting; nobody learns what it raises."""
        self._calls.put((function, Future()))

    def stop(self) -> None:
        """End the thread once it has done what it was given. Does not wait."""
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            function, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                with suppress(Exception):  # the waiter may have been cancelled meanwhile
                    future.set_result(result)
