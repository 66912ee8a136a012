// Hashes local files, asks the server which blobs it lacks, and streams those.

#include "client/blob_sender.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr int kMaxQuery = 1000;

absl::Status Changed(const LocalFile& file) {
  return absl::DataLossError(
      absl::StrCat(file.source, " changed while it was being read"));
}

// Reads at most one chunk; empty at the end.
std::string ReadChunk(std::ifstream& in) {
  std::string data(kChunkBytes, '\0');
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  data.resize(static_cast<size_t>(in.gcount()));
  return data;
}

}  // namespace

BlobSender::BlobSender(v1::DatasetService::Stub* stub, CallRunner* runner,
                       DatasetClient::ProgressCallback on_progress)
    : stub_(stub), runner_(runner), on_progress_(std::move(on_progress)) {}

void BlobSender::Report() {
  if (on_progress_) on_progress_(progress_);
}

absl::StatusOr<std::vector<v1::DatasetFile>> BlobSender::ReadFiles(
    const std::vector<LocalFile>& files) {
  std::vector<v1::DatasetFile> entries;
  for (const LocalFile& file : files) progress_.total_bytes += file.size;
  for (const LocalFile& file : files) {
    std::ifstream in(file.source, std::ios::binary);
    if (!in) {
      return absl::PermissionDeniedError(
          absl::StrCat(file.source, " cannot be read"));
    }
    Sha256Stream sha256;
    int64_t size = 0;
    for (std::string data = ReadChunk(in); !data.empty();
         data = ReadChunk(in)) {
      if (runner_->stopped()) {
        return absl::CancelledError("the client stopped");
      }
      sha256.Add(data);
      size += static_cast<int64_t>(data.size());
      progress_.done_bytes += static_cast<int64_t>(data.size());
      Report();
    }
    if (size != file.size) return Changed(file);
    v1::DatasetFile& entry = entries.emplace_back();
    entry.set_path(file.path);
    entry.set_size_bytes(size);
    entry.set_sha256(sha256.Finish());
  }
  return entries;
}

absl::StatusOr<std::vector<v1::BlobState>> BlobSender::Query(
    const std::vector<v1::DatasetFile>& entries) {
  std::vector<v1::BlobState> states;
  while (states.size() < entries.size()) {
    v1::QueryBlobsRequest request;
    for (size_t i = states.size();
         i < entries.size() && request.sha256_size() < kMaxQuery; ++i) {
      request.add_sha256(entries[i].sha256());
    }
    v1::QueryBlobsResponse response;
    RETURN_IF_ERROR(runner_->Unary([&](grpc::ClientContext* context) {
      response.Clear();
      return stub_->QueryBlobs(context, request, &response);
    }));
    if (response.blobs_size() != request.sha256_size()) {
      return absl::InternalError("the server does not answer what was asked");
    }
    states.insert(states.end(), response.blobs().begin(),
                  response.blobs().end());
  }
  return states;
}

absl::Status BlobSender::SendMissing(
    const std::vector<LocalFile>& files,
    const std::vector<v1::DatasetFile>& entries) {
  ASSIGN_OR_RETURN(const std::vector<v1::BlobState> states, Query(entries));
  progress_ = DatasetClient::Progress();
  progress_.sending = true;
  finished_bytes_ = 0;
  std::set<std::string> known;
  std::vector<size_t> missing;
  for (size_t i = 0; i < files.size(); ++i) {
    progress_.total_bytes += files[i].size;
    if (states[i].complete() || !known.insert(states[i].sha256()).second) {
      finished_bytes_ += files[i].size;
    } else {
      missing.push_back(i);
    }
  }
  progress_.known_bytes = progress_.done_bytes = finished_bytes_;
  Report();
  for (size_t i : missing) {
    RETURN_IF_ERROR(Send(files[i], entries[i]));
    finished_bytes_ += files[i].size;
    progress_.done_bytes = finished_bytes_;
    Report();
  }
  return absl::OkStatus();
}

absl::Status BlobSender::Send(const LocalFile& file,
                              const v1::DatasetFile& entry) {
  // The part that the server had may come from another client and be wrong. The
  // server then discards it, and a second try sends everything.
  for (int round = 0;; ++round) {
    int64_t offset = 0;
    const absl::Status status = runner_->Stream(
        absl::InfiniteFuture(),
        [&](auto* context) { return TrySend(context, file, entry, &offset); });
    if (!absl::IsDataLoss(status)) return status;
    if (offset == 0 || round > 0) return Changed(file);
  }
}

CallRunner::StreamEnd BlobSender::TrySend(grpc::ClientContext* context,
                                          const LocalFile& file,
                                          const v1::DatasetFile& entry,
                                          int64_t* offset) {
  CallRunner::StreamEnd end;
  const auto states = Query({entry});
  if (!states.ok()) {
    end.status =
        grpc::Status(static_cast<grpc::StatusCode>(states.status().code()),
                     std::string(states.status().message()));
    return end;
  }
  const v1::BlobState& state = states->front();
  if (state.complete()) {
    end.done = true;
    return end;
  }
  // Another client may be sending the same blob meanwhile.
  end.progressed = state.offset() > *offset;
  *offset = state.offset();
  std::ifstream in(file.source, std::ios::binary);
  in.seekg(*offset);
  v1::UploadBlobResponse response;
  auto writer = stub_->UploadBlob(context, &response);
  v1::UploadBlobRequest request;
  request.mutable_header()->set_sha256(entry.sha256());
  request.mutable_header()->set_size_bytes(entry.size_bytes());
  request.mutable_header()->set_offset(*offset);
  bool going = writer->Write(request);
  int64_t sent = *offset;
  while (going && sent < entry.size_bytes()) {
    request.set_data(ReadChunk(in));
    const int64_t count = static_cast<int64_t>(request.data().size());
    if (count == 0) break;
    going = writer->Write(request);
    if (!going) break;
    sent += count;
    end.progressed = true;
    progress_.done_bytes = finished_bytes_ + std::min(sent, file.size);
    Report();
  }
  if (going) writer->WritesDone();
  end.status = writer->Finish();
  end.done = end.status.ok();
  // The server disagrees about the offset, so ask again how much it has.
  if (end.status.error_code() == grpc::StatusCode::OUT_OF_RANGE) {
    end.status =
        grpc::Status(grpc::StatusCode::UNAVAILABLE, end.status.error_message());
  }
  return end;
}

}  // namespace comera::client
