#ifndef COMERA_WORKER_TRAINER_OPTIMIZER_ORTHOGONAL_MATRICES_H_
#define COMERA_WORKER_TRAINER_OPTIMIZER_ORTHOGONAL_MATRICES_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// A parameter seen as a matrix whose singular values mean something to the
// layer.
struct OrthogonalMatrix {
  int parameter = 0;  // index in the layout
  int64_t rows = 0, cols = 0;
};

// The parameters that Muon steps on, of the layers of `config` whose layout is
// `layout`:
//  - cores of tensor trains, by their left unfolding (left rank * mode, right
//    rank) before the bond between inputs and outputs and by their right one
//    behind it. A train of orthonormal unfoldings has orthonormal factors on
//    both sides of that bond. A table is unfolded to the left up to its last
//    core;
//  - weights and low-rank factors of layers that are not factorised, but for
//    tables and the projection to the vocabulary, of which every row stands
//    for a word.
std::vector<OrthogonalMatrix> OrthogonalMatrices(const ModelConfig& config,
                                                 const ParameterLayout& layout);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OPTIMIZER_ORTHOGONAL_MATRICES_H_
