// Streams a text that a worker generates to a caller who cannot reach one.
#include "server/api/generate_stream.h"

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/api/model_listing.h"
#include "server/host/loop_stream.h"

namespace comera::server {
namespace {

constexpr int kMaxTexts = 8;
constexpr int kMaxNewTokens = 512;
constexpr size_t kMaxPromptBytes = 8192;
constexpr absl::Duration kTicketLifetime = absl::Minutes(1);

absl::Status CheckRequest(const v1::GenerateRequest& request) {
  if (!ParseArtifactName(request.name())) {
    return InvalidField("name", "must be jobs/{job}/models/{model}");
  }
  if (request.prompt().size() > kMaxPromptBytes) {
    return InvalidField(
        "prompt", absl::StrCat("has more than ", kMaxPromptBytes, " bytes"));
  }
  if (request.max_tokens() < 0 || request.max_tokens() > kMaxNewTokens) {
    return InvalidField("max_tokens",
                        absl::StrCat("must be from 1 to ", kMaxNewTokens));
  }
  return absl::OkStatus();
}

// Whether another worker may answer otherwise.
bool IsOfTheWorker(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnimplemented(status);
}

class GenerateStream : public LoopStream<v1::GenerateResponse> {
 public:
  GenerateStream(CoordinatorHost* host, const TicketOffice* tickets,
                 std::shared_ptr<WorkerTexts> texts,
                 std::shared_ptr<RunningTexts> running,
                 std::shared_ptr<const Caller> caller,
                 const v1::GenerateRequest& request)
      : LoopStream(host, StillKnown(caller)),
        tickets_(tickets),
        texts_(std::move(texts)),
        running_(std::move(running)),
        caller_(std::move(caller)),
        request_(request) {}

 private:
  std::shared_ptr<GenerateStream> Self() {
    return std::static_pointer_cast<GenerateStream>(shared_from_this());
  }

  void Begin() override {
    const absl::Status status = CheckRequest(request_);
    if (!status.ok()) return End(status);
    if (running_->count >= kMaxTexts) {
      return End(absl::ResourceExhaustedError(
          absl::StrCat(kMaxTexts,
                       " texts are being generated through the "
                       "coordinator: try again later")));
    }
    ++running_->count;
    counted_ = true;
    host().RunQuery<v1::WorkerSummary>(
        [self = Self()](const Coordinator& coordinator,
                        absl::Time now) -> absl::StatusOr<v1::WorkerSummary> {
          RETURN_IF_ERROR(self->CheckModel());
          const auto servers = coordinator.ModelServers(now);
          self->servers_.assign(servers.begin(), servers.end());
          return v1::WorkerSummary();
        },
        [self = Self()](const absl::StatusOr<v1::WorkerSummary>& found) {
          if (self->ended()) return;
          if (!found.ok()) return self->End(found.status());
          self->AskNext();
        });
  }

  absl::Status CheckModel() {
    const v1::Job* job = nullptr;
    const v1::Artifact* model =
        FindModel(host().directory(), request_.name(), &job);
    if (job != nullptr) {
      RETURN_IF_ERROR(caller_->Check(Permission::kView, job->spec().queue()));
    }
    if (model == nullptr) {
      return absl::NotFoundError(absl::StrCat("no model ", request_.name()));
    }
    return absl::OkStatus();
  }

  void AskNext() {
    if (servers_.empty()) return End(refusal_);
    const v1::WorkerSummary server = std::move(servers_.front());
    servers_.pop_front();
    Ticket ticket;
    ticket.set_model(request_.name());
    ticket.set_worker(
        std::string(absl::StripPrefix(server.name(), "workers/")));
    ticket.set_user(caller_->user());
    ticket.set_token(caller_->token());
    // Certificates are read from files.
    host().io().Post([self = Self(), address = server.peer_address(),
                      text = tickets_->Issue(TicketOffice::Purpose::kUse,
                                             kTicketLifetime, &ticket)] {
      auto started =
          self->texts_->Start(address, text, self->request_, self->Events());
      self->host().loop().Post(
          [self, started = std::move(started)] { self->Started(started); });
    });
  }

  WorkerTexts::Events Events() {
    WorkerTexts::Events events;
    events.on_piece = [self = Self()](v1::GenerateResponse piece) {
      self->host().loop().Post([self, piece = std::move(piece)] {
        self->reading_ = false;
        if (self->ended()) return self->ReadOn();
        self->piece_ = piece;
        self->Wake();
      });
    };
    events.on_end = [self = Self()](const absl::Status& status) {
      self->host().loop().Post([self, status] { self->TextEnded(status); });
    };
    return events;
  }

  void Started(const absl::StatusOr<std::shared_ptr<WorkerText>>& text) {
    if (!text.ok()) return TextEnded(text.status());
    text_ = *text;
    if (ended()) text_->Cancel();
    ReadOn();
  }

  // What has been cancelled ends by a read, too.
  void ReadOn() {
    if (text_ == nullptr || reading_) return;
    reading_ = true;
    text_->Read();
  }

  void TextEnded(const absl::Status& status) {
    text_.reset();
    reading_ = false;
    if (ended()) return;
    if (!begun_ && IsOfTheWorker(status)) {
      refusal_ = status;
      return AskNext();
    }
    End(status);
  }

  void Next() override {
    if (piece_) {
      begun_ = true;
      Write(*std::exchange(piece_, std::nullopt));
    } else {
      ReadOn();
    }
  }

  void Close() override {
    if (counted_) --running_->count;
    if (text_ == nullptr) return;
    text_->Cancel();
    ReadOn();
  }

  const TicketOffice* const tickets_;
  const std::shared_ptr<WorkerTexts> texts_;
  const std::shared_ptr<RunningTexts> running_;
  const std::shared_ptr<const Caller> caller_;
  const v1::GenerateRequest request_;
  bool counted_ = false;
  // Workers that were not asked yet.
  std::deque<v1::WorkerSummary> servers_;
  // The reason why the last worker that was asked did not answer.
  absl::Status refusal_ = absl::FailedPreconditionError(
      "no connected worker serves models to the coordinator's machine: start "
      "one with --address");
  std::shared_ptr<WorkerText> text_;
  bool reading_ = false;
  std::optional<v1::GenerateResponse> piece_;
  // Whether the caller has a piece, so that no other worker may go on.
  bool begun_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    CoordinatorHost* host, const TicketOffice* tickets,
    std::shared_ptr<WorkerTexts> texts, std::shared_ptr<RunningTexts> running,
    std::shared_ptr<const Caller> caller, const v1::GenerateRequest& request) {
  return GenerateStream::Start(std::make_shared<GenerateStream>(
      host, tickets, std::move(texts), std::move(running), std::move(caller),
      request));
}

}  // namespace comera::server
