// Fills the parts of events that follow from the training state.
#include "worker/trainer/loop/progress_events.h"

#include <sys/resource.h>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera::trainer {

v1::ParetoPoint ToProto(const ParetoCandidate& candidate) {
  v1::ParetoPoint point;
  point.set_step(candidate.step);
  point.set_validation_loss(candidate.validation_loss);
  point.set_size_parameters(candidate.size_parameters);
  point.set_size_bytes(candidate.size_parameters * kBytesPerParameter);
  return point;
}

v1::RankSnapshot MakeRankSnapshot(int64_t step, const ModelConfig& initial,
                                  const ModelConfig& current,
                                  const std::vector<float>& parameters) {
  const ModelLayout before = MakeModelLayout(initial);
  const ModelLayout now = MakeModelLayout(current);
  v1::RankSnapshot snapshot;
  snapshot.set_step(step);
  for (size_t i = 0; i < now.layers.size(); ++i) {
    const TensorisedLayer& layer = now.layers[i];
    v1::LayerRanks* ranks = snapshot.add_layers();
    ranks->set_layer(layer.name);
    ranks->set_layer_class(layer.layer_class);
    // A job that goes on with the modes of an earlier version has other bonds
    // than one that begins.
    if (before.layers[i].bonds.size() == layer.bonds.size()) {
      for (int bond : before.layers[i].bonds) {
        ranks->add_initial(static_cast<int32_t>(before.parameters[bond].size));
      }
    }
    for (int64_t alive : AliveRanks(now.parameters, layer, parameters.data(),
                                    current.rank_threshold)) {
      ranks->add_current(static_cast<int32_t>(alive));
    }
  }
  return snapshot;
}

double BitsPerByte(double loss, double bytes_per_token) {
  return loss / std::log(2.0) / bytes_per_token;
}

int64_t PeakMemoryBytes() {
  struct rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace comera::trainer
