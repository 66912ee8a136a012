"""Models and datasets over connections that break."""

import hashlib
import struct
import tempfile
import unittest
from pathlib import Path

import grpc

import comera
from comera import safetensors
from comera._proto import dataset_service_pb2 as D
from comera._proto import job_pb2, model_service_pb2
from client_case import ClientTestCase
from fake_server import S

Code = grpc.StatusCode


class Files(ClientTestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class ModelTest(Files):
    def setUp(self):
        super().setUp()
        self.contents = bytes(range(256)) * 40
        self.artifact = job_pb2.Artifact(name="jobs/a/models/m")
        self.artifact.files.add(
            path="model.safetensors", size_bytes=len(self.contents),
            sha256=hashlib.sha256(self.contents).hexdigest(),
        )
        self.fake.answers["GetModel"] = lambda r, c: model_service_pb2.Model(
            name=r.name, artifact=self.artifact
        )
        self.offsets = []

    def serve(self, stop_at=None, contents=None):
        contents = contents or self.contents

        def download(request, context):
            self.offsets.append(request.offset)
            for at in range(request.offset, len(contents), 1000):
                if stop_at is not None and at >= stop_at and len(self.offsets) == 1:
                    context.abort(Code.UNAVAILABLE, "restart")
                yield S.DownloadArtifactResponse(
                    offset=at, data=contents[at : at + 1000]
                )

        self.fake.answers["DownloadArtifact"] = download

    def download(self):
        return self.client.get_model("jobs/a/models/m").download(self.folder)

    def test_goes_on_where_it_broke(self):
        self.serve(stop_at=3000)
        self.assertEqual(self.download(), self.folder)
        self.assertEqual(self.offsets, [0, 3000])
        path = self.folder / "model.safetensors"
        self.assertEqual(path.read_bytes(), self.contents)
        self.assertEqual([p.name for p in self.folder.iterdir()], [path.name])

    def test_a_later_call_goes_on_too(self):
        def fail(request, context):
            yield S.DownloadArtifactResponse(offset=0, data=self.contents[:3000])
            context.abort(Code.PERMISSION_DENIED, "no more")

        self.fake.answers["DownloadArtifact"] = fail
        with self.assertRaises(comera.PermissionDeniedError):
            self.download()
        self.assertFalse((self.folder / "model.safetensors").exists())
        self.serve()
        self.download()
        self.assertEqual(self.offsets, [3000])

    def test_a_file_that_is_there_is_not_fetched_again(self):
        self.serve()
        self.download()
        self.download()
        self.assertEqual(self.offsets, [0])

    def test_another_model_is_overwritten_by_force_only(self):
        self.serve()
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "model.safetensors"
        path.write_bytes(b"another")
        with self.assertRaisesRegex(FileExistsError, "another model"):
            self.download()
        self.assertEqual(path.read_bytes(), b"another")
        self.client.get_model("jobs/a/models/m").download(self.folder, force=True)
        self.assertEqual(path.read_bytes(), self.contents)

    def test_aliases_need_no_prefix(self):
        asked = []

        def answer(request, context):
            asked.append(request)
            return model_service_pb2.Model(name="jobs/a/models/m")

        self.fake.answers["GetModelAlias"] = answer
        self.fake.answers["SetModelAlias"] = answer
        self.fake.answers["DeleteModelAlias"] = lambda r, c: (
            asked.append(r) or model_service_pb2.DeleteModelAliasResponse()
        )
        model = self.client.get_model("intents@production")
        model.set_alias("intents@production")
        model.set_alias("models/intents@production")
        self.client.delete_alias("intents@production")
        name = "models/intents@production"
        self.assertEqual(asked[0].name, name)
        self.assertEqual([r.alias for r in asked[1:3]], [name, name])
        self.assertEqual(asked[3].name, name)

    def test_models_are_found_by_words_and_by_being_kept(self):
        asked = []
        self.fake.answers["ListModels"] = lambda r, c: (
            asked.append(r) or model_service_pb2.ListModelsResponse()
        )
        self.assertEqual(list(self.client.list_models(text="intents", kept=True)), [])
        self.assertEqual((asked[0].text, asked[0].kept), ("intents", True))

    def test_other_bytes_are_refused_and_forgotten(self):
        wrong = bytes(len(self.contents))
        self.serve(contents=wrong)
        with self.assertRaisesRegex(comera.IntegrityError, "checksum"):
            self.download()
        self.assertEqual(list(self.folder.iterdir()), [])
        self.serve(contents=self.contents + b"more")
        with self.assertRaisesRegex(comera.IntegrityError, "announced"):
            self.download()
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_names_cannot_lead_elsewhere(self):
        self.serve()
        for name in ("../x", "/etc/x", ".hidden", "a/b", "", "x\n", "é"):
            self.artifact.files[0].path = name
            with self.subTest(name), self.assertRaises(comera.IntegrityError):
                self.download()
        self.assertEqual(self.offsets, [])

    def test_an_empty_file(self):
        self.artifact.files[0].size_bytes = 0
        self.artifact.files[0].sha256 = hashlib.sha256(b"").hexdigest()
        self.fake.answers["DownloadArtifact"] = lambda r, c: iter([])
        self.download()
        self.assertEqual((self.folder / "model.safetensors").read_bytes(), b"")


class FakeBlobs:
    """Keeps blobs as the coordinator does."""

    def __init__(self, fake):
        self.blobs = {}
        self.complete = set()
        self.streams = 0
        # Bytes after which the first stream breaks.
        self.break_at = None
        fake.answers.update(
            QueryBlobs=self.query, UploadBlob=self.upload, CreateDataset=self.create,
            ListDatasetFiles=self.files, DownloadBlob=self.download,
        )
        self.dataset = None

    def query(self, request, context):
        response = D.QueryBlobsResponse()
        for sha in request.sha256:
            response.blobs.add(
                sha256=sha, complete=sha in self.complete,
                offset=len(self.blobs.get(sha, b"")),
            )
        return response

    def upload(self, requests, context):
        self.streams += 1
        header = next(requests).header
        blob = self.blobs.setdefault(header.sha256, b"")
        if header.offset != len(blob):
            context.abort(Code.OUT_OF_RANGE, "ask again")
        for request in requests:
            self.blobs[header.sha256] += request.data
            if self.break_at is not None and self.streams == 1:
                if len(self.blobs[header.sha256]) >= self.break_at:
                    context.abort(Code.UNAVAILABLE, "restart")
        if hashlib.sha256(self.blobs[header.sha256]).hexdigest() != header.sha256:
            del self.blobs[header.sha256]
            context.abort(Code.DATA_LOSS, "another checksum")
        self.complete.add(header.sha256)
        return D.UploadBlobResponse(size_bytes=len(self.blobs[header.sha256]))

    def create(self, request, context):
        if any(f.sha256 not in self.complete for f in request.files):
            context.abort(Code.FAILED_PRECONDITION, "blobs are missing")
        self.dataset = request
        dataset = D.Dataset(name=f"datasets/{request.dataset_id}")
        dataset.versions.add(name=dataset.name + "@1", number=1)
        return dataset

    def files(self, request, context):
        return D.ListDatasetFilesResponse(files=self.dataset.files)

    def download(self, request, context):
        data = self.blobs[request.sha256][request.offset :]
        yield D.DownloadBlobResponse(offset=request.offset, data=data)


class DatasetTest(Files):
    def setUp(self):
        super().setUp()
        self.blobs = FakeBlobs(self.fake)
        source = self.folder / "source"
        (source / "sub").mkdir(parents=True)
        (source / "a.txt").write_bytes(b"a" * 5_000_000)
        (source / "sub" / "b.txt").write_bytes(b"b")
        (source / "copy.txt").write_bytes(b"b")
        (source / ".hidden").write_bytes(b"h")
        (source / "link").symlink_to("a.txt")
        self.source = source

    def test_sends_each_content_once(self):
        seen = []
        dataset = self.client.upload_dataset(
            "d", self.source, labels={"k": "v"}, on_progress=lambda *a: seen.append(a)
        )
        self.assertEqual(dataset.name, "datasets/d")
        paths = [f.path for f in self.blobs.dataset.files]
        self.assertEqual(paths, ["a.txt", "copy.txt", "sub/b.txt"])
        self.assertEqual(self.blobs.streams, 2)
        self.assertEqual(seen[-1], (5_000_002, 5_000_002))
        self.assertEqual(dict(self.blobs.dataset.labels), {"k": "v"})
        # What is there is not sent again.
        self.client.upload_dataset("d", self.source)
        self.assertEqual(self.blobs.streams, 2)

        back = dataset.download(self.folder / "back")
        self.assertEqual((back / "sub" / "b.txt").read_bytes(), b"b")
        self.assertEqual((back / "a.txt").stat().st_size, 5_000_000)

    def test_goes_on_where_it_broke(self):
        self.blobs.break_at = 2 << 20
        self.client.upload_dataset("d", self.source / "a.txt")
        self.assertEqual(self.blobs.streams, 2)
        sha = self.blobs.dataset.files[0].sha256
        self.assertEqual(self.blobs.blobs[sha], b"a" * 5_000_000)

    def test_wrong_beginnings_of_others_are_replaced(self):
        path = self.source / "a.txt"
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        self.blobs.blobs[sha] = b"wrong"
        self.client.upload_dataset("d", path)
        self.assertEqual(self.blobs.blobs[sha], path.read_bytes())

    def test_bad_sources(self):
        with self.assertRaises(FileNotFoundError):
            self.client.upload_dataset("d", self.folder / "none")
        empty = self.folder / "empty"
        empty.mkdir()
        with self.assertRaises(comera.ConfigError):
            self.client.upload_dataset("d", empty)
        with self.assertRaisesRegex(comera.ConfigError, "both are a.txt"):
            self.client.upload_dataset("d", self.source, self.source / "a.txt")
        with self.assertRaises(comera.ConfigError):
            self.client.upload_dataset("Bad", self.source)


class SafetensorsTest(Files):
    def test_round_trip_and_hostile_headers(self):
        path = self.folder / "t.safetensors"
        tensors = {
            "a": safetensors.Tensor("F32", (2, 1), bytes(8)),
            "empty": safetensors.Tensor("I64", (0, 3), b""),
        }
        safetensors.write(path, tensors, {"k": "v"})
        read = safetensors.read(path)
        self.assertEqual(read.metadata, {"k": "v"})
        self.assertEqual(read["a"].shape, (2, 1))
        self.assertEqual(bytes(read["a"].data), bytes(8))
        self.assertEqual(read["empty"].shape, (0, 3))

        def file(header, data=b""):
            return struct.pack("<Q", len(header)) + header + data

        def entry(dtype="F32", shape="[1]", offsets="[0,4]"):
            return (
                f'{{"a":{{"dtype":"{dtype}","shape":{shape},'
                f'"data_offsets":{offsets}}}}}'
            ).encode()

        for contents in (
            b"", b"1234567", struct.pack("<Q", 1 << 60), file(b"{"), file(b"[]"),
            file(b'{"a":3}'), file(b"[" * 200_000), file(b"\xff"),
            file(entry(), b"123"), file(entry(), b"12345"), file(entry("F99"), b"1234"),
            file(entry(shape="[2]"), b"1234"), file(entry(shape="[-1]"), b"1234"),
            file(entry(shape="[true]"), b"1234"), file(entry(shape='["1"]'), b"1234"),
            file(entry(shape="[1e0]"), b"1234"), file(entry(shape="7"), b"1234"),
            file(entry(shape="[281474976710655,281474976710655]"), b"1234"),
            file(entry(offsets="[4,0]"), b"1234"), file(entry(offsets="[-4,0]"), b"1234"),
            file(entry(offsets="[0]"), b"1234"), file(entry(offsets="null"), b"1234"),
            file(entry(offsets="[4,8]"), b"12345678"),
        ):
            with self.subTest(contents[:80]), self.assertRaises(comera.IntegrityError):
                safetensors.parse(contents)


if __name__ == "__main__":
    unittest.main()
