"""Values that are worked out when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached(Generic[Value]):  # noqa: N801 - a decorator, like property
    """A property that is worked out once; as `functools.cached_property`, without the lock of Python 3.11.

    Two threads that ask at the same time may both work it out, so it must come out the same.

    Examples
    --------
    >>> class Order:
    ...     @cached
    ...     def shares(self) -> int:
    ...         print("counting")
    ...         return 300
    >>> order = Order()
    >>> order.shares, order.shares
    counting
    (300, 300)
    """

    def __init__(self, work: Callable[[Any], Value]) -> None:
        self._work, self._name, self.__doc__ = work, work.__name__, work.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type[Any]) -> Value: ...

    def __get__(self, owner: object | None, kind: type[Any]) -> Self | Value:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work(owner)
        return value
