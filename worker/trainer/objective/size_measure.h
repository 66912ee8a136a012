// How large the tensorised layers are at the current rank entries.
#ifndef COMERA_WORKER_TRAINER_OBJECTIVE_SIZE_MEASURE_H_
#define COMERA_WORKER_TRAINER_OBJECTIVE_SIZE_MEASURE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// The formulas of REFERENCE.md, "Size", over a set of layers: with n_i the
// modes and d_i the rank entries of bond i (both outer norms are 1),
//   S  = sum over layers and i of n_i |d_{i-1}|_0 |d_i|_0
//   S^ = sum over layers and i of n_i |d_{i-1}|_1 |d_i|_1
// where only entries above the threshold count. A layer with a bond of which
// no entry is alive is pruned: it counts 0 in both.
//
// Not thread-safe.
class SizeMeasure {
 public:
  struct Sizes {
    double counted = 0;
    double relaxed = 0;
    double alive_entries = 0;
    double alive_sum = 0;
  };

  static absl::StatusOr<std::unique_ptr<SizeMeasure>> Create(
      const std::vector<TensorisedLayer>& layers, const ParameterLayout& layout,
      float threshold, kernels::Backend* backend);

  // Reads the rank entries; waits for the device.
  absl::StatusOr<Sizes> Measure(kernels::ConstVector parameters);
  // In two halves: enqueues, and leaves in norms(), memory of the backend that
  // stays the same, what SizesOf makes the sizes of, on the host.
  absl::Status EnqueueNorms(kernels::ConstVector parameters);
  kernels::ConstVector norms() const;
  Sizes SizesOf(const float* norms) const;

  // One number per bond, from the last Measure or EnqueueNorms: factor * dS^ /
  // d(entry), the same for all alive entries of a bond. Device memory, valid
  // until the next RelaxedGradient or EqualGradient.
  absl::StatusOr<const float*> RelaxedGradient(double factor);
  // The same with `value` for every bond.
  absl::StatusOr<const float*> EqualGradient(double value);

  // Bonds of all layers, in order of layers.
  const std::vector<kernels::BondSpan>& bonds() const { return bonds_; }
  float threshold() const { return threshold_; }

 private:
  struct Layer {
    std::vector<double> modes;
    size_t first_bond;  // into bonds_; modes.size() - 1 of them
  };

  SizeMeasure(float threshold, kernels::Backend* backend)
      : threshold_(threshold), backend_(backend), arena_(backend) {}
  // Norm of bond i of 0..order; `norms` holds the inner ones.
  static double Norm(const Layer& layer, size_t i, const float* norms);
  static bool Pruned(const Layer& layer, const float* counts);
  // What the share of each bond in the relaxed size depends on.
  std::vector<kernels::SizeBond> SizeBonds() const;

  const float threshold_;
  kernels::Backend* const backend_;
  kernels::Arena arena_;
  kernels::Arena::Piece norms_piece_ = 0;  // l1 of all bonds, then counts
  kernels::Arena::Piece size_bonds_piece_ = 0;
  kernels::Arena::Piece coefficients_piece_ = 0;
  std::vector<Layer> layers_;
  std::vector<kernels::BondSpan> bonds_;
  std::vector<float> norms_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_OBJECTIVE_SIZE_MEASURE_H_
