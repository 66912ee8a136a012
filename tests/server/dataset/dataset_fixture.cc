// Builds a server with datasets for tests.
#include "tests/server/dataset/dataset_fixture.h"

#include "common/files.h"

namespace comera::server {

DatasetFixture::DatasetFixture() {
  options_.datasets.blobs.min_free_bytes = 0;
  Restart();
}

void DatasetFixture::Restart() {
  datasets_.reset();
  RestartServer();
  datasets_ = v1::DatasetService::NewStub(channel_);
}

grpc::Status DatasetFixture::UploadBlob(const std::string& data, int64_t offset,
                                        int64_t count) {
  auto context = Context();
  v1::UploadBlobResponse response;
  auto writer = datasets_->UploadBlob(context.get(), &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_sha256(Sha256Hex(data));
  request.mutable_header()->set_size_bytes(static_cast<int64_t>(data.size()));
  request.mutable_header()->set_offset(offset);
  bool going = writer->Write(request);
  const std::string part = data.substr(offset, count < 0 ? data.size() : count);
  for (size_t at = 0; going && at < part.size(); at += 100000) {
    request.set_data(part.substr(at, 100000));
    going = writer->Write(request);
  }
  writer->WritesDone();
  return writer->Finish();
}

v1::BlobState DatasetFixture::QueryBlob(const std::string& sha256) {
  v1::QueryBlobsRequest request;
  request.add_sha256(sha256);
  v1::QueryBlobsResponse response;
  const grpc::Status status =
      datasets_->QueryBlobs(Context().get(), request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.blobs_size() == 1 ? response.blobs(0) : v1::BlobState();
}

grpc::Status DatasetFixture::DownloadBlob(const std::string& sha256,
                                          int64_t offset, std::string* data) {
  auto context = Context();
  v1::DownloadBlobRequest request;
  request.set_sha256(sha256);
  request.set_offset(offset);
  auto reader = datasets_->DownloadBlob(context.get(), request);
  v1::DownloadBlobResponse part;
  while (reader->Read(&part)) {
    EXPECT_EQ(part.offset(), offset + static_cast<int64_t>(data->size()));
    data->append(part.data());
  }
  return reader->Finish();
}

v1::CreateDatasetRequest DatasetFixture::CreateRequest(const std::string& id,
                                                       const Files& files) {
  v1::CreateDatasetRequest request;
  request.set_dataset_id(id);
  for (const auto& [path, contents] : files) {
    v1::DatasetFile* file = request.add_files();
    file->set_path(path);
    file->set_size_bytes(static_cast<int64_t>(contents.size()));
    file->set_sha256(Sha256Hex(contents));
  }
  return request;
}

grpc::Status DatasetFixture::CreateDataset(
    const v1::CreateDatasetRequest& request, v1::Dataset* dataset) {
  return datasets_->CreateDataset(Context().get(), request, dataset);
}

v1::Dataset DatasetFixture::UploadDataset(const std::string& id,
                                          const Files& files) {
  for (const auto& [path, contents] : files) {
    const grpc::Status status = UploadBlob(contents);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  v1::Dataset dataset;
  const grpc::Status status = CreateDataset(CreateRequest(id, files), &dataset);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return dataset;
}

grpc::Status DatasetFixture::GetDataset(const std::string& name,
                                        v1::Dataset* dataset) {
  v1::GetDatasetRequest request;
  request.set_name(name);
  return datasets_->GetDataset(Context().get(), request, dataset);
}

grpc::Status DatasetFixture::DeleteDataset(const std::string& name,
                                           int64_t* freed) {
  v1::DeleteDatasetRequest request;
  request.set_name(name);
  v1::DeleteDatasetResponse response;
  const grpc::Status status =
      datasets_->DeleteDataset(Context().get(), request, &response);
  if (freed != nullptr) *freed = response.freed_bytes();
  return status;
}

}  // namespace comera::server
