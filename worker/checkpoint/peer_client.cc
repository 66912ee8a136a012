// Streams training states to and from other workers, with a cached channel per
// address.

#include "worker/checkpoint/peer_client.h"

#include <utility>

#include "absl/time/clock.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kMaxBytes = size_t{4} << 30;
constexpr size_t kMaxChannels = 256;

}  // namespace

PeerClient::PeerClient(std::shared_ptr<grpc::ChannelCredentials> credentials,
                       const PeerKeys* keys)
    : credentials_(credentials != nullptr ? std::move(credentials)
                                          : grpc::InsecureChannelCredentials()),
      keys_(keys) {}

std::shared_ptr<grpc::Channel> PeerClient::ChannelTo(
    const std::string& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (channels_.size() >= kMaxChannels) channels_.clear();
  std::shared_ptr<grpc::Channel>& channel = channels_[address];
  if (channel == nullptr) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    channel = grpc::CreateCustomChannel(address, credentials_, arguments);
  }
  return channel;
}

void PeerClient::Prepare(absl::Duration timeout,
                         grpc::ClientContext* context) const {
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context->AddMetadata(kPeerKeyMetadata, keys_->newest());
}

absl::Status PeerClient::Put(const std::string& address, const std::string& job,
                             const CheckpointName& name,
                             const std::string& contents,
                             absl::Duration timeout) {
  const auto stub = v1::PeerService::NewStub(ChannelTo(address));
  grpc::ClientContext context;
  Prepare(timeout, &context);
  v1::PutCheckpointResponse response;
  const auto writer = stub->PutCheckpoint(&context, &response);
  v1::PutCheckpointRequest request;
  v1::PeerCheckpoint& header = *request.mutable_header();
  header.set_job(job);
  header.set_step(name.step);
  header.set_snapshot(name.snapshot);
  header.set_size_bytes(static_cast<int64_t>(contents.size()));
  header.set_sha256(Sha256Hex(contents));
  bool going = writer->Write(request);
  for (size_t at = 0; going && at < contents.size(); at += kChunkBytes) {
    request.set_data(contents.substr(at, kChunkBytes));
    going = writer->Write(request);
  }
  if (going) writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

absl::StatusOr<std::vector<CheckpointName>> PeerClient::List(
    const std::string& address, const std::string& job,
    absl::Duration timeout) {
  const auto stub = v1::PeerService::NewStub(ChannelTo(address));
  grpc::ClientContext context;
  Prepare(timeout, &context);
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  v1::ListCheckpointsResponse response;
  RETURN_IF_ERROR(
      FromGrpcStatus(stub->ListCheckpoints(&context, request, &response)));
  std::vector<CheckpointName> names;
  for (const v1::PeerCheckpoint& one : response.checkpoints()) {
    names.push_back({one.step(), one.snapshot()});
  }
  return names;
}

absl::StatusOr<std::string> PeerClient::Get(const std::string& address,
                                            const std::string& job,
                                            int64_t step,
                                            absl::Duration timeout) {
  const auto stub = v1::PeerService::NewStub(ChannelTo(address));
  grpc::ClientContext context;
  Prepare(timeout, &context);
  v1::GetCheckpointRequest request;
  request.set_job(job);
  request.set_step(step);
  const auto reader = stub->GetCheckpoint(&context, request);
  std::string contents;
  v1::GetCheckpointResponse response;
  while (reader->Read(&response)) {
    if (contents.size() + response.data().size() > kMaxBytes) {
      context.TryCancel();
      return absl::ResourceExhaustedError("larger than 4 GiB");
    }
    contents += response.data();
  }
  RETURN_IF_ERROR(FromGrpcStatus(reader->Finish()));
  if (!IsWhole(contents)) {
    return absl::DataLossError("its checksum differs");
  }
  return contents;
}

}  // namespace comera::worker
