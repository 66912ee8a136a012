// Implements WorkerExclusion: counts hardware failures and excludes workers.
#include "server/coordinator/worker/worker_exclusion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int64_t kMinWorkersPerExcluded = 4;

}  // namespace

void WorkerExclusion::Count(const std::string& job, const std::string& id,
                            const v1::Failure& failure, Operation* op) {
  if (after_failures_ <= 0 || (failure.failure_class() != v1::NODE_LOST &&
                               failure.failure_class() != v1::RANK_LOST)) {
    return;
  }
  WorkerState* worker = workers_->Find(id);
  if (worker == nullptr || worker->policy().excluded()) return;
  // A lost worker is one failure, however many jobs it had; a member that dies
  // again and again may be its job's fault, so jobs count once.
  const std::string cause =
      failure.failure_class() == v1::NODE_LOST
          ? absl::StrCat("@", absl::ToUnixMicros(op->now()))
          : job;
  const size_t failures = worker->AddFailure(cause, op->now(), window_);
  if (static_cast<int32_t>(failures) < after_failures_) return;
  if (!MayExcludeOneMore()) return;
  WorkerPolicy policy = worker->policy();
  policy.set_excluded(true);
  policy.set_reason(absl::StrCat(
      failures, " hardware failures within ", absl::FormatDuration(window_),
      ", the last: ", TruncateUtf8(failure.message(), 512)));
  *policy.mutable_since() = ToTimestamp(op->now());
  worker->SetPolicy(std::move(policy), op);
}

bool WorkerExclusion::MayExcludeOneMore() const {
  const auto excluded = std::count_if(
      workers_->workers().begin(), workers_->workers().end(),
      [](const auto& other) { return other.second.policy().excluded(); });
  return kMinWorkersPerExcluded * (excluded + 1) <=
         static_cast<int64_t>(workers_->workers().size());
}

}  // namespace comera::server
