// Runs training steps with a stopwatch, as the trainer does in a gang of one.
#ifndef COMERA_TESTS_BENCH_TIMED_STEP_H_
#define COMERA_TESTS_BENCH_TIMED_STEP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "kernels/machine_speed.h"

namespace comera::bench {

struct StepOptions {
  int64_t vocabulary = 0;
  // Whether to replay steps from a graph if the backend has graphs.
  bool graph = false;
  // Whether to pad batches up to few shapes (ModelConfig::pad_batches), as with
  // graphs.
  bool pad_batches = false;
  int steps = 5;    // measured
  int warm_up = 2;  // before them
  // Called between the two; may be empty.
  std::function<void()> on_warm;
  // The mean share of real tokens in a sequence; see RandomBatch.
  double fill = 1;
  // Whether every step gets a batch of its own instead of one shared by all.
  bool fresh_batches = false;
  // The factor that multiplies every rank; results are rounded, at least 1.
  double rank_scale = 1;
  // The speeds for which the planner plans, and with which it predicts.
  kernels::MachineSpeed machine;
};

// Medians over the measured steps.
struct StepFigures {
  double step_seconds = 0;  // forward, backward, optimizer, reading the loss
  double predicted_step_seconds = 0;  // for full sequences
  // The same by operation.
  std::map<std::string, double> predicted_seconds_of;
  // Times on the host, which only enqueues if there is a device; 0 where steps
  // are replayed.
  double forward_seconds = 0;
  double backward_seconds = 0;
  double optimizer_seconds = 0;  // objective, clipping and update
  int64_t replayed = 0;          // steps that came from a graph
  int64_t tokens = 0;            // real tokens of a step; samples for a DLRM
  int64_t parameters = 0;
  int64_t dense_parameters = 0;
  int64_t sync_bytes_per_step = 0;
  int64_t optimizer_state_bytes = 0;
  int64_t activation_bytes = 0;
  // The memory that the backend could still allocate.
  int64_t free_bytes = 0;
  // The mean per label of every step, from the first warm-up step on.
  std::vector<double> losses;
};

// Plans `spec` (valid, with its defaults) and trains on random batches as the
// trainer does: if the update needs nothing from the host, the loss of a step
// is read while the next one runs.
absl::StatusOr<StepFigures> MeasureSteps(const v1::JobSpec& spec,
                                         const StepOptions& options,
                                         kernels::Backend* backend);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_TIMED_STEP_H_
