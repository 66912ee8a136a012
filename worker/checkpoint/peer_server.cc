// The PeerService handlers: store, list and send training states.

#include "worker/checkpoint/peer_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::worker {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int kMaxMessageBytes = 4 << 20;
// The largest number of twelve digits.
constexpr int64_t kMaxStep = 999'999'999'999;

absl::Status CheckHeader(const v1::PeerCheckpoint& header, size_t room) {
  if (!ParseJobName(header.job())) {
    return absl::InvalidArgumentError("job: malformed name");
  }
  if (header.step() < 0 || header.step() > kMaxStep) {
    return absl::InvalidArgumentError("step: out of range");
  }
  if (header.size_bytes() < 0 ||
      static_cast<size_t>(header.size_bytes()) > room) {
    return absl::ResourceExhaustedError(
        absl::StrCat("size_bytes: ", header.size_bytes(), " of ", room));
  }
  return absl::OkStatus();
}

}  // namespace

class PeerServer::Service : public v1::PeerService::Service {
 public:
  Service(ReplicaCache* cache, const JobFolders* folders, const PeerKeys* keys)
      : cache_(cache), folders_(folders), keys_(keys) {}

 private:
  absl::Status Authenticate(const grpc::ServerContext& context) const {
    const auto& metadata = context.client_metadata();
    const auto key = metadata.find(kPeerKeyMetadata);
    if (key != metadata.end() &&
        keys_->Accepts(std::string(key->second.data(), key->second.size()))) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError("not a worker of this cluster");
  }

  grpc::Status PutCheckpoint(
      grpc::ServerContext* context,
      grpc::ServerReader<v1::PutCheckpointRequest>* reader,
      v1::PutCheckpointResponse*) override {
    return ToGrpcStatus(Put(*context, *reader));
  }

  absl::Status Put(const grpc::ServerContext& context,
                   grpc::ServerReader<v1::PutCheckpointRequest>& reader) {
    RETURN_IF_ERROR(Authenticate(context));
    v1::PutCheckpointRequest request;
    if (!reader.Read(&request) || !request.has_header()) {
      return absl::InvalidArgumentError("header: must come first");
    }
    const v1::PeerCheckpoint header = request.header();
    RETURN_IF_ERROR(CheckHeader(header, cache_->max_bytes()));
    const auto size = static_cast<size_t>(header.size_bytes());
    // Memory is not reserved up front, because the announced size is only a
    // claim.
    std::string contents;
    while (reader.Read(&request)) {
      if (contents.size() + request.data().size() > size) {
        return absl::DataLossError("data: more than size_bytes");
      }
      contents += request.data();
    }
    if (contents.size() != size || Sha256Hex(contents) != header.sha256() ||
        !IsWhole(contents)) {
      return absl::DataLossError("data: size or checksum differ");
    }
    return cache_->Put(header.job(), {header.step(), header.snapshot()},
                       std::move(contents));
  }

  grpc::Status ListCheckpoints(grpc::ServerContext* context,
                               const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    const auto list = [&]() -> absl::Status {
      RETURN_IF_ERROR(Authenticate(*context));
      if (!ParseJobName(request->job())) {
        return absl::InvalidArgumentError("job: malformed name");
      }
      std::vector<CheckpointName> names =
          ListCheckpointFiles(folders_->Checkpoints(request->job()));
      for (const auto& entry : cache_->List(request->job())) {
        names.push_back(entry.name);
      }
      std::sort(names.begin(), names.end(),
                [](const CheckpointName& a, const CheckpointName& b) {
                  return a.step < b.step;
                });
      for (const CheckpointName& name : names) {
        v1::PeerCheckpoint* one = response->add_checkpoints();
        one->set_job(request->job());
        one->set_step(name.step);
        one->set_snapshot(name.snapshot);
      }
      return absl::OkStatus();
    };
    return ToGrpcStatus(list());
  }

  grpc::Status GetCheckpoint(
      grpc::ServerContext* context, const v1::GetCheckpointRequest* request,
      grpc::ServerWriter<v1::GetCheckpointResponse>* writer) override {
    const auto find = [&]() -> absl::StatusOr<ReplicaCache::Contents> {
      RETURN_IF_ERROR(Authenticate(*context));
      if (!ParseJobName(request->job()) || request->step() < 0 ||
          request->step() > kMaxStep) {
        return absl::InvalidArgumentError("job or step: malformed");
      }
      if (auto copy = cache_->Get(request->job(), request->step())) return copy;
      for (bool snapshot : {false, true}) {
        absl::StatusOr<std::string> contents =
            ReadFile(absl::StrCat(folders_->Checkpoints(request->job()), "/",
                                  ToFileName({request->step(), snapshot})));
        if (contents.ok() && IsWhole(*contents)) {
          return std::make_shared<const std::string>(*std::move(contents));
        }
      }
      return absl::NotFoundError("there is no such checkpoint");
    };
    const absl::StatusOr<ReplicaCache::Contents> contents = find();
    if (!contents.ok()) return ToGrpcStatus(contents.status());
    v1::GetCheckpointResponse response;
    for (size_t at = 0; at < (*contents)->size(); at += kChunkBytes) {
      response.set_data((*contents)->substr(at, kChunkBytes));
      if (!writer->Write(response)) break;
    }
    return grpc::Status::OK;
  }

  ReplicaCache* const cache_;
  const JobFolders* const folders_;
  const PeerKeys* const keys_;
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
    const PeerKeys* keys) {
  std::unique_ptr<PeerServer> peers(new PeerServer());
  peers->service_ = std::make_unique<Service>(cache, folders, keys);
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
