// Words what keeps checkpoints from being copied.

#include "worker/checkpoint/copy_troubles.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxJobs = 500;
// Other workers word a part of the messages.
constexpr size_t kMaxReasonBytes = 200;
constexpr size_t kMaxMessageBytes = 1000;

std::string Printable(const absl::Status& status) {
  std::string text(status.message());
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text.substr(0, kMaxReasonBytes);
}

// Why a copy did not arrive, in words that do not change from try to try.
std::string WhyNot(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return "cannot be reached";
    case absl::StatusCode::kUnauthenticated:
      return "refuses this worker's key";
    default:
      return absl::StrCat("refuses them (",
                          absl::StatusCodeToString(status.code()), ")");
  }
}

}  // namespace

CopyTroubles::Job* CopyTroubles::Find(const std::string& job, int64_t attempt) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) {
    if (jobs_.size() >= kMaxJobs) return nullptr;
    Job& made = jobs_[job];
    made.attempt = attempt;
    return &made;
  }
  if (known->second.attempt > attempt) return nullptr;
  if (known->second.attempt < attempt) {
    known->second = Job();
    known->second.attempt = attempt;
  }
  return &known->second;
}

bool CopyTroubles::Set(const std::string& job, Trouble Job::*which,
                       int64_t attempt, Trouble trouble) {
  const auto known = jobs_.find(job);
  // Whatever goes well needs no entry.
  if (trouble.message.empty() && known == jobs_.end()) return false;
  const bool displaces = known != jobs_.end() &&
                         known->second.attempt < attempt &&
                         !(known->second.replicas.message.empty() &&
                           known->second.store.message.empty());
  Job* const entry = Find(job, attempt);
  if (entry == nullptr) return false;
  trouble.message = TruncateUtf8(trouble.message, kMaxMessageBytes);
  const bool changed = (entry->*which).message != trouble.message;
  entry->*which = std::move(trouble);
  if (entry->replicas.message.empty() && entry->store.message.empty()) {
    jobs_.erase(job);
  }
  return changed || displaces;
}

bool CopyTroubles::OnReplicas(const std::string& job, int64_t attempt,
                              const std::vector<ReplicaResult>& results) {
  std::string full, others;
  bool arrived = results.empty();
  for (const ReplicaResult& result : results) {
    if (result.status.ok()) {
      arrived = true;
    } else if (absl::IsResourceExhausted(result.status)) {
      absl::StrAppend(&full, full.empty() ? "" : "; of worker ", result.worker,
                      ": ", Printable(result.status));
    } else if (absl::IsAborted(result.status)) {
      // A later attempt's copies are there, or this worker is ending.
      arrived = true;
    } else {
      absl::StrAppend(&others, others.empty() ? "" : ", ", "worker ",
                      result.worker, " ", WhyNot(result.status));
    }
  }
  Trouble trouble;
  if (!full.empty()) {
    trouble.message = absl::StrCat(
        "copies of checkpoints do not fit into the memory of worker ", full);
  } else if (!arrived) {
    trouble.message =
        absl::StrCat("no worker takes copies of checkpoints: ", others);
  }
  return Set(job, &Job::replicas, attempt, std::move(trouble));
}

bool CopyTroubles::OnStore(const std::string& job, int64_t attempt,
                           const absl::Status& status) {
  Trouble trouble;
  if (absl::IsResourceExhausted(status)) {
    trouble.failure_class = v1::DISK_FULL;
    trouble.message = "checkpoints do not reach the store: it is full";
  } else if (!status.ok()) {
    trouble.message = absl::StrCat(
        "checkpoints do not reach the store: it cannot be written "
        "to (",
        absl::StatusCodeToString(status.code()), ")");
  }
  return Set(job, &Job::store, attempt, std::move(trouble));
}

std::vector<v1::MemberTrouble> CopyTroubles::List() const {
  std::vector<v1::MemberTrouble> troubles;
  for (const auto& [job, entry] : jobs_) {
    for (const Trouble* trouble : {&entry.replicas, &entry.store}) {
      if (trouble->message.empty()) continue;
      v1::MemberTrouble one;
      one.set_job(job);
      one.set_attempt(entry.attempt);
      one.set_failure_class(trouble->failure_class);
      one.set_message(trouble->message);
      troubles.push_back(std::move(one));
    }
  }
  return troubles;
}

}  // namespace comera::worker
