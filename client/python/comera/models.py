"""Exported models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Union

from comera._files import PartFile, check_plain_name, is_there
from comera._proto import job_pb2, model_service_pb2, training_service_pb2
from comera._stubs import stub
from comera._text import alias_name, html_table, size_text
from comera.serving import ServedModel

if TYPE_CHECKING:
    from comera.client import Client


class Model:
    """An exported model, `jobs/{job}/models/{model}`.

        folder = job.models[-1].download("my-model")
        module = comera.torch.load(folder)
    """

    def __init__(self, client: "Client", proto: model_service_pb2.Model) -> None:
        self._client = client
        self.proto = proto

    @property
    def name(self) -> str:
        return str(self.proto.name)

    @property
    def job(self) -> str:
        return "/".join(self.name.split("/")[:2])

    @property
    def files(self) -> List[job_pb2.ArtifactFile]:
        return list(self.proto.artifact.files)

    @property
    def validation_loss(self) -> float:
        return float(self.proto.artifact.validation_loss)

    @property
    def size_parameters(self) -> int:
        return int(self.proto.artifact.size_parameters)

    @property
    def size_bytes(self) -> int:
        return int(self.proto.size_bytes)

    @property
    def target_index(self) -> int:
        """The target that the model is for, in a job with several; -1 for none."""
        return int(self.proto.target_index)

    @property
    def pareto_optimal(self) -> bool:
        """Whether no other model of the job is both smaller and better."""
        return bool(self.proto.pareto_optimal)

    @property
    def figures(self) -> Dict[str, float]:
        """Figures noted at the export; only `client.get_model` has them."""
        return dict(self.proto.figures)

    @property
    def pinned(self) -> bool:
        return bool(self.proto.artifact.pinned)

    @property
    def aliases(self) -> List[str]:
        """Names that stand for it, `models/{name}@{alias}`."""
        return list(self.proto.artifact.aliases)

    def download(
        self, directory: Union[str, "os.PathLike[str]"], force: bool = False
    ) -> Path:
        """Fetches the files into the folder and returns it.

        A file appears there whole and checked, or not at all; one that is there
        already stays, and a broken download goes on where it stopped.
        FileExistsError: another model is there, and `force` is not set.
        IntegrityError: the bytes are not those that were announced.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        missing = []
        # All are looked at before the first one changes.
        for file in self.files:
            path = folder / check_plain_name(file.path)
            if is_there(path, file.size_bytes, file.sha256):
                continue
            if path.exists() and not force:
                raise FileExistsError(
                    f"{folder} has another model: its {file.path} differs"
                )
            missing.append((file, path))
        for file, path in missing:
            self._download_file(file, path)
        return folder

    def _download_file(self, file: job_pb2.ArtifactFile, path: Path) -> None:
        with PartFile(path, file.size_bytes, file.sha256) as part:

            def open_stream(channel: Any, timeout: float) -> Any:
                request = training_service_pb2.DownloadArtifactRequest(
                    name=self.name, path=file.path, offset=part.size
                )
                return stub("training", channel).DownloadArtifact(request, timeout=timeout)

            if part.size < file.size_bytes or file.size_bytes == 0:
                for piece in self._client._connection.stream(open_stream, lambda: True):
                    part.append(piece.offset, piece.data)
            part.finish()

    def serve(self, worker: str = "") -> ServedModel:
        """Makes it ready on a worker, of one's choice if one is named, which then
        answers rows: see ServedModel. Takes seconds."""
        return ServedModel(self._client, self.name, worker)

    def pin(self) -> "Model":
        """Keeps it, and its job, until it is unpinned."""
        request = model_service_pb2.PinModelRequest(name=self.name)
        self.proto = self._client._call("models", "PinModel", request)
        return self

    def unpin(self) -> "Model":
        request = model_service_pb2.UnpinModelRequest(name=self.name)
        self.proto = self._client._call("models", "UnpinModel", request)
        return self

    def set_alias(self, alias: str) -> "Model":
        """Lets `{name}@{alias}` stand for it, and keeps it."""
        request = model_service_pb2.SetModelAliasRequest(
            alias=alias_name(alias), model=self.name
        )
        self.proto = self._client._call("models", "SetModelAlias", request)
        return self

    def delete(self) -> None:
        """Removes it and its files; its job must have ended, and it must be
        neither pinned nor have an alias."""
        self._client._call(
            "models",
            "DeleteModel",
            model_service_pb2.DeleteModelRequest(name=self.name),
        )

    def __repr__(self) -> str:
        return (
            f"<Model {self.name} validation_loss={self.validation_loss:.4f} "
            f"parameters={self.size_parameters}>"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("validation loss", f"{self.validation_loss:.4f}"),
            ("parameters", f"{self.size_parameters:,}"),
            ("size", size_text(self.size_bytes)),
        ]
        rows += [(f.path, size_text(f.size_bytes)) for f in self.files]
        return html_table(rows, caption=self.name)
