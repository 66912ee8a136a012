// Calls workers' PredictService for callers who cannot reach a worker.
#include "server/api/worker_texts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/grpc_status.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "server/host/commit.h"

namespace comera::server {

class WorkerTexts::Call : public WorkerText,
                          public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(WorkerTexts* texts, const std::shared_ptr<grpc::Channel>& channel,
       const std::string& ticket, const v1::GenerateRequest& request,
       Events events)
      : texts_(texts),
        stub_(v1::PredictService::NewStub(channel)),
        request_(request),
        events_(std::move(events)) {
    context_.AddMetadata(kTicketMetadata, ticket);
  }

  void Run(std::shared_ptr<Call> self) {
    self_ = std::move(self);
    stub_->async()->Generate(&context_, &request_, this);
    // Until the stream's end, so that Read() may come from any thread.
    AddHold();
    StartCall();
  }

  void Read() override { StartRead(&piece_); }
  void Cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();
    events_.on_piece(std::move(piece_));
  }
  void OnDone(const grpc::Status& status) override {
    WorkerTexts* const texts = texts_;
    std::exchange(events_, {}).on_end(FromGrpcStatus(status));
    self_.reset();
    texts->End();
  }

  WorkerTexts* const texts_;
  const std::unique_ptr<v1::PredictService::Stub> stub_;
  const v1::GenerateRequest request_;
  Events events_;
  grpc::ClientContext context_;
  v1::GenerateResponse piece_;
  // Until the end.
  std::shared_ptr<Call> self_;
};

absl::StatusOr<std::shared_ptr<WorkerText>> WorkerTexts::Start(
    const std::string& address, const std::string& ticket,
    const v1::GenerateRequest& request, Events events) {
  if (options_.security.ca_file.empty() && !options_.unencrypted &&
      !IsLoopback(address.substr(0, address.rfind(':')))) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the text and a ticket for the model would travel to ", address,
        " unencrypted: the coordinator needs --tls_client_ca"));
  }
  ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::Channel> channel,
      OpenChannel(address, options_.security, grpc::ChannelArguments()));
  RETURN_IF_ERROR(Begin());
  auto call =
      std::make_shared<Call>(this, channel, ticket, request, std::move(events));
  call->Run(call);
  return std::shared_ptr<WorkerText>(std::move(call));
}

absl::Status WorkerTexts::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return StoppingError();
  ++calls_;
  return absl::OkStatus();
}

void WorkerTexts::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--calls_ == 0) idle_.notify_all();
}

void WorkerTexts::Stop() {
  std::unique_lock<std::mutex> lock(mutex_);
  stopped_ = true;
  idle_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_ == 0;
  });
}

}  // namespace comera::server
