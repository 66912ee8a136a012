// Delivers notes of changed states to a URL.
#include "server/webhook/webhook.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/backoff.h"
#include "common/log.h"
#include "common/loopback.h"
#include "common/steady_time.h"

namespace comera::server {
namespace {

constexpr size_t kMinKey = 24;

// Answers that the same note would get again.
bool IsRefusal(int code) {
  static const std::set<int>* const codes =
      new std::set<int>{400, 405, 406, 410, 413, 414, 415, 422, 501};
  return codes->count(code) > 0;
}

}  // namespace

Webhook::Webhook(Options options, Clock* clock, Post post)
    : options_(std::move(options)), clock_(clock), post_(std::move(post)) {}

Webhook::~Webhook() { Stop(); }

void Webhook::Start(const std::vector<Document>& left,
                    std::function<void(const std::string& id)> forget) {
  forget_ = std::move(forget);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<Waiting> all;
    for (const Document& note : left) {
      if (note.body) all.push_back({{note.name, *note.body}, SteadyNow()});
    }
    // Jobs may have changed since the host was started.
    all.insert(all.end(), waiting_.begin(), waiting_.end());
    waiting_ = std::move(all);
  }
  thread_ = std::thread([this] { Loop(); });
}

void Webhook::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Webhook::Figures Webhook::figures() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Figures figures = figures_;
  figures.waiting = static_cast<int64_t>(waiting_.size());
  return figures;
}

bool Webhook::IsTold(const v1::JobEvent& event) const {
  return event.has_state_change() &&
         (options_.states.empty() ||
          options_.states.count(event.state_change().state()) > 0);
}

void Webhook::AddTo(const Effects& effects, StoreBatch* batch) {
  for (const v1::JobEvent& event : effects.events) {
    const auto record = effects.records.find(event.job());
    if (!IsTold(event) || record == effects.records.end()) continue;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const bool full =
          waiting_.size() + written_.size() >= options_.max_waiting;
      LOG_IF(ERROR, full && !full_)
          << "event=webhook_full notes=" << waiting_.size()
          << " text=\"changes of jobs are not told until the receiver answers "
             "again\"";
      full_ = full;
      if (full) {
        ++figures_.given_up;
        continue;
      }
    }
    StateNote note = MakeNote(event, record->second.job());
    batch->documents.push_back({kKind, note.id, note.body});
    written_[note.id] = std::move(note);
  }
}

void Webhook::OnCommitted(const Effects& effects) {
  bool added = false;
  for (const v1::JobEvent& event : effects.events) {
    if (!IsTold(event)) continue;
    const auto note = written_.find(MakeNote(event, v1::Job()).id);
    if (note == written_.end()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back({std::move(note->second), SteadyNow()});
    written_.erase(note);
    added = true;
  }
  if (added) wake_.notify_all();
}

Webhook::Result Webhook::Deliver(const StateNote& note) {
  const int64_t seconds = absl::ToUnixSeconds(clock_->Now());
  WebRequest request;
  request.url = options_.url;
  request.plain_http = absl::StartsWith(options_.url, "http:");
  request.body = note.body;
  request.headers = {
      {"Content-Type", "application/json"},
      {"webhook-id", note.id},
      {"webhook-timestamp", absl::StrCat(seconds)},
      {"webhook-signature", SignNote(options_.key, note, seconds)}};
  request.cancelled = &stop_;
  const absl::StatusOr<WebAnswer> answer = post_(request);
  if (stop_) return Result::kTryAgain;
  if (!answer.ok()) {
    LOG(WARNING) << "event=webhook_not_delivered id=" << note.id << " status=\""
                 << answer.status() << "\"";
    return Result::kTryAgain;
  }
  if (answer->code >= 200 && answer->code < 300) return Result::kDelivered;
  const bool refused = IsRefusal(answer->code);
  LOG(WARNING) << "event=webhook_" << (refused ? "refused" : "not_delivered")
               << " id=" << note.id << " http=" << answer->code;
  return refused ? Result::kRefused : Result::kTryAgain;
}

void Webhook::Finish(Result result) {
  ++(result == Result::kDelivered ? figures_.delivered : figures_.given_up);
  const std::string id = std::move(waiting_.front().note.id);
  waiting_.pop_front();
  forget_(id);
}

void Webhook::Loop() {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (waiting_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Waiting first = waiting_.front();
    lock.unlock();
    const Result result = Deliver(first.note);
    lock.lock();
    if (stop_) return;
    if (result != Result::kTryAgain) {
      Finish(result);
      backoff.Reset();
      continue;
    }
    if (SteadyNow() - first.since > options_.keep) {
      LOG(ERROR) << "event=webhook_given_up id=" << first.note.id;
      Finish(result);
      continue;
    }
    wake_.wait_for(lock, absl::ToChronoNanoseconds(backoff.Next()),
                   [this] { return stop_.load(); });
  }
}

absl::StatusOr<std::string> ParseWebhookKey(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  std::string key(text);
  if (absl::ConsumePrefix(&text, "whsec_") &&
      !absl::Base64Unescape(text, &key)) {
    return absl::InvalidArgumentError("what follows whsec_ is not base64");
  }
  if (key.size() < kMinKey) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key has at least ", kMinKey, " bytes"));
  }
  return key;
}

absl::Status CheckWebhookUrl(const std::string& url) {
  absl::string_view rest = url;
  const bool plain = absl::ConsumePrefix(&rest, "http://");
  if (!plain && !absl::ConsumePrefix(&rest, "https://")) {
    return absl::InvalidArgumentError(
        "a URL that begins with https:// is needed");
  }
  const absl::string_view place = rest.substr(0, rest.find_first_of("/?#"));
  if (place.empty()) return absl::InvalidArgumentError("the URL names no host");
  if (absl::StrContains(place, "@")) {
    return absl::InvalidArgumentError(
        "the URL holds a user, which others on this machine could see");
  }
  const size_t colon = place.rfind(':');
  const bool port = colon != absl::string_view::npos && place.back() != ']';
  if (plain &&
      !IsLoopback(std::string(port ? place.substr(0, colon) : place))) {
    return absl::InvalidArgumentError(
        "http:// is for receivers on this machine, others need https://");
  }
  return absl::OkStatus();
}

}  // namespace comera::server
