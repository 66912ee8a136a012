// Streams a text that a worker generates to a caller who cannot reach one.
#include "server/api/generate_stream.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
constexpr int kMaxTextsOfOne = 4;
constexpr int kMaxNewTokens = 512;
constexpr size_t kMaxPromptBytes = 8192;
constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
// A bound for workers that do not keep to max_tokens; 512 tokens have less.
constexpr size_t kMaxAnswerBytes = 1 << 20;
constexpr size_t kMaxWorkersAsked = 4;
constexpr absl::Duration kTicketLifetime = absl::Minutes(1);
// A text's time, in which the worker may first have to download the model.
constexpr absl::Duration kTimeout = absl::Minutes(5);

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
                        absl::StrCat("must be at most ", kMaxNewTokens));
  }
  if (request.stop_size() > kMaxStops) {
    return InvalidField("stop",
                        absl::StrCat("has more than ", kMaxStops, " texts"));
  }
  for (const std::string& stop : request.stop()) {
    if (stop.size() > kMaxStopBytes) {
      return InvalidField("stop", absl::StrCat("has a text of more than ",
                                               kMaxStopBytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

// Whether another worker may answer otherwise. A worker refuses tickets if its
// own token has ended.
bool IsOfTheWorker(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnimplemented(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status);
}

// What the caller is told of a worker's refusal: without the worker's details,
// which clients would take for the coordinator's, and never that the caller is
// unknown.
absl::Status ToldOf(const std::string& worker, const absl::Status& status) {
  if (status.ok()) return status;
  const bool of_the_caller =
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
      absl::IsNotFound(status) || absl::IsResourceExhausted(status);
  return absl::Status(
      of_the_caller ? status.code() : absl::StatusCode::kUnavailable,
      absl::StrCat(worker, ": ", status.message()));
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
    const auto own = running_->of_user.find(caller_->user());
    if (running_->count >= kMaxTexts ||
        (own != running_->of_user.end() && own->second >= kMaxTextsOfOne)) {
      return End(absl::ResourceExhaustedError(
          "too many texts are being generated through the coordinator: try "
          "again later"));
    }
    ++running_->count;
    ++running_->of_user[caller_->user()];
    counted_ = true;
    const std::weak_ptr<GenerateStream> weak = Self();
    listener_ = host().AddListener("", [weak] {
      if (const auto self = weak.lock()) self->Wake();
    });
    host().loop().PostAfter(kTimeout, [weak] {
      const auto self = weak.lock();
      if (self == nullptr || self->ended()) return;
      self->End(absl::UnavailableError("the text took more than 5 minutes"));
    });
    using Servers = std::vector<v1::WorkerSummary>;
    host().RunQuery<Servers>(
        [self = Self()](const Coordinator& coordinator,
                        absl::Time now) -> absl::StatusOr<Servers> {
          RETURN_IF_ERROR(self->CheckModel());
          return coordinator.ModelServers(now);
        },
        [self = Self()](const absl::StatusOr<Servers>& servers) {
          if (self->ended()) return;
          if (!servers.ok()) return self->End(servers.status());
          const size_t asked = std::min(servers->size(), kMaxWorkersAsked);
          self->servers_.assign(servers->begin(), servers->begin() + asked);
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
    worker_ = server.name();
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
    if (!text.ok()) {
      if (ended()) return;
      refusal_ = text.status();
      return AskNext();
    }
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
    const absl::Status told = ToldOf(worker_, status);
    if (begun_ || !IsOfTheWorker(status)) return End(told);
    refusal_ = told;
    AskNext();
  }

  void Next() override {
    if (finished_) return End(absl::OkStatus());
    if (!piece_) return ReadOn();
    begun_ = true;
    bytes_ += piece_->text().size();
    if (bytes_ > kMaxAnswerBytes) {
      return End(ToldOf(worker_, absl::InternalError("too long a text")));
    }
    finished_ = piece_->finish() != v1::GenerateResponse::FINISH_UNSPECIFIED;
    Write(*std::exchange(piece_, std::nullopt));
  }

  void Close() override {
    if (counted_) {
      --running_->count;
      const auto own = running_->of_user.find(caller_->user());
      if (--own->second == 0) running_->of_user.erase(own);
    }
    if (listener_ != 0) host().RemoveListener("", listener_);
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
  int64_t listener_ = 0;
  // Workers that were not asked yet.
  std::deque<v1::WorkerSummary> servers_;
  // The reason why the last worker that was asked did not answer.
  absl::Status refusal_ = absl::FailedPreconditionError(
      "no connected worker serves models to the coordinator's machine: start "
      "one with --address");
  // The worker that is asked.
  std::string worker_;
  std::shared_ptr<WorkerText> text_;
  bool reading_ = false;
  std::optional<v1::GenerateResponse> piece_;
  // Whether the caller has a piece, so that no other worker may go on.
  bool begun_ = false;
  // Whether the caller has, or is being sent, the last piece.
  bool finished_ = false;
  size_t bytes_ = 0;
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
