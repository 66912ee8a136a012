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

// Answers that the same note would get again. Others may come from a key or an
// address that is about to be mended.
bool IsRefusal(int code) {
  static const std::set<int>* const codes =
      new std::set<int>{410, 413, 414, 415, 422, 501};
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
    std::vector<std::pair<absl::Time, StateNote>> by_time;
    for (const Document& document : left) {
      if (!document.body) continue;
      StateNote note = {document.name, *document.body, ""};
      note.user = UserOfNote(note);
      AddBytes(note);
      by_time.emplace_back(TimeOfNote(note), std::move(note));
    }
    std::stable_sort(
        by_time.begin(), by_time.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    std::deque<Waiting> all;
    for (auto& [time, note] : by_time) {
      all.push_back({std::move(note), SteadyNow()});
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
    StateNote note = MakeNote(event, record->second.job());
    if (!Reserve(note)) continue;
    batch->documents.push_back({kKind, note.id, note.body});
    written_[note.id] = std::move(note);
  }
}

bool Webhook::Reserve(const StateNote& note) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = user_bytes_.find(note.user);
  const bool all_full = bytes_ >= options_.max_bytes;
  const bool full = all_full || (own != user_bytes_.end() &&
                                 own->second >= options_.max_user_bytes);
  if (!full) {
    full_.erase(note.user);
    AddBytes(note);
    return true;
  }
  ++figures_.given_up;
  LOG_IF(ERROR, full_.insert(note.user).second)
      << "event=webhook_full notes=" << waiting_.size() << " user=\""
      << absl::CHexEscape(note.user) << "\" of=" << (all_full ? "all" : "user")
      << " text=\"changes of this user's jobs are not told until the receiver "
         "has taken earlier ones\"";
  return false;
}

void Webhook::AddBytes(const StateNote& note) {
  bytes_ += note.body.size();
  user_bytes_[note.user] += note.body.size();
}

void Webhook::OnCommitted(const Effects& effects) {
  bool added = false;
  for (const v1::JobEvent& event : effects.events) {
    if (!IsTold(event)) continue;
    const auto note = written_.find(NoteId(event));
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
  request.code_only = true;
  request.cancelled = &stop_;
  const absl::StatusOr<WebAnswer> answer = post_(request);
  if (!answer.ok()) {
    LOG_IF(WARNING, !stop_) << "event=webhook_not_delivered id=" << note.id
                            << " status=\"" << answer.status() << "\"";
    return Result::kTryAgain;
  }
  if (answer->code >= 200 && answer->code < 300) return Result::kDelivered;
  const bool refused = IsRefusal(answer->code);
  LOG(WARNING) << "event=webhook_" << (refused ? "refused" : "not_delivered")
               << " id=" << note.id << " http=" << answer->code;
  return refused ? Result::kRefused : Result::kTryAgain;
}

std::string Webhook::Finish(Result result) {
  ++(result == Result::kDelivered ? figures_.delivered : figures_.given_up);
  const StateNote note = std::move(waiting_.front().note);
  waiting_.pop_front();
  bytes_ -= note.body.size();
  const auto own = user_bytes_.find(note.user);
  if ((own->second -= note.body.size()) == 0) user_bytes_.erase(own);
  return note.id;
}

std::vector<std::string> Webhook::GiveUpOld() {
  std::vector<std::string> ids;
  while (!waiting_.empty() &&
         SteadyNow() - waiting_.front().since > options_.keep) {
    ids.push_back(Finish(Result::kTryAgain));
  }
  if (!ids.empty()) {
    LOG(ERROR) << "event=webhook_given_up notes=" << ids.size()
               << " first=" << ids.front();
  }
  return ids;
}

void Webhook::Loop() {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (waiting_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const StateNote first = waiting_.front().note;
    lock.unlock();
    const Result result = Deliver(first);
    lock.lock();
    const bool done = result != Result::kTryAgain;
    if (stop_ && !done) return;
    const std::vector<std::string> ended =
        done ? std::vector<std::string>{Finish(result)} : GiveUpOld();
    lock.unlock();
    for (const std::string& id : ended) forget_(id);
    lock.lock();
    if (done) {
      backoff.Reset();
    } else {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(backoff.Next()),
                     [this] { return stop_.load(); });
    }
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
