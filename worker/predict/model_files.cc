// Downloads and verifies the files of a model to serve.

#include "worker/predict/model_files.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {
namespace {

constexpr int kMaxFiles = 64;
constexpr int kMostListed = 1000;

constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

// One call to the coordinator, and its events.
class Call {
 public:
  Call(absl::Time deadline, const std::function<bool()>& gone) : gone_(gone) {
    context_.set_deadline(absl::ToChronoTime(deadline));
  }
  ~Call() {
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Waits for the event that was asked for last; returns false if it failed.
  bool Wait() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.AsyncNext(&tag, &ok,
                            absl::ToChronoTime(absl::Now() + kLookInterval)) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (!left_ && gone_()) {
        left_ = true;
        context_.TryCancel();
      }
    }
    return ok;
  }

  // Waits for the call's end. `reader` is a client's reader of gRPC.
  template <typename Reader, typename... Response>
  absl::Status Finish(Reader* reader, Response*... response) {
    grpc::Status status;
    reader->Finish(response..., &status, nullptr);
    Wait();
    if (left_) return absl::CancelledError("the caller has gone");
    return FromGrpcStatus(status);
  }

 private:
  const std::function<bool()>& gone_;
  bool left_ = false;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
};

bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.size() < 256 &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

absl::StatusOr<std::string> Download(v1::TrainingService::Stub& stub,
                                     const GrantedModel& granted,
                                     const v1::ArtifactFile& file, Call* call) {
  const std::string& model = granted.model.name();
  v1::DownloadArtifactRequest request;
  request.set_name(model);
  request.set_ticket(granted.download_ticket);
  request.set_path(file.path());
  const auto reader = stub.AsyncDownloadArtifact(call->context(), request,
                                                 call->queue(), nullptr);
  bool more = call->Wait();
  std::string contents;
  v1::DownloadArtifactResponse part;
  const auto size = static_cast<size_t>(file.size_bytes());
  bool fits = true;
  while (more && fits) {
    reader->Read(&part, nullptr);
    more = call->Wait();
    if (!more) break;
    fits = part.offset() == static_cast<int64_t>(contents.size()) &&
           contents.size() + part.data().size() <= size;
    if (fits) contents.append(part.data());
  }
  if (!fits) call->context()->TryCancel();
  const absl::Status status = call->Finish(reader.get());
  // The coordinator's limits pass, unlike the room for models here.
  if (fits && absl::IsResourceExhausted(status)) {
    return absl::UnavailableError(status.message());
  }
  if (fits) RETURN_IF_ERROR(status);
  if (!fits || contents.size() != size ||
      Sha256Hex(contents) != file.sha256()) {
    return absl::DataLossError(absl::StrCat(
        model, ": ", file.path(), " is not what the coordinator announced"));
  }
  return contents;
}

absl::StatusOr<v1::RedeemTicketResponse> Redeem(
    const CoordinatorChannels& channels, const std::string& ticket,
    absl::Time deadline, const std::function<bool()>& gone) {
  const auto stub = v1::WorkerService::NewStub(channels.own);
  Call call(deadline, gone);
  v1::RedeemTicketRequest request;
  request.set_ticket(ticket);
  v1::RedeemTicketResponse response;
  const auto reader =
      stub->AsyncRedeemTicket(call.context(), request, call.queue());
  RETURN_IF_ERROR(call.Finish(reader.get(), &response));
  return response;
}

bool IsThere(const std::string& path, const v1::ArtifactFile& file) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  return contents.ok() &&
         static_cast<int64_t>(contents->size()) == file.size_bytes() &&
         Sha256Hex(*contents) == file.sha256();
}

}  // namespace

absl::StatusOr<GrantedModel> AskForModel(const CoordinatorChannels& channels,
                                         const std::string& name,
                                         const std::string& ticket,
                                         absl::Time deadline,
                                         const std::function<bool()>& gone) {
  if (!ticket.empty()) {
    ASSIGN_OR_RETURN(v1::RedeemTicketResponse redeemed,
                     Redeem(channels, ticket, deadline, gone));
    if (redeemed.model().name() != name) {
      return absl::PermissionDeniedError(
          absl::StrCat("the ticket is for ", redeemed.model().name()));
    }
    return GrantedModel{
        std::move(*redeemed.mutable_model()->mutable_artifact()),
        redeemed.download_ticket(),
        absl::FromUnixSeconds(redeemed.expire_time().seconds())};
  }
  const auto stub = v1::ModelService::NewStub(channels.anonymous);
  Call call(deadline, gone);
  v1::GetModelRequest request;
  request.set_name(name);
  v1::Model model;
  const auto reader =
      stub->AsyncGetModel(call.context(), request, call.queue());
  RETURN_IF_ERROR(call.Finish(reader.get(), &model));
  GrantedModel granted;
  granted.model = std::move(*model.mutable_artifact());
  return granted;
}

absl::StatusOr<std::vector<v1::Model>> AskForModels(
    const CoordinatorChannels& channels, const std::string& ticket,
    absl::Time deadline, const std::function<bool()>& gone) {
  if (!ticket.empty()) {
    ASSIGN_OR_RETURN(const v1::RedeemTicketResponse redeemed,
                     Redeem(channels, ticket, deadline, gone));
    return std::vector<v1::Model>{redeemed.model()};
  }
  const auto stub = v1::ModelService::NewStub(channels.anonymous);
  Call call(deadline, gone);
  v1::ListModelsRequest request;
  request.set_page_size(kMostListed);
  v1::ListModelsResponse response;
  const auto reader =
      stub->AsyncListModels(call.context(), request, call.queue());
  RETURN_IF_ERROR(call.Finish(reader.get(), &response));
  return std::vector<v1::Model>(response.models().begin(),
                                response.models().end());
}

absl::Status FetchModel(const CoordinatorChannels& channels,
                        const GrantedModel& granted, int64_t max_bytes,
                        const std::string& folder, absl::Time deadline,
                        const std::function<bool()>& gone) {
  const v1::Artifact& model = granted.model;
  int64_t bytes = 0;
  if (model.files_size() == 0 || model.files_size() > kMaxFiles) {
    return absl::DataLossError(
        absl::StrCat(model.name(), ": ", model.files_size(), " files"));
  }
  for (const v1::ArtifactFile& file : model.files()) {
    if (!IsPlainName(file.path()) || file.size_bytes() < 0) {
      return absl::DataLossError(
          absl::StrCat(model.name(), " names a file that is none"));
    }
    if (file.size_bytes() > max_bytes - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          model.name(), ": its files have more than ", max_bytes, " bytes"));
    }
    bytes += file.size_bytes();
  }
  RETURN_IF_ERROR(MakeDirectories(folder));
  const auto stub = v1::TrainingService::NewStub(
      granted.download_ticket.empty() ? channels.anonymous : channels.own);
  for (const v1::ArtifactFile& file : model.files()) {
    const std::string path = absl::StrCat(folder, "/", file.path());
    if (IsThere(path, file)) continue;
    Call call(deadline, gone);
    ASSIGN_OR_RETURN(const std::string contents,
                     Download(*stub, granted, file, &call));
    RETURN_IF_ERROR(WriteFileAtomically(path, contents));
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
