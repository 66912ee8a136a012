// Training steps with a stopwatch, as the trainer runs them on one rank.
#ifndef COMERA_TESTS_BENCH_TIMED_STEP_H_
#define COMERA_TESTS_BENCH_TIMED_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "kernels/machine_speed.h"

namespace comera::bench {

struct StepOptions {
  int64_t vocabulary = 0;
  // Replayed from a graph where the backend has graphs, else one by one.
  bool graph = false;
  // Batches padded to few shapes (ModelConfig::pad_batches), as with graphs.
  bool pad_batches = false;
  int steps = 5;    // measured
  int warm_up = 2;  // before them
  // Mean share of real tokens in a sequence; see RandomBatch.
  double fill = 1;
  // A batch of its own for every step, in place of one for all.
  bool fresh_batches = false;
  // Every rank times this, rounded, at least 1.
  double rank_scale = 1;
  // What the planner plans for and predicts with.
  kernels::MachineSpeed machine;
};

// Medians over the measured steps.
struct StepFigures {
  double step_seconds = 0;            // all three, and reading the loss
  double predicted_step_seconds = 0;  // for full sequences
  // Of the host, which on a device only enqueues; 0 where steps are replayed.
  double forward_seconds = 0;
  double backward_seconds = 0;
  double optimizer_seconds = 0;  // objective, clipping and update
  int64_t replayed = 0;          // steps that came from a graph
  int64_t tokens = 0;            // real ones of a step; DLRM: samples
  int64_t parameters = 0;
  int64_t dense_parameters = 0;
  int64_t sync_bytes_per_step = 0;
  int64_t optimizer_state_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t free_bytes = 0;  // that the backend could still give
  // Mean per label, of every step from the first to warm up on.
  std::vector<double> losses;
};

// Plans `spec` (valid, defaults filled), and trains on random batches as the
// trainer does: where the update needs nothing of the host, the loss of a step
// is read while the next one runs.
absl::StatusOr<StepFigures> MeasureSteps(const v1::JobSpec& spec,
                                         const StepOptions& options,
                                         kernels::Backend* backend);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_TIMED_STEP_H_
