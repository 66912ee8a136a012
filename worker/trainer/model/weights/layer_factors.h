#ifndef COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LAYER_FACTORS_H_
#define COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LAYER_FACTORS_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"

namespace comera::trainer {

// A row-major matrix in host memory.
struct HostMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;

  HostMatrix() = default;
  // Zeros.
  HostMatrix(int64_t r, int64_t c) : rows(r), cols(c), values(r * c, 0.0f) {}
};

// c (m, n) += scale a (m, k) b (k, n), summed in float as the engine does.
void AddProduct(const float* a, const float* b, int64_t m, int64_t k, int64_t n,
                float scale, float* c);

// What a trained layer computes from its input X, without cores and adapters:
// Y = X A or, with two factors, Y = f(X A) B.
struct LayerFactors {
  bool two = false;
  HostMatrix a;       // (inputs, rank), or W (inputs, outputs) itself
  HostMatrix b;       // (rank, outputs)
  bool silu = false;  // f is SiLU; else the identity

  // W of a layer that is a matrix, which those with `silu` are not.
  HostMatrix Multiplied() &&;
};

// The factors of a layer. Tensor trains have two, at the bond between input and
// output modes, and so has CoLA; adapters are added to their weight, of LTE the
// mean of the heads' since the last merge; a tensorised table is one matrix,
// its dense rows included. A pruned linear layer has two factors of rank 0.
//
// `parameters`: host memory in the layout of MakeModelLayout(config), which
// `layout` is. Rank entries count as 1, as those of an imported model are.
LayerFactors FactorsOf(const ModelConfig& config, const ModelLayout& layout,
                       const FactorisableLayer& layer, const float* parameters);

// Whether a layer's W is a parameter as it is.
bool IsStoredWhole(const Factorisation& factorisation);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WEIGHTS_LAYER_FACTORS_H_
