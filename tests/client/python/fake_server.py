"""A coordinator in this process that does as it is told."""

import concurrent.futures
import threading

import grpc

from comera._proto import (
    access_service_pb2,
    access_service_pb2_grpc,
    dataset_service_pb2,
    dataset_service_pb2_grpc,
    error_details_pb2,
    job_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    predict_service_pb2,
    predict_service_pb2_grpc,
    progress_pb2,
    queue_service_pb2,
    queue_service_pb2_grpc,
    sweep_service_pb2,
    sweep_service_pb2_grpc,
    training_service_pb2,
    training_service_pb2_grpc,
)

S = training_service_pb2


def error(context, code, message, **details):
    """Aborts a call with google.rpc details, as the coordinator does."""
    status = error_details_pb2.Status(code=code.value[0], message=message)

    def add(kind, detail):
        status.details.add(
            type_url=f"type.googleapis.com/google.rpc.{kind}",
            value=detail.SerializeToString(),
        )

    if "reason" in details:
        add(
            "ErrorInfo",
            error_details_pb2.ErrorInfo(
                reason=details["reason"],
                domain="comera",
                metadata=details.get("metadata", {}),
            ),
        )
    if "retry_after" in details:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(details["retry_after"] * 1000))
        add("RetryInfo", retry)
    if "fields" in details:
        bad = error_details_pb2.BadRequest()
        for field, description in details["fields"].items():
            bad.field_violations.add(field=field, description=description)
        add("BadRequest", bad)
    context.set_trailing_metadata(
        (("grpc-status-details-bin", status.SerializeToString()),)
    )
    context.abort(code, message)


class FakeServer:
    """Answers with what `answers` has for a method: a message, or a callable
    (request, context); a list is used up answer by answer. Every call is kept in
    `calls`: (method, request, metadata)."""

    def __init__(self, address="127.0.0.1:0"):
        self.answers = {}
        self.calls = []
        self._lock = threading.Lock()
        self.server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(16),
            options=[("grpc.so_reuseport", 0)],
        )
        for name, messages, register in (
            ("TrainingService", S, training_service_pb2_grpc),
            ("SweepService", sweep_service_pb2, sweep_service_pb2_grpc),
            ("ModelService", model_service_pb2, model_service_pb2_grpc),
            ("PredictService", predict_service_pb2, predict_service_pb2_grpc),
            ("DatasetService", dataset_service_pb2, dataset_service_pb2_grpc),
            ("QueueService", queue_service_pb2, queue_service_pb2_grpc),
            ("AccessService", access_service_pb2, access_service_pb2_grpc),
        ):
            service = messages.DESCRIPTOR.services_by_name[name]
            servicer = type(
                name, (), {m.name: self._method(m.name) for m in service.methods}
            )()
            getattr(register, f"add_{name}Servicer_to_server")(servicer, self.server)
        self.port = self.server.add_insecure_port(address)
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def _method(self, name):
        def handle(_, request, context):
            with self._lock:
                self.calls.append((name, request, dict(context.invocation_metadata())))
                answer = self.answers.get(name)
                if isinstance(answer, list):
                    answer = answer.pop(0) if answer else None
            if answer is None:
                context.abort(grpc.StatusCode.UNIMPLEMENTED, f"no answer for {name}")
            return answer(request, context) if callable(answer) else answer

        return handle

    def requests(self, method):
        return [request for name, request, _ in self.calls if name == method]

    def stop(self):
        self.server.stop(None).wait()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stop()


def job(name="jobs/a", state="RUNNING", **fields):
    return job_pb2.Job(name=name, state=job_pb2.JobState.Value(state), **fields)


def state_event(sequence, state, **fields):
    change = progress_pb2.StateChange(state=job_pb2.JobState.Value(state), **fields)
    return S.WatchJobResponse(
        event=progress_pb2.JobEvent(
            job="jobs/a", sequence=sequence, attempt=1, state_change=change
        )
    )


def metrics_event(sequence, step, **fields):
    return S.WatchJobResponse(
        event=progress_pb2.JobEvent(
            job="jobs/a",
            sequence=sequence,
            attempt=1,
            metrics=progress_pb2.StepMetrics(step=step, total_steps=100, **fields),
        )
    )
