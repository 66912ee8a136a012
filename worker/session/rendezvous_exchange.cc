// Reads the rendezvous entries of local members and writes those of others as
// files.

#include "worker/session/rendezvous_exchange.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/rendezvous.h"

namespace comera::worker {

using collective::FileRendezvous;

namespace {

// What a gang's members may leave for others: far more than any gang of ours
// does, and little enough for a call.
constexpr int kMaxEntries = 4096;
constexpr size_t kMaxValueBytes = size_t{256} << 10;

}  // namespace

void RendezvousExchange::Forget(const std::set<Gang>& gangs) {
  for (std::set<Key>* keys : {&sent_, &foreign_}) {
    for (auto it = keys->begin(); it != keys->end();) {
      it = gangs.count(it->first) > 0 ? std::next(it) : keys->erase(it);
    }
  }
}

bool RendezvousExchange::Collect(
    const std::set<Gang>& gangs,
    google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* entries) {
  Forget(gangs);
  bool any_new = false;
  for (const Gang& gang : gangs) {
    absl::StatusOr<FileRendezvous> rendezvous =
        FileRendezvous::Open(folders_->Rendezvous(gang.first, gang.second));
    if (!rendezvous.ok()) continue;
    const absl::StatusOr<std::vector<std::string>> keys = rendezvous->Keys();
    if (!keys.ok()) continue;
    int entries_of_gang = 0;
    for (const std::string& key : *keys) {
      if (key.size() > FileRendezvous::kMaxKeyBytes ||
          entries_of_gang >= kMaxEntries) {
        continue;
      }
      if (foreign_.count({gang, key}) > 0) continue;
      absl::StatusOr<std::string> value =
          rendezvous->Get(key, absl::ZeroDuration());
      // The coordinator refuses a call with a larger one as a whole.
      if (!value.ok() || value->size() > kMaxValueBytes) continue;
      ++entries_of_gang;
      v1::RendezvousEntry* entry = entries->Add();
      entry->set_job(gang.first);
      entry->set_attempt(gang.second);
      entry->set_key(key);
      entry->set_value(*std::move(value));
      any_new = sent_.insert({gang, key}).second || any_new;
    }
  }
  return any_new;
}

absl::Status RendezvousExchange::Deliver(
    const std::set<Gang>& gangs,
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
