// Implements RendezvousMirror: keeps a gang's entries and their writers.
#include "server/coordinator/job/rendezvous_mirror.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace comera::server {
namespace {

constexpr size_t kLeastBytes = size_t{512} << 10;
constexpr size_t kBytesOfAddress = 256;
// What an entry takes beside its key and value.
constexpr size_t kEntryBytes = 128;

}  // namespace

size_t RendezvousMirror::MaxBytes(size_t members) {
  return std::min(kMostBytes,
                  kLeastBytes + kBytesOfAddress * members * members);
}

absl::StatusOr<bool> RendezvousMirror::Put(const std::string& worker,
                                           const std::string& key,
                                           const std::string& value,
                                           size_t max_bytes) {
  const auto it = entries_.find(key);
  // A restarted worker also tells what it once got from the others.
  if (it != entries_.end() && it->second.second == value) return false;
  const size_t before = it == entries_.end() ? 0 : it->second.second.size();
  const size_t after = it == entries_.end()
                           ? kEntryBytes + key.size() + value.size()
                           : value.size();
  if (after > before && bytes_ + (after - before) > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", max_bytes, " bytes"));
  }
  bytes_ += after - before;
  entries_[key] = {worker, value};
  return true;
}

void RendezvousMirror::AppendForeign(
    const std::string& worker, const std::string& job, int64_t attempt,
    size_t room,
    google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* out) const {
  for (const auto& [key, entry] : entries_) {
    if (entry.first == worker) continue;
    const size_t bytes = kEntryBytes + key.size() + entry.second.size();
    if (bytes > room) return;
    room -= bytes;
    v1::RendezvousEntry* copy = out->Add();
    copy->set_job(job);
    copy->set_attempt(attempt);
    copy->set_key(key);
    copy->set_value(entry.second);
  }
}

}  // namespace comera::server
