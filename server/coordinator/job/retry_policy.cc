// Sorts failures by cause, charges budgets, and computes waits.
#include "server/coordinator/job/retry_policy.h"

#include <algorithm>
#include <tuple>

namespace comera::server {
namespace {

constexpr int32_t kDefaultInfrastructureRetries = 3;
constexpr int32_t kDefaultTrainingRetries = 0;

// Whether the attempt was told to finish for this: it is recorded with that.
bool EndsByFinish(const AttemptRecord& attempt, const v1::Failure& failure) {
  return attempt.has_finish_time() && failure.rank() < 0 &&
         failure.failure_class() == v1::USER;
}

auto Order(const AttemptRecord& attempt, const v1::Failure& failure) {
  return std::make_tuple(!EndsByFinish(attempt, failure),
                         failure.failure_class() == v1::COLLECTIVE_HANG,
                         failure.time().seconds(), failure.time().nanos(),
                         failure.rank());
}

}  // namespace

std::vector<v1::Failure> FailuresCauseFirst(const AttemptRecord& attempt) {
  std::vector<v1::Failure> failures(attempt.failures().begin(),
                                    attempt.failures().end());
  std::stable_sort(failures.begin(), failures.end(),
                   [&](const v1::Failure& a, const v1::Failure& b) {
                     return Order(attempt, a) < Order(attempt, b);
                   });
  return failures;
}

bool IsInfrastructure(v1::FailureClass failure_class) {
  switch (failure_class) {
    case v1::NODE_LOST:
    case v1::RANK_LOST:
    case v1::COLLECTIVE_HANG:
    case v1::DISK_FULL:
    case v1::CHECKPOINT_DAMAGED:
    case v1::CHECKPOINT_UNREACHABLE:
      return true;
    default:
      return false;
  }
}

void RefillRetries(JobRecord* record) {
  record->set_infrastructure_losses(
      std::max(record->infrastructure_losses() - 1, 0));
  for (auto& [number, losses] : *record->mutable_class_losses()) {
    if (IsInfrastructure(static_cast<v1::FailureClass>(number))) {
      losses = std::max(losses - 1, 0);
    }
  }
}

bool ChargeRetry(v1::FailureClass cause, JobRecord* record) {
  const v1::RetryBudget& budget = record->job().spec().retries();
  if (cause == v1::PREEMPTED) return true;
  for (const v1::ClassBudget& own : budget.classes()) {
    if (own.failure_class() != cause) continue;
    if (cause == v1::USER || cause == v1::DATA) return false;
    return ++(*record->mutable_class_losses())[cause] <= own.retries();
  }
  if (IsInfrastructure(cause)) {
    const int32_t allowed = budget.has_infrastructure()
                                ? budget.infrastructure()
                                : kDefaultInfrastructureRetries;
    record->set_infrastructure_losses(record->infrastructure_losses() + 1);
    return record->infrastructure_losses() <= allowed;
  }
  switch (cause) {
    case v1::OUT_OF_MEMORY:
    case v1::NAN_LOSS:
    case v1::DIVERGED:
    case v1::INTERNAL: {
      const int32_t allowed =
          budget.has_training() ? budget.training() : kDefaultTrainingRetries;
      record->set_training_losses(record->training_losses() + 1);
      return record->training_losses() <= allowed;
    }
    default:
      return false;
  }
}

absl::Duration RetryDelay(const RetryBackoff& backoff, int32_t losses_in_row,
                          double jitter) {
  if (losses_in_row <= 1) return absl::ZeroDuration();
  absl::Duration delay = backoff.first;
  for (int32_t i = 2; i < losses_in_row && delay < backoff.longest; ++i) {
    delay *= 2;
  }
  return std::min(delay, backoff.longest) *
         (0.5 + 0.5 * std::clamp(jitter, 0.0, 1.0));
}

}  // namespace comera::server
