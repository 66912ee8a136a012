// Streams training states to and from other workers, with a cached channel per
// address.

#include "worker/checkpoint/peer_client.h"

#include <utility>

#include "absl/time/clock.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "worker/checkpoint/peer_tls.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxChannels = 256;

}  // namespace

PeerClient::PeerClient(std::shared_ptr<grpc::ChannelCredentials> credentials,
                       const PeerKeys* keys, bool insecure)
    : only_here_(credentials == nullptr && !insecure),
      credentials_(credentials != nullptr ? std::move(credentials)
                                          : grpc::InsecureChannelCredentials()),
      keys_(keys) {}

absl::StatusOr<std::shared_ptr<grpc::Channel>> PeerClient::ChannelTo(
    const std::string& address) {
  if (only_here_) {
    RETURN_IF_ERROR(CheckPlainPeers(address.substr(0, address.rfind(':'))));
  }
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

void PeerClient::AddGrant(const std::string& address, const std::string& job,
                          grpc::ClientContext* context) const {
  context->AddMetadata(kPeerGrantMetadata, keys_->GrantFor(address, job));
}

absl::Status PeerClient::Put(const std::string& address, const std::string& job,
                             const CheckpointName& name,
                             const CheckpointFile& file,
                             const std::string& sha256,
                             const TransferLimits& limits) {
  ASSIGN_OR_RETURN(const auto channel, ChannelTo(address));
  const auto stub = v1::PeerService::NewStub(channel);
  grpc::ClientContext context;
  AddGrant(address, job, &context);
  v1::PutCheckpointResponse response;
  // Begins before the call, which blocks until the worker is connected.
  CallWatch watch(&context, limits);
  const auto writer = stub->PutCheckpoint(&context, &response);
  v1::PutCheckpointRequest request;
  v1::PeerCheckpoint& header = *request.mutable_header();
  header.set_job(job);
  header.set_step(name.step);
  header.set_snapshot(name.snapshot);
  header.set_attempt(name.attempt);
  header.set_size_bytes(file.size());
  header.set_sha256(sha256);
  absl::Status sent;
  if (writer->Write(request)) {
    sent = file.Read(0, [&](std::string_view data) {
      request.set_data(data.data(), data.size());
      // The reason comes with Finish.
      if (!writer->Write(request)) return absl::CancelledError("refused");
      watch.Touch();
      return absl::OkStatus();
    });
    if (sent.ok()) {
      writer->WritesDone();
    } else if (!absl::IsCancelled(sent)) {
      context.TryCancel();
    }
  }
  const absl::Status status = watch.Explain(FromGrpcStatus(writer->Finish()));
  if (!sent.ok() && !absl::IsCancelled(sent)) return sent;
  return status;
}

absl::StatusOr<std::vector<CheckpointName>> PeerClient::List(
    const std::string& address, const std::string& job,
    absl::Duration timeout) {
  ASSIGN_OR_RETURN(const auto channel, ChannelTo(address));
  const auto stub = v1::PeerService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  AddGrant(address, job, &context);
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  v1::ListCheckpointsResponse response;
  RETURN_IF_ERROR(
      FromGrpcStatus(stub->ListCheckpoints(&context, request, &response)));
  std::vector<CheckpointName> names;
  for (const v1::PeerCheckpoint& one : response.checkpoints()) {
    // They become names of files.
    if (one.step() < 0 || one.step() > kMaxNamed || one.attempt() < 0 ||
        one.attempt() > kMaxNamed) {
      return absl::InvalidArgumentError("a checkpoint without a proper name");
    }
    names.push_back({one.step(), one.snapshot(), one.attempt()});
  }
  return names;
}

absl::Status PeerClient::Get(const std::string& address, const std::string& job,
                             const StateKey& key, int64_t offset,
                             const TransferLimits& limits, const OnPart& part) {
  ASSIGN_OR_RETURN(const auto channel, ChannelTo(address));
  const auto stub = v1::PeerService::NewStub(channel);
  grpc::ClientContext context;
  AddGrant(address, job, &context);
  v1::GetCheckpointRequest request;
  request.set_job(job);
  request.set_step(key.step);
  request.set_attempt(key.attempt);
  request.set_offset(offset);
  // Begins before the call, which blocks until the worker is connected.
  CallWatch watch(&context, limits);
  const auto reader = stub->GetCheckpoint(&context, request);
  v1::GetCheckpointResponse response;
  int64_t size = -1;
  absl::Status taken;
  while (taken.ok() && reader->Read(&response)) {
    // Empty parts are no progress.
    if (size < 0 || !response.data().empty()) watch.Touch();
    if (size < 0) {
      size = response.size_bytes();
      if (size < 0) taken = absl::DataLossError("its size is negative");
      // It would send the whole file, of whichever attempt.
      if (size == 0 && (offset > 0 || key.attempt > 0)) {
        taken = absl::UnimplementedError(
            "it is of an earlier version, which does not tell attempts");
      }
    }
    if (taken.ok()) taken = part(size, response.data());
  }
  if (!taken.ok()) context.TryCancel();
  const absl::Status status = watch.Explain(FromGrpcStatus(reader->Finish()));
  return taken.ok() ? status : taken;
}

}  // namespace comera::worker
