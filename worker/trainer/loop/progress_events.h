// Events, as far as they are functions of the training state.
#ifndef COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
#define COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_

#include <cstdint>
#include <vector>

#include "comera/v1/progress.pb.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/state/pareto_front.h"

namespace comera::trainer {

inline constexpr int64_t kBytesPerParameter = 4;  // fp32

v1::ParetoPoint ToProto(const ParetoCandidate& candidate);

// The ranks of every tensorised layer: those at step 0 (`initial`), and the
// alive entries of `parameters`, which are laid out by `current`.
v1::RankSnapshot MakeRankSnapshot(int64_t step, const ModelConfig& initial,
                                  const ModelConfig& current,
                                  const std::vector<float>& parameters);

// The largest resident memory of this process so far.
int64_t PeakMemoryBytes();

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_PROGRESS_EVENTS_H_
