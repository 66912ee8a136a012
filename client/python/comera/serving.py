"""Answers of models on the cluster's workers."""

from __future__ import annotations

import dataclasses
import socket
import time
from typing import TYPE_CHECKING, Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import grpc

from comera._calls import pause_before
from comera._channel import open_channel, stays_here
from comera._proto import predict_service_pb2
from comera._stubs import stub
from comera.errors import (
    ConfigError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RpcError,
    UnauthenticatedError,
    UnavailableError,
    from_grpc,
)

if TYPE_CHECKING:
    from comera.client import Client

# A text, a pair of texts, fields of PredictRow, or that message.
Row = Union[str, Tuple[str, str], Mapping[str, Any], predict_service_pb2.PredictRow]

_LOAD_TIMEOUT = 120.0
_PREDICT_TIMEOUT = 300.0
_GENERATE_TIMEOUT = 3600.0
_TRIES = 4
_MAX_ROWS = 512
# Another worker would say the same.
_FINAL = (
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    InvalidArgumentError,
)


def _row(row: Row) -> predict_service_pb2.PredictRow:
    if isinstance(row, str):
        return predict_service_pb2.PredictRow(text=row)
    if isinstance(row, Mapping):
        return predict_service_pb2.PredictRow(**row)
    if isinstance(row, tuple):
        return predict_service_pb2.PredictRow(text=row[0], text_pair=row[1])
    return row


class ServedModel:
    """A model that a worker has made ready.

        served = job.models[-1].serve()
        served.predict(["some text", ("a premise", "a hypothesis")])
    """

    def __init__(self, client: "Client", name: str, worker: str = "") -> None:
        self._worker = ""
        self._stub: Any = None
        self.info = self._find(client, name, worker)

    def _find(
        self, client: "Client", name: str, wanted: str
    ) -> predict_service_pb2.ServedModel:
        last: Exception = NotFoundError(
            f"no worker {wanted} that is connected and serves models".replace("  ", " ")
        )
        for one in client.list_workers():
            if not one.connected or not one.peer_address:
                continue
            if wanted and one.name.rpartition("/")[2] != wanted.rpartition("/")[2]:
                continue
            if stays_here(one.peer_address) and one.host != socket.gethostname():
                last = UnavailableError(f"{one.name} serves callers on its machine only")
                continue
            settings = client._connection.settings
            # Workers speak TLS where they have certificates, and then ask for one.
            settings = dataclasses.replace(settings, ca=settings.ca if settings.cert else "")
            try:
                channel = open_channel(settings, one.peer_address)
                self._stub = stub("predict", channel)
                self._worker = one.name
                request = predict_service_pb2.LoadModelRequest(name=name)
                return self._stub.LoadModel(request, timeout=_LOAD_TIMEOUT)
            except ConfigError as error:
                last = error
            except grpc.RpcError as error:
                last = from_grpc(error)
                if isinstance(last, _FINAL):
                    break
        raise last

    @property
    def worker(self) -> str:
        """The worker that answers: `workers/{worker}`."""
        return self._worker

    @property
    def labels(self) -> List[str]:
        """Names of class 0, 1, ...; empty if they are not known."""
        return list(self.info.labels)

    @property
    def mask_token(self) -> str:
        """The text that stands for a token to fill in; "" if there is none."""
        return str(self.info.mask_token)

    def predict(
        self,
        rows: Sequence[Row],
        top_k: int = 0,
        logits: bool = False,
        pseudo_loss: bool = False,
    ) -> List[predict_service_pb2.Prediction]:
        """One answer for each row, in order; one that cannot be answered has an
        `error`. `top_k`: choices of each masked token. RpcError."""
        size = min(self.info.max_rows or _MAX_ROWS, _MAX_ROWS)
        answers: List[predict_service_pb2.Prediction] = []
        for start in range(0, len(rows), size):
            part = [_row(row) for row in rows[start : start + size]]
            request = predict_service_pb2.PredictRequest(
                name=self.info.name,
                rows=part,
                top_k=top_k,
                logits=logits,
                pseudo_loss=pseudo_loss,
            )
            response = self._ask(request)
            if len(response.predictions) != len(part):
                raise InternalError("the worker answers other rows")
            answers += response.predictions
        return answers

    def generate(
        self,
        prompt: str,
        max_tokens: int = 0,
        temperature: Optional[float] = None,
        top_k: int = 0,
        top_p: Optional[float] = None,
        seed: int = 0,
        stop: Sequence[str] = (),
    ) -> Iterator[predict_service_pb2.GenerateResponse]:
        """Continues a text with a language model: pieces with `text`, as they
        come; the last has `finish` and what the request came to. 0 and None
        mean GenerateRequest's defaults. A caller that closes the iterator ends
        the text. RpcError."""
        request = predict_service_pb2.GenerateRequest(
            name=self.info.name,
            prompt=prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            stop=stop,
        )
        call = self._stub.Generate(request, timeout=_GENERATE_TIMEOUT)
        try:
            yield from call
        except grpc.RpcError as error:
            raise from_grpc(error) from None
        finally:
            call.cancel()

    def _ask(
        self, request: predict_service_pb2.PredictRequest
    ) -> predict_service_pb2.PredictResponse:
        failed: Optional[RpcError] = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(pause_before(attempt, 0.2, 2.0))
            try:
                return self._stub.Predict(request, timeout=_PREDICT_TIMEOUT)
            except grpc.RpcError as error:
                failed = from_grpc(error)
                if not isinstance(failed, (UnavailableError, ResourceExhaustedError)):
                    break
        assert failed is not None
        raise failed

    def __repr__(self) -> str:
        return f"<ServedModel {self.info.name} on {self.worker}>"
