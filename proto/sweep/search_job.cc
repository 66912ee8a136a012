// Makes the job of a search into one that its candidates modify.
#include "proto/sweep/search_job.h"

#include <algorithm>
#include <cmath>

#include "proto/sweep/search_candidate.h"
#include "proto/sweep/search_rounds.h"

namespace comera {
namespace {

// A loss that no model reaches, so that the late stage uses all its steps.
constexpr double kUnreachableLoss = 1e-6;
// The steps of runs that a budget in time will stop.
constexpr int64_t kUnlimitedSteps = 1'000'000;

}  // namespace

bool IsSearch(const v1::JobSpec& job) {
  return job.compression().method() == v1::CompressionSpec::AUTO;
}

bool HasOwnSteps(const v1::JobSpec& job) {
  return job.objective().early().steps() > 0 ||
         job.objective().late().max_steps() > 0;
}

int64_t FirstSearchSteps(const v1::JobSpec& job, int candidates) {
  if (HasOwnSteps(job)) {
    return std::max<int64_t>(2, job.objective().early().steps() +
                                    job.objective().late().max_steps());
  }
  if (job.budget().has_steps()) {
    const SearchRounds plan =
        PlanSearchRounds(candidates, static_cast<double>(job.budget().steps()));
    return std::max<int64_t>(2, static_cast<int64_t>(plan.last));
  }
  return kUnlimitedSteps;
}

v1::JobSpec SearchBaseJob(const v1::SweepSpec& spec) {
  v1::JobSpec job = spec.job();
  job.clear_budget();
  job.mutable_compression()->set_method(v1::CompressionSpec::COMERA);
  v1::LateStage& late = *job.mutable_objective()->mutable_late();
  if (late.target_quality_case() == v1::LateStage::TARGET_QUALITY_NOT_SET) {
    late.set_target_loss(kUnreachableLoss);
  }
  if (late.target_size_case() == v1::LateStage::TARGET_SIZE_NOT_SET) {
    late.set_target_ratio(kShrinkRatios[0]);
  }
  if (!job.training().has_validate_every_steps()) {
    job.mutable_training()->set_validate_every_steps(50);
  }
  return job;
}

void PlanSearchSteps(const v1::ObjectiveSpec& given, int64_t steps,
                     v1::JobSpec* run) {
  v1::ObjectiveSpec& objective = *run->mutable_objective();
  const bool shrinks =
      run->compression().method() == v1::CompressionSpec::COMERA;
  const auto given_early = static_cast<double>(given.early().steps());
  const auto given_late = static_cast<double>(given.late().max_steps());
  const double share = given_early > 0 && given_late > 0
                           ? given_early / (given_early + given_late)
                           : 0.5;
  const int64_t early =
      shrinks ? std::llround(static_cast<double>(steps) * share) : 0;
  objective.mutable_early()->set_steps(early);
  objective.mutable_late()->set_max_steps(std::max<int64_t>(1, steps - early));
}

}  // namespace comera
