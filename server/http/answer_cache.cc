// Keeps recent answers for as long as nothing has changed.
#include "server/http/answer_cache.h"

#include <utility>

namespace comera::server {

std::shared_ptr<const Body> AnswerCache::Find(const std::string& key,
                                              int64_t changes, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.changes != changes ||
      now - found->second.time > options_.life) {
    return nullptr;
  }
  return found->second.body;
}

void AnswerCache::Put(const std::string& key, int64_t changes,
                      std::shared_ptr<const Body> body, absl::Time now) {
  Entry entry{changes, now, std::move(body), key.size()};
  for (const auto& bytes : {entry.body->bytes, entry.body->gzip}) {
    if (bytes != nullptr) entry.bytes += bytes->size();
  }
  if (entry.bytes > options_.max_answer_bytes) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& place = entries_[key];
  // A slower call that began before.
  if (place.body != nullptr && place.changes > changes) return;
  bytes_ += entry.bytes - place.bytes;
  place = std::move(entry);
  order_.emplace_back(now, key);
  Trim(now);
}

size_t AnswerCache::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

void AnswerCache::Trim(absl::Time now) {
  while (!order_.empty() && (bytes_ > options_.max_bytes ||
                             now - order_.front().first > options_.life)) {
    const auto [time, key] = std::move(order_.front());
    order_.pop_front();
    const auto found = entries_.find(key);
    // It was put again since.
    if (found == entries_.end() || found->second.time != time) continue;
    bytes_ -= found->second.bytes;
    entries_.erase(found);
  }
}

}  // namespace comera::server
