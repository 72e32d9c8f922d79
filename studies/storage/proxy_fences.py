"""Fences across the gRPC proxy: a client sends the leases that its writes require, and the server checks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from studies.database.fencing import Fence, LeaseLostError, current, fenced

if TYPE_CHECKING:
    import grpc

_HEADER = "finder-fence"


def client_fences() -> grpc.UnaryUnaryClientInterceptor:
    """Return an interceptor that sends the fence of the thread with each call."""
    import grpc

    class Sending(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]
        def intercept_unary_unary(
            self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
        ) -> Any:
            fence = current()
            if fence is None:
                return continuation(client_call_details, request)
            metadata = [*(client_call_details.metadata or ()), (_HEADER, _as_text(fence))]
            call = continuation(client_call_details._replace(metadata=metadata), request)
            lost = _lost(call.details()) if call.code() == grpc.StatusCode.ABORTED else None
            if lost is not None:
                raise lost
            return call

    return Sending()


def server_fences() -> grpc.ServerInterceptor:
    """Return an interceptor that handles each call within the fence that was sent with it."""
    import grpc

    class Checking(grpc.ServerInterceptor):  # type: ignore[misc]
        def intercept_service(
            self, continuation: Callable[[Any], grpc.RpcMethodHandler | None], handler_call_details: Any
        ) -> grpc.RpcMethodHandler | None:
            handler = continuation(handler_call_details)
            text = dict(handler_call_details.invocation_metadata).get(_HEADER)
            if handler is None or text is None or handler.unary_unary is None:
                return handler
            fence, answer = _of_text(text), handler.unary_unary

            def within(request: Any, context: grpc.ServicerContext) -> Any:
                try:
                    with fenced(fence):
                        return answer(request, context)
                except LeaseLostError as error:
                    context.abort(grpc.StatusCode.ABORTED, json.dumps([str(error), sorted(error.numbers)]))

            return grpc.unary_unary_rpc_method_handler(
                within, handler.request_deserializer, handler.response_serializer
            )

    return Checking()


def _lost(details: str) -> LeaseLostError | None:
    """Return the error that a server sent, None if a load balancer or another program aborted the call."""
    try:
        message, numbers = json.loads(details)
        return LeaseLostError(message, frozenset(numbers))
    except (ValueError, TypeError):
        return None


def _as_text(fence: Fence) -> str:
    return json.dumps([fence.study, fence.owner, list(fence.epochs.items())])


def _of_text(text: str) -> Fence:
    study, owner, epochs = json.loads(text)
    return Fence(study, owner, dict(epochs))
