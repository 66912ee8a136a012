// Calls DatasetService: uploads with checksums, listing, deletion, download.

#include "client/dataset_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/artifact_file.h"
#include "client/blob_sender.h"
#include "client/service_calls.h"
#include "comera/v1/dataset_service.grpc.pb.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"
#include "proto/dataset_names.h"

namespace comera::client {
namespace {

constexpr int kPageSize = 500;
// How often a dataset's blobs may vanish between upload and creation.
constexpr int kMaxRounds = 3;

}  // namespace

class DatasetClient::Impl : public ServiceCalls<v1::DatasetService> {
 public:
  using ServiceCalls::ServiceCalls;
};

DatasetClient::DatasetClient(std::shared_ptr<grpc::Channel> channel,
                             const TrainingClient::Options& options)
    : impl_(std::make_unique<Impl>(std::move(channel), options)) {}

DatasetClient::~DatasetClient() { Stop(); }

absl::StatusOr<v1::Dataset> DatasetClient::Upload(
    const std::string& id, const std::vector<LocalFile>& files,
    const Labels& labels, const ProgressCallback& on_progress) {
  BlobSender sender(&impl_->stub(), &impl_->runner(), on_progress);
  ASSIGN_OR_RETURN(const std::vector<v1::DatasetFile> entries,
                   sender.ReadFiles(files));
  v1::CreateDatasetRequest request;
  request.set_dataset_id(id);
  for (const v1::DatasetFile& file : entries) *request.add_files() = file;
  request.mutable_labels()->insert(labels.begin(), labels.end());
  absl::StatusOr<v1::Dataset> dataset;
  for (int round = 0; round < kMaxRounds; ++round) {
    RETURN_IF_ERROR(sender.SendMissing(files, entries));
    dataset = impl_->Call(&v1::DatasetService::Stub::CreateDataset, request);
    // Blobs shared with another dataset may have been deleted with it.
    if (!absl::IsFailedPrecondition(dataset.status())) break;
  }
  return dataset;
}

absl::StatusOr<v1::Dataset> DatasetClient::Get(const std::string& name) {
  v1::GetDatasetRequest request;
  request.set_name(name);
  return impl_->Call(&v1::DatasetService::Stub::GetDataset, request);
}

absl::StatusOr<std::vector<v1::Dataset>> DatasetClient::List(
    const Labels& labels) {
  std::vector<v1::Dataset> datasets;
  v1::ListDatasetsRequest request;
  request.set_page_size(kPageSize);
  request.mutable_labels()->insert(labels.begin(), labels.end());
  do {
    ASSIGN_OR_RETURN(
        v1::ListDatasetsResponse page,
        impl_->Call(&v1::DatasetService::Stub::ListDatasets, request));
    for (v1::Dataset& dataset : *page.mutable_datasets()) {
      datasets.push_back(std::move(dataset));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return datasets;
}

absl::StatusOr<std::vector<v1::DatasetFile>> DatasetClient::ListFiles(
    const std::string& name) {
  std::vector<v1::DatasetFile> files;
  v1::ListDatasetFilesRequest request;
  request.set_name(name);
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(
        v1::ListDatasetFilesResponse page,
        impl_->Call(&v1::DatasetService::Stub::ListDatasetFiles, request));
    for (v1::DatasetFile& file : *page.mutable_files()) {
      files.push_back(std::move(file));
    }
    RETURN_IF_ERROR(
        CheckPageToken(page.next_page_token(), request.page_token()));
    // Pages are read from one version, because a newer one would be another
    // list.
    request.set_name(page.version());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return files;
}

absl::StatusOr<v1::DatasetDescription> DatasetClient::Describe(
    const v1::DescribeDatasetRequest& request) {
  return impl_->Call(&v1::DatasetService::Stub::DescribeDataset, request);
}

absl::StatusOr<int64_t> DatasetClient::Delete(const std::string& name) {
  v1::DeleteDatasetRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(
      const v1::DeleteDatasetResponse response,
      impl_->Call(&v1::DatasetService::Stub::DeleteDataset, request));
  return response.freed_bytes();
}

absl::Status DatasetClient::Download(const v1::DatasetFile& file,
                                     const std::string& path) {
  v1::ArtifactFile expected;
  expected.set_path(file.path());
  expected.set_size_bytes(file.size_bytes());
  expected.set_sha256(file.sha256());
  ASSIGN_OR_RETURN(std::unique_ptr<ArtifactFileWriter> writer,
                   ArtifactFileWriter::Create(path, expected));
  absl::Status write_status;
  RETURN_IF_ERROR(impl_->runner().Stream(
      absl::InfiniteFuture(), [&](grpc::ClientContext* context) {
        v1::DownloadBlobRequest request;
        request.set_sha256(file.sha256());
        request.set_offset(writer->size());
        auto reader = impl_->stub().DownloadBlob(context, request);
        CallRunner::StreamEnd end;
        v1::DownloadBlobResponse response;
        while (write_status.ok() && reader->Read(&response)) {
          end.progressed = !response.data().empty();
          write_status = writer->Append(response.offset(), response.data());
        }
        if (!write_status.ok()) {
          context->TryCancel();
          end.done = true;
        }
        end.status = reader->Finish();
        end.done |= end.status.ok();
        return end;
      }));
  RETURN_IF_ERROR(write_status);
  return writer->Finish();
}

void DatasetClient::Stop() { impl_->runner().Stop(); }

}  // namespace comera::client
