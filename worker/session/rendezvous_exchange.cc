// Reads the rendezvous entries of local members and writes those of others as
// files.

#include "worker/session/rendezvous_exchange.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "worker/collective/rendezvous.h"

namespace comera::worker {

using collective::FileRendezvous;

namespace {

// The coordinator refuses a call with a larger value as a whole.
constexpr size_t kMaxValueBytes = size_t{256} << 10;
// The room that an entry takes beside its value, so that many small ones are
// bounded too: its key, the name of its job, and the time to open its file.
constexpr size_t kEntryBytes = 1024;

// Whether the key may be part of a call: as a string of protobuf it must be
// UTF-8, or the coordinator can read nothing of the call, and honest keys are
// ASCII.
bool IsKey(const std::string& key) {
  return !key.empty() && key.size() <= FileRendezvous::kMaxKeyBytes &&
         std::all_of(key.begin(), key.end(), [](char c) {
           return absl::ascii_isprint(static_cast<unsigned char>(c));
         });
}

}  // namespace

void RendezvousExchange::Forget(const Gangs& gangs) {
  for (auto it = foreign_.begin(); it != foreign_.end();) {
    it = gangs.count(it->first) > 0 ? std::next(it) : foreign_.erase(it);
  }
  for (auto it = cut_.begin(); it != cut_.end();) {
    it = gangs.count(*it) > 0 ? std::next(it) : cut_.erase(it);
  }
}

bool RendezvousExchange::Collect(
    const Gangs& gangs,
    google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries) {
  Forget(gangs);
  const std::set<Key> before = std::exchange(sent_, {});
  size_t room = kMaxCallBytes;
  size_t members = std::accumulate(
      gangs.begin(), gangs.end(), size_t{0},
      [](size_t sum, const auto& gang) { return sum + gang.second; });
  for (const auto& [gang, own] : gangs) {
    const size_t share = std::min(kMaxGangBytes, room / members * own);
    room -= share - CollectGang(gang, share, entries);
    members -= own;
  }
  return !std::includes(before.begin(), before.end(), sent_.begin(),
                        sent_.end());
}

size_t RendezvousExchange::CollectGang(
    const Gang& gang, size_t room,
    google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries) {
  absl::StatusOr<FileRendezvous> rendezvous =
      FileRendezvous::Open(folders_->Rendezvous(gang.first, gang.second));
  if (!rendezvous.ok()) return room;
  const absl::StatusOr<std::vector<std::string>> keys = rendezvous->Keys();
  if (!keys.ok()) return room;
  for (const std::string& key : *keys) {
    if (!IsKey(key) || foreign_.count({gang, key}) > 0) continue;
    absl::StatusOr<std::string> value =
        rendezvous->Get(key, absl::ZeroDuration());
    // What was read in vain counts too, because the time is everybody's.
    const size_t bytes = kEntryBytes + (value.ok() ? value->size() : 0);
    if (bytes > room) {
      LOG_IF(WARNING, cut_.insert(gang).second)
          << "rendezvous too large, the rest is not sent job=" << gang.first
          << " attempt=" << gang.second;
      return 0;
    }
    room -= bytes;
    if (!value.ok() || value->size() > kMaxValueBytes) continue;
    v1::RendezvousEntry* entry = entries->Add();
    entry->set_job(gang.first);
    entry->set_attempt(gang.second);
    entry->set_key(key);
    entry->set_value(*std::move(value));
    sent_.insert({gang, key});
  }
  return room;
}

absl::Status RendezvousExchange::Deliver(
    const Gangs& gangs,
    const google::protobuf::RepeatedPtrField<v1::RendezvousEntry>& entries) {
  absl::Status first_error;
  for (const v1::RendezvousEntry& entry : entries) {
    const Gang gang = {entry.job(), entry.attempt()};
    if (gangs.count(gang) == 0 || sent_.count({gang, entry.key()}) > 0 ||
        !foreign_.insert({gang, entry.key()}).second) {
      continue;
    }
    absl::StatusOr<FileRendezvous> rendezvous =
        FileRendezvous::Open(folders_->Rendezvous(gang.first, gang.second));
    const absl::Status status =
        rendezvous.ok() ? rendezvous->Set(entry.key(), entry.value())
                        : rendezvous.status();
    if (!status.ok()) first_error.Update(status);
  }
  return first_error;
}

}  // namespace comera::worker
