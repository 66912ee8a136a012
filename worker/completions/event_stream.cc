// Writes server-sent events at the pace at which they are read.

#include "worker/completions/event_stream.h"

#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace comera::worker {
namespace {

// The reader's pace is looked at after each, so that a slow one is not waited
// for long after the deadline.
constexpr size_t kSlice = 4096;

// Returns false if the reader has gone or takes nothing.
bool WriteAndWait(HttpExchange* exchange, absl::string_view slice) {
  const auto written = std::make_shared<std::promise<bool>>();
  exchange->Write(std::string(slice),
                  [written](bool ok) { written->set_value(ok); });
  return written->get_future().get();
}

}  // namespace

EventStream::EventStream(HttpExchange* exchange, absl::Time deadline)
    : exchange_(exchange),
      deadline_(deadline),
      begin_at_(absl::Now() + kSilence) {}

void EventStream::Begin() {
  if (begun_) return;
  begun_ = true;
  HttpResponse head;
  head.headers = {{"Content-Type", "text/event-stream"},
                  {"Cache-Control", "no-store"},
                  {"X-Content-Type-Options", "nosniff"}};
  exchange_->BeginStream(std::move(head), ":\n\n");
}

bool EventStream::Send(absl::string_view data) {
  if (broken_) return false;
  Begin();
  const std::string event = absl::StrCat("data: ", data, "\n\n");
  absl::string_view left = event;
  while (!left.empty() && !broken_) {
    const absl::string_view slice = left.substr(0, kSlice);
    left.remove_prefix(slice.size());
    broken_ = !WriteAndWait(exchange_, slice) ||
              (!left.empty() && absl::Now() > deadline_);
  }
  return !broken_;
}

bool EventStream::KeepAlive() {
  if (!begun_ && absl::Now() >= begin_at_) Begin();
  return !broken_;
}

void EventStream::End() {
  if (!broken_) exchange_->End();
}

}  // namespace comera::worker
