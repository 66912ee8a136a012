"""The API's services by short names."""

from __future__ import annotations

from typing import Any, Callable, Dict

import grpc

from comera._proto import access_service_pb2_grpc, dataset_service_pb2_grpc
from comera._proto import model_service_pb2_grpc, predict_service_pb2_grpc
from comera._proto import queue_service_pb2_grpc
from comera._proto import sweep_service_pb2_grpc, training_service_pb2_grpc

_STUBS: Dict[str, Callable[[grpc.Channel], Any]] = {
    "training": training_service_pb2_grpc.TrainingServiceStub,
    "sweeps": sweep_service_pb2_grpc.SweepServiceStub,
    "models": model_service_pb2_grpc.ModelServiceStub,
    "datasets": dataset_service_pb2_grpc.DatasetServiceStub,
    "predict": predict_service_pb2_grpc.PredictServiceStub,
    "queues": queue_service_pb2_grpc.QueueServiceStub,
    "access": access_service_pb2_grpc.AccessServiceStub,
}


def stub(service: str, channel: grpc.Channel) -> Any:
    return _STUBS[service](channel)
