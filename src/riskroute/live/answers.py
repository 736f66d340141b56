"""Answers that somebody waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

Value = TypeVar("Value")

_LOCK = threading.Lock()


class Awaited(Protocol[Value]):
    """What a future and an `Answer` have in common."""

    def set_result(self, result: Value, /) -> None:
        """Give the value."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Say why there is none."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call a function with this object, once there is a value or a reason; at once if there is."""

    def exception(self) -> BaseException | None:
        """The reason why there is no value, if there is none."""

    def result(self) -> Value:
        """The value."""


class Answer(Generic[Value]):
    """A cheap future that supports callbacks only; threads cannot block on it.

    Value and reason may be asked for in callbacks.

    Examples
    --------
    >>> answer, told = Answer[int](), []
    >>> answer.add_done_callback(lambda done: told.append(done.result()))
    >>> answer.set_result(7)
    >>> answer.add_done_callback(lambda done: told.append(done.exception()))
    >>> told
    [7, None]
    """

    __slots__ = ("_callbacks", "_reason", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Any], object]] | None = []
        self._reason: BaseException | None = None
        self._value: Value

    def set_result(self, result: Value, /) -> None:
        """Give the value."""
        self._value = result
        self._tell()

    def set_exception(self, exception: BaseException, /) -> None:
        """Say why there is none."""
        self._reason = exception
        self._tell()

    def _tell(self) -> None:
        with _LOCK:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call a function with this object, once there is a value or a reason; at once if there is."""
        with _LOCK:
            if self._callbacks is not None:
                self._callbacks.append(fn)
                return
        fn(self)

    def exception(self) -> BaseException | None:
        """The reason why there is no value, if there is none."""
        return self._reason

    def result(self) -> Value:
        """The value."""
        if self._reason is not None:
            raise self._reason
        return self._value


def pass_on(answer: Awaited[Value], done: Awaited[Value]) -> None:
    """Give to one what came to another."""
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)
