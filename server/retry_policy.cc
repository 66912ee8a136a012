#include "server/retry_policy.h"

#include <algorithm>
#include <tuple>

namespace comera::server {
namespace {

constexpr int32_t kDefaultInfrastructureRetries = 3;
constexpr int32_t kDefaultTrainingRetries = 0;

auto Order(const v1::Failure& failure) {
  return std::make_tuple(failure.failure_class() == v1::COLLECTIVE_HANG,
                         failure.time().seconds(), failure.time().nanos(),
                         failure.rank());
}

}  // namespace

std::vector<v1::Failure> FailuresCauseFirst(const Attempt& attempt) {
  std::vector<v1::Failure> failures(attempt.failures().begin(),
                                    attempt.failures().end());
  std::stable_sort(failures.begin(), failures.end(),
                   [](const v1::Failure& a, const v1::Failure& b) {
                     return Order(a) < Order(b);
                   });
  return failures;
}

bool ChargeRetry(v1::FailureClass cause, JobRecord* record) {
  const v1::RetryBudget& budget = record->job().spec().retries();
  switch (cause) {
    case v1::NODE_LOST:
    case v1::RANK_LOST:
    case v1::COLLECTIVE_HANG: {
      const int32_t allowed = budget.has_infrastructure()
                                  ? budget.infrastructure()
                                  : kDefaultInfrastructureRetries;
      record->set_infrastructure_losses(record->infrastructure_losses() + 1);
      return record->infrastructure_losses() <= allowed;
    }
    case v1::OUT_OF_MEMORY:
    case v1::NAN_LOSS:
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

}  // namespace comera::server
