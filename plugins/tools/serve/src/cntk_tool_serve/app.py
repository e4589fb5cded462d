"""The pages and addresses of a server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib import resources
from typing import Any

import attrs
import numpy as np
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from cntk_core.api import CntkError, Input, NetworkError, Node, show
from cntk_core.api.engines import looked_along, make_plan
from cntk_core.api.training import Model
from cntk_tool_serve.batching import Batcher, Overload, TooLate
from cntk_tool_serve.requests import ARROW, arrow_of, inputs_of, json_of, parse_arrow, parse_json

RETRY = "1"
"""Seconds after which somebody who was sent away may come again."""

_ANY_SIZE = 64
"""Size of zeros along a dimension that each request brings."""


@attrs.frozen
class Limits:
    """What a server takes.

    Attributes:
        batch: samples, or sequences, computed together; of one request there may be more.
        queue: requests that wait.
        body: bytes of a request.
        timeout: seconds that a request waits.
    """

    batch: int = 256
    queue: int = 512
    body: int = 16_000_000
    timeout: float = 30.0


class Service:
    """A model behind HTTP.

    Args:
        model: the model.
        names: nodes that are computed; empty are its outputs.
        title: how the page calls it.
        limits: what is taken.

    Raises:
        NetworkError: there is no such node, or no output is marked.
    """

    def __init__(self, model: Model, names: Sequence[str], title: str, limits: Limits) -> None:
        network = model.network
        self.nodes: tuple[Node, ...] = tuple(network[name] for name in names) or tuple(network.roots["output"])
        if not self.nodes:
            raise NetworkError("the model marks no output", hint="Name the nodes whose values you want: --node NAME.")
        order = network.order(self.nodes, stop_at_constants=True)
        self.inputs = [node for node in order if isinstance(node, Input)]
        self._along = looked_along(make_plan(network, self.nodes))
        self._model, self._title, self._limits = model, title, limits
        self._batcher: Batcher | None = None

    def check(self) -> str:
        """Compute a sample of zeros, and return what goes in and comes out.

        Raises:
            CntkError: the model cannot be computed.
        """
        self._model.evaluate({node.name: self._zeros(node) for node in self.inputs}, [node.name for node in self.nodes])
        sides = [
            ", ".join(f"{node.name} {show(node.known_shape)}" for node in some) for some in (self.inputs, self.nodes)
        ]
        return f"{sides[0] or 'nothing'} -> {sides[1]}"

    def _zeros(self, node: Input) -> Any:
        """Zeros for an input: a sample, a sequence of one where sequences are wanted, or its only value."""
        sample = np.zeros([size if size > 0 else _ANY_SIZE for size in node.known_shape])
        if not node.framed:
            return sample
        return [sample[None]] if node.axis in self._along else sample[None]

    def app(self) -> Starlette:
        """Return the application, for any server of ASGI."""
        routes = [
            Route("/", self._page),
            Route("/health", self._health),
            Route("/model", self._about),
            Route("/predict", self._predict, methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        limits = self._limits
        names = [node.name for node in self.nodes]
        most = limits.batch if all(node.framed for node in self.inputs) else 1  # a value of all samples is of a request
        self._batcher = Batcher(self._model, names, most=most, queue=limits.queue, timeout=limits.timeout)
        try:
            yield
        finally:
            self._batcher.close()

    async def _page(self, _request: Request) -> Response:
        return HTMLResponse(resources.files("cntk_tool_serve").joinpath("page.html").read_text(encoding="utf-8"))

    async def _health(self, _request: Request) -> Response:
        batcher = self._batcher
        assert batcher is not None
        full = batcher.waiting >= self._limits.queue
        said = {
            "status": "overloaded" if full else "ok",
            "waiting": batcher.waiting,
            "requests": batcher.requests,
            "batches": batcher.batches,
        }
        return JSONResponse(said, 503 if full else 200)

    async def _about(self, _request: Request) -> Response:
        def told(node: Node) -> dict[str, Any]:
            shape = [size if size > 0 else None for size in node.known_shape]
            takes = "samples" if node.framed else "value"
            if node.framed and node.axis in self._along:
                takes = "sequences"
            return {"name": node.name, "shape": shape, "takes": takes, "sparse": getattr(node, "sparse", False)}

        limits = {"batch": self._limits.batch, "queue": self._limits.queue, "body": self._limits.body}
        return JSONResponse(
            {
                "model": self._title,
                "inputs": list(map(told, self.inputs)),
                "outputs": list(map(told, self.nodes)),
                "limits": limits,
            }
        )

    async def _predict(self, request: Request) -> Response:
        assert self._batcher is not None
        try:
            body = await self._body(request)
            if body is None:
                return _refused(413, f"the request is longer than {self._limits.body} bytes")
            arrow = request.headers.get("content-type", "").split(";")[0].strip().lower() == ARROW
            content = parse_arrow(body, self.inputs) if arrow else parse_json(body)
            inputs, count = inputs_of(content, self.inputs)
            outputs = await self._batcher(inputs, count)
            if arrow or ARROW in request.headers.get("accept", ""):
                return Response(arrow_of(outputs), media_type=ARROW)
            return Response(json_of(outputs), media_type="application/json")
        except Overload:
            return _refused(503, f"{self._limits.queue} requests wait already", {"Retry-After": RETRY})
        except TooLate:
            return _refused(503, f"the request has waited {self._limits.timeout:g} s", {"Retry-After": RETRY})
        except ClientDisconnect:
            return Response(status_code=499)
        except CntkError as error:
            return _refused(400, str(error))

    async def _body(self, request: Request) -> bytes | None:
        """The request's body; None if it is too long."""
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._limits.body:
                return None
            parts.append(part)
        return b"".join(parts)


def _named(nodes: Sequence[Node]) -> str:
    return ", ".join(f"{node.name} {show(node.known_shape)}" for node in nodes)


def _refused(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers=headers)
