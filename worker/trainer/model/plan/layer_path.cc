// Chooses the contraction of a factorised linear layer.
#include "worker/trainer/model/plan/layer_path.h"

namespace comera::trainer {

bool IsPruned(const Factorisation& factorisation) {
  return !factorisation.dense() && factorisation.ranks[0] == 0;
}

kernels::TtShape ShapeOf(const Factorisation& f) {
  return {f.input_modes, f.output_modes, f.ranks};
}

kernels::TtChoice ChooseLayerPath(const ModelConfig& config,
                                  const FactorisableLayer& layer,
                                  const Factorisation& factorisation,
                                  int64_t max_rows) {
  const kernels::TtShape shape = ShapeOf(factorisation);
  if (factorisation.silu) {
    // No contraction passes the nonlinearity.
    kernels::TtChoice halves;
    halves.path = kernels::TtPath::kPrefixSuffix;
    halves.ends = kernels::GroupEnds(halves.path, shape);
    halves.cost = kernels::CostOf(halves.ends, shape, max_rows);
    return halves;
  }
  if (config.forced_path.has_value()) {
    kernels::TtChoice forced;
    for (int end : kernels::GroupEnds(*config.forced_path, shape)) {
      // See TtContraction: fewer outputs than columns stay together.
      if (end <= shape.inputs() || end == shape.order() ||
          layer.outputs == shape.Cols()) {
        forced.ends.push_back(end);
      }
    }
    forced.path = kernels::PathOf(shape, forced.ends);
    forced.cost = kernels::CostOf(forced.ends, shape, max_rows);
    return forced;
  }
  return kernels::ChoosePath(shape, max_rows, layer.outputs, config.machine);
}

}  // namespace comera::trainer
