#ifndef COMERA_TESTS_GOLDEN_SPECIFIED_LAYOUT_H_
#define COMERA_TESTS_GOLDEN_SPECIFIED_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::golden {

// The parameters that a causal language model must have: names, shapes and
// order. Layers are dense, CoLA's or in tensor-train cores.
trainer::ParameterLayout SpecifiedLayout(const trainer::ModelConfig& config);

// How each core of a layer divides its rows and columns; those of a linear
// layer divide its inputs and then its outputs, as rows of one column.
struct CoreModes {
  std::vector<int64_t> rows, columns;
};
CoreModes CoreModesOf(const trainer::Factorisation& f, bool embedding);

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_SPECIFIED_LAYOUT_H_
