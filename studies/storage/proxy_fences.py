"""Fences across the gRPC proxy: a client sends the leases that its writes require, and the server checks them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import grpc

from studies.database.fencing import Fence, LeaseLostError, current, fenced

_HEADER = "finder-fence"


def fence_metadata() -> list[tuple[str, str]]:
    """Return the metadata with which a call sends the fence of this thread; see `lost_leases`."""
    fence = current()
    return [] if fence is None else [(_HEADER, _as_text(fence))]


class ServerFences(grpc.ServerInterceptor):  # type: ignore[misc]
    """Interceptor that handles each call within the fence that was sent with it."""

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        text = dict(details.invocation_metadata).get(_HEADER)
        if text is None:
            return handler
        fence = _of_text(text)

        def answer(call: Callable[[Any, Any], Any], request: Any, context: Any) -> Any:
            try:
                with fenced(fence):
                    return call(request, context)
            except LeaseLostError as error:
                context.abort(grpc.StatusCode.ABORTED, json.dumps([str(error), sorted(error.numbers)]))

        return around(handler, answer)


def around(handler: Any, answer: Callable[[Callable[[Any, Any], Any], Any, Any], Any]) -> Any:
    """Return a gRPC handler whose calls are made by `answer(call, request, context)`; others stay as they are."""
    if handler is None or handler.unary_unary is None:
        return handler
    return grpc.unary_unary_rpc_method_handler(
        functools.partial(answer, handler.unary_unary), handler.request_deserializer, handler.response_serializer
    )


def lost_leases(error: Any) -> LeaseLostError | None:
    """Return the error that a server sent with the error of a call; None for other errors.

    A load balancer or another program may have aborted the call.
    """
    if not isinstance(error, grpc.RpcError) or error.code() != grpc.StatusCode.ABORTED:
        return None
    try:
        message, numbers = json.loads(error.details())
        return LeaseLostError(message, frozenset(numbers))
    except (ValueError, TypeError):
        return None


def _as_text(fence: Fence) -> str:
    return json.dumps([fence.study, fence.owner, list(fence.epochs.items())])


def _of_text(text: str) -> Fence:
    study, owner, epochs = json.loads(text)
    return Fence(study, owner, dict(epochs))
