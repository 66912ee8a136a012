// The PeerService handlers: store, list and send training states.

#include "worker/checkpoint/peer_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "grpcpp/resource_quota.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/peer_tls.h"
#include "worker/checkpoint/peer_transfers.h"

namespace comera::worker {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int kMaxMessageBytes = 4 << 20;

absl::Status CheckKey(const std::string& job, int64_t step, int64_t attempt) {
  if (!ParseJobName(job)) {
    return absl::InvalidArgumentError("job: malformed name");
  }
  if (step < 0 || step > kMaxNamed) {
    return absl::InvalidArgumentError("step: out of range");
  }
  if (attempt < 0 || attempt > kMaxNamed) {
    return absl::InvalidArgumentError("attempt: out of range");
  }
  return absl::OkStatus();
}

// Sends a state in parts, the first of which tells its size.
class PartWriter {
 public:
  PartWriter(int64_t size, grpc::ServerWriter<v1::GetCheckpointResponse>* to,
             PeerTransfers::Transfer* transfer)
      : to_(to), transfer_(transfer) {
    response_.set_size_bytes(size);
  }
  // Cancelled: nobody reads any more.
  absl::Status Send(std::string_view data) {
    response_.set_data(data.data(), data.size());
    if (!to_->Write(response_)) return absl::CancelledError("not wanted");
    response_.clear_size_bytes();
    return transfer_->Move();
  }

 private:
  v1::GetCheckpointResponse response_;
  grpc::ServerWriter<v1::GetCheckpointResponse>* const to_;
  PeerTransfers::Transfer* const transfer_;
};

}  // namespace

class PeerServer::Service : public v1::PeerService::Service {
 public:
  Service(ReplicaCache* cache, const JobFolders* folders, PeerKeys* keys,
          PeerTransfers::Options transfers)
      : cache_(cache),
        folders_(folders),
        keys_(keys),
        transfers_(std::move(transfers)) {}

 private:
  // Returns the attempt of the job for which the caller acts.
  absl::StatusOr<int64_t> Authenticate(const grpc::ServerContext& context,
                                       const std::string& job) const {
    return keys_->Judge(MetadataOf(context, kPeerGrantMetadata), job);
  }

  grpc::Status PutCheckpoint(
      grpc::ServerContext* context,
      grpc::ServerReader<v1::PutCheckpointRequest>* reader,
      v1::PutCheckpointResponse*) override {
    // A stranger holds no thread, and no memory: nothing of it is read.
    const absl::StatusOr<PeerKeys::Granted> granted =
        keys_->Judge(MetadataOf(*context, kPeerGrantMetadata));
    if (!granted.ok()) return ToGrpcStatus(granted.status());
    const auto transfer = transfers_.BeginReceive(
        granted->job, [context] { context->TryCancel(); });
    return ToGrpcStatus(Put(*granted, *reader, *transfer));
  }

  absl::Status Put(const PeerKeys::Granted& granted,
                   grpc::ServerReader<v1::PutCheckpointRequest>& reader,
                   PeerTransfers::Transfer& transfer) {
    v1::PutCheckpointRequest request;
    if (!reader.Read(&request) || !request.has_header()) {
      return absl::InvalidArgumentError("header: must come first");
    }
    const v1::PeerCheckpoint header = request.header();
    RETURN_IF_ERROR(CheckKey(header.job(), header.step(), header.attempt()));
    if (header.job() != granted.job) {
      return absl::UnauthenticatedError(absl::StrCat(
          "no grant of the coordinator for ", header.job(), " here"));
    }
    if (header.attempt() > granted.attempt) {
      return absl::InvalidArgumentError(
          "attempt: a state of a later attempt than the caller's");
    }
    if (header.size_bytes() < 0) {
      return absl::InvalidArgumentError("size_bytes: negative");
    }
    RETURN_IF_ERROR(cache_->CheckFits(header.size_bytes()));
    const auto size = static_cast<size_t>(header.size_bytes());
    // Memory is not reserved up front, because the announced size is only a
    // claim.
    std::string contents;
    RETURN_IF_ERROR(transfer.Move());
    while (reader.Read(&request)) {
      if (contents.size() + request.data().size() > size) {
        return absl::DataLossError("data: more than size_bytes");
      }
      RETURN_IF_ERROR(transfer.Move(request.data().size()));
      contents += request.data();
    }
    if (contents.size() != size || Sha256Hex(contents) != header.sha256() ||
        !IsWhole(contents)) {
      return absl::DataLossError("data: size or checksum differ");
    }
    return cache_->Put(header.job(),
                       {header.step(), header.snapshot(), header.attempt()},
                       std::move(contents));
  }

  grpc::Status ListCheckpoints(grpc::ServerContext* context,
                               const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    const auto list = [&]() -> absl::Status {
      if (!ParseJobName(request->job())) {
        return absl::InvalidArgumentError("job: malformed name");
      }
      RETURN_IF_ERROR(Authenticate(*context, request->job()).status());
      std::vector<CheckpointName> names =
          ListCheckpointFiles(folders_->Checkpoints(request->job()));
      for (const auto& entry : cache_->List(request->job())) {
        names.push_back(entry.name);
      }
      std::sort(names.begin(), names.end(), IsOlder);
      for (const CheckpointName& name : names) {
        v1::PeerCheckpoint* one = response->add_checkpoints();
        one->set_job(request->job());
        one->set_step(name.step);
        one->set_snapshot(name.snapshot);
        one->set_attempt(name.attempt);
      }
      return absl::OkStatus();
    };
    return ToGrpcStatus(list());
  }

  grpc::Status GetCheckpoint(
      grpc::ServerContext* context, const v1::GetCheckpointRequest* request,
      grpc::ServerWriter<v1::GetCheckpointResponse>* writer) override {
    return ToGrpcStatus(Get(context, *request, writer));
  }

  absl::Status Get(grpc::ServerContext* context,
                   const v1::GetCheckpointRequest& request,
                   grpc::ServerWriter<v1::GetCheckpointResponse>* writer) {
    RETURN_IF_ERROR(CheckKey(request.job(), request.step(), request.attempt()));
    RETURN_IF_ERROR(Authenticate(*context, request.job()).status());
    if (request.offset() < 0) {
      return absl::InvalidArgumentError("offset: negative");
    }
    ASSIGN_OR_RETURN(const auto transfer,
                     transfers_.BeginRead(request.job(),
                                          [context] { context->TryCancel(); }));
    const StateKey key = {request.attempt(), request.step()};
    // What is in memory has been verified; what is on disk is verified by the
    // worker that asks, because a part may be all that it needs.
    if (const auto copy = cache_->Get(request.job(), key)) {
      return SendCopy(*copy, request.offset(), writer, *transfer);
    }
    const PathBelow folder = folders_->Checkpoints(request.job());
    for (const CheckpointName& name :
         NamesOf(key, ListCheckpointFiles(folder))) {
      const absl::StatusOr<CheckpointFile> file =
          CheckpointFile::Open(folder.Child(ToFileName(name)));
      // The trainer may just have deleted it.
      if (!file.ok()) continue;
      PartWriter parts(file->size(), writer, transfer.get());
      RETURN_IF_ERROR(CheckOffset(request.offset(), file->size()));
      RETURN_IF_ERROR(parts.Send(""));
      return file->Read(request.offset(), [&](std::string_view data) {
        return parts.Send(data);
      });
    }
    return absl::NotFoundError("there is no such checkpoint");
  }

  static absl::Status CheckOffset(int64_t offset, int64_t size) {
    if (offset <= size) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("offset: ", offset, " of ", size));
  }

  static absl::Status SendCopy(
      const std::string& copy, int64_t offset,
      grpc::ServerWriter<v1::GetCheckpointResponse>* writer,
      PeerTransfers::Transfer& transfer) {
    RETURN_IF_ERROR(CheckOffset(offset, static_cast<int64_t>(copy.size())));
    PartWriter parts(static_cast<int64_t>(copy.size()), writer, &transfer);
    RETURN_IF_ERROR(parts.Send(""));
    std::string_view rest = std::string_view(copy).substr(offset);
    while (!rest.empty()) {
      RETURN_IF_ERROR(parts.Send(rest.substr(0, kChunkBytes)));
      rest.remove_prefix(std::min(rest.size(), kChunkBytes));
    }
    return absl::OkStatus();
  }

  ReplicaCache* const cache_;
  const JobFolders* const folders_;
  PeerKeys* const keys_;
  PeerTransfers transfers_;
};

PeerServer::PeerServer() = default;

PeerServer::~PeerServer() {
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
}

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(
    const Options& options, ReplicaCache* cache, const JobFolders* folders,
    PeerKeys* keys) {
  if (options.credentials == nullptr && !options.insecure) {
    RETURN_IF_ERROR(CheckPlainPeers(options.host));
  }
  std::unique_ptr<PeerServer> peers(new PeerServer());
  PeerTransfers::Options transfers;
  transfers.max_bytes = cache->max_bytes();
  transfers.idle = options.idle;
  transfers.interval = std::min(options.idle, absl::Seconds(1));
  peers->service_ =
      std::make_unique<Service>(cache, folders, keys, std::move(transfers));
  const bool bare_v6 = absl::StrContains(options.host, ":") &&
                       !absl::StartsWith(options.host, "[");
  const std::string host =
      bare_v6 ? absl::StrCat("[", options.host, "]") : options.host;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(absl::StrCat(host, ":", options.port),
                           options.credentials != nullptr
                               ? options.credentials
                               : grpc::InsecureServerCredentials(),
                           &port);
  // Two workers on one machine must not share a port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // A call holds a thread; those beyond are refused with RESOURCE_EXHAUSTED.
  grpc::ResourceQuota quota("peers");
  quota.SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(quota);
  builder.RegisterService(peers->service_.get());
  for (grpc::Service* service : options.services) {
    builder.RegisterService(service);
  }
  peers->server_ = builder.BuildAndStart();
  if (peers->server_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", host, ":", options.port));
  }
  peers->address_ = absl::StrCat(host, ":", port);
  return peers;
}

}  // namespace comera::worker
