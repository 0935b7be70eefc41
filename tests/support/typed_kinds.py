"""Handlers with payloads of every sort, and long ones, in the loop, in threads and in processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypedDict

import msgspec
import pydantic

from pybatchq import Job, Registry

Place = Literal["loop", "thread", "process"]

registry = Registry()


@dataclass
class Data:
    text: str
    number: int = 1


class Struct(msgspec.Struct):
    text: str
    number: int = 1


class Typed(TypedDict):
    text: str
    number: int


class Model(pydantic.BaseModel):
    text: str
    number: int = 1


def data(payload: Data) -> Any:
    return [type(payload).__name__, asdict(payload)]


def struct(payload: Struct) -> Any:
    return [type(payload).__name__, msgspec.to_builtins(payload)]


def typed(payload: Typed) -> Any:
    return [type(payload).__name__, dict(payload)]


def model(payload: Model) -> Any:
    return [type(payload).__name__, payload.model_dump()]


async def data_async(payload: Data) -> Any:
    return data(payload)


async def struct_async(payload: Struct) -> Any:
    return struct(payload)


async def typed_async(payload: Typed) -> Any:
    return typed(payload)


async def model_async(payload: Model) -> Any:
    return model(payload)


def long(payload: Any, job: Job) -> None:
    """Says how far it has come, and runs until it is told to stop."""
    for number in range(3):
        job.progress({"at": number})
    while True:
        job.check()
        time.sleep(0.01)


async def long_async(payload: Any, job: Job) -> None:
    for number in range(3):
        job.progress({"at": number})
    await asyncio.Event().wait()


SORTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "data": (data, data_async),
    "struct": (struct, struct_async),
    "typed": (typed, typed_async),
    "model": (model, model_async),
    "long": (long, long_async),
}
PLACES: tuple[Place, ...] = ("loop", "thread", "process")

for sort, (plain, coroutine) in SORTS.items():
    for place in PLACES:
        function = coroutine if place == "loop" else plain
        registry.handler(f"{sort} {place}", runs_in=place)(function)
