// Trains a model step by step, without clipping or an objective beside the
// loss.
#ifndef COMERA_TESTS_BENCH_PLAIN_TRAINING_H_
#define COMERA_TESTS_BENCH_PLAIN_TRAINING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/optimizer/optimizer.h"
#include "worker/trainer/planning/model_plan.h"

namespace comera::bench {

class PlainTraining {
 public:
  // `backend` outlives it.
  static absl::StatusOr<std::unique_ptr<PlainTraining>> Create(
      const v1::JobSpec& spec, const trainer::ModelConfig& config,
      kernels::Backend* backend);

  const trainer::ParameterLayout& layout() const {
    return plan_->model().layout();
  }
  // The parameters before the first step.
  const std::vector<float>& initial() const { return initial_; }

  // Step `step`, from 0 on, at learning rates times `rate_scale`; returns the
  // batch's mean loss before it.
  absl::StatusOr<double> Step(int64_t step, double rate_scale,
                              const trainer::Batch& batch);

 private:
  explicit PlainTraining(kernels::Backend* backend)
      : backend_(backend), arena_(backend) {}

  absl::Status SetUp(const v1::JobSpec& spec,
                     const trainer::ModelConfig& config);

  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece state_{};
  std::unique_ptr<trainer::ModelPlan> plan_;
  std::unique_ptr<trainer::Optimizer> optimizer_;
  std::vector<float> initial_;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_PLAIN_TRAINING_H_
