// Finds uploads whose clients send nothing.
#include "server/host/idle_streams.h"

#include <utility>
#include <vector>

namespace comera::server {

void IdleStreams::Await(const void* stream, std::function<void()> end) {
  waiting_[stream] = {clock_->Now(), std::move(end)};
}

void IdleStreams::Forget(const void* stream) { waiting_.erase(stream); }

void IdleStreams::EndIdle() {
  const absl::Time now = clock_->Now();
  std::vector<std::function<void()>> idle;
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (now - one->second.since < limit_) {
      ++one;
      continue;
    }
    idle.push_back(std::move(one->second.end));
    one = waiting_.erase(one);
  }
  for (const std::function<void()>& end : idle) end();
}

}  // namespace comera::server
