#ifndef COMERA_WORKER_TRAINER_PLANNING_MODEL_PLAN_H_
#define COMERA_WORKER_TRAINER_PLANNING_MODEL_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/arena.h"
#include "kernels/backend.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"
#include "worker/trainer/optimizer/optimizer.h"

namespace comera::trainer {

// Makes a Model: CreateModel, unless a test brings its own.
using ModelFactory = std::function<absl::StatusOr<std::unique_ptr<Model>>(
    const ModelConfig& config, int64_t batch_size, kernels::Backend* backend)>;

// Everything whose size depends on the ranks: the model with its activations,
// and the flat buffers of parameters, gradients and the optimiser's state.
//
// Life cycle: Create allocates, with zeros; after a change of ranks, destroy
// and create anew (addresses are stable in between). Not thread-safe.
class ModelPlan {
 public:
  // The number of floats behind the gradients that travel in the same
  // all-reduce: the sums of losses, labels, correct predictions, stops asked
  // for, and tokens.
  static constexpr int64_t kTailFloats = 5;

  // Plans batches of `batch_size` samples; a step may add up the gradients of
  // several such batches. ResourceExhausted: does not fit. InvalidArgument:
  // impossible config.
  static absl::StatusOr<std::unique_ptr<ModelPlan>> Create(
      const ModelConfig& config, int64_t batch_size,
      const ModelFactory& factory, kernels::Backend* backend);

  Model& model() { return *model_; }
  const ModelConfig& config() const { return config_; }
  int64_t batch_size() const { return batch_size_; }

  // Plans the model for batches of `batch_size` samples of `length` tokens.
  // The old activations are freed first; parameters, gradients and moments stay
  // where they are, while layout() and tensorised_layers() are those of another
  // Model. After an error there is no model. Does nothing if it is planned so.
  // ResourceExhausted; InvalidArgument: more tokens than positions.
  absl::Status Reshape(int64_t length, int64_t batch_size);

  // Parameters; the trained ones come first, and only they have gradients.
  int64_t size() const { return layout().size(); }
  int64_t trained_size() const { return layout().trained_size(); }
  kernels::Vector parameters() { return View(parameters_, size()); }
  kernels::Vector trained_parameters() {
    return View(parameters_, trained_size());
  }
  // All gradients or, with ModelConfig::gradients_by_block, a buffer for those
  // of one block at a time (Model::BackwardByBlock).
  kernels::Vector gradients() { return View(gradients_, gradients_size_); }
  // The gradients with their tail, which is added up like them.
  kernels::Vector reduced() {
    return View(gradients_, gradients_size_ + kTailFloats);
  }
  kernels::Vector first_moment() {
    return View(first_moment_, layout().moments_size());
  }
  kernels::Vector second_moment() {
    return View(second_moment_, layout().moments_size());
  }
  kernels::Vector projectors() {
    return View(projectors_, layout().projectors_size());
  }
  OptimizerState optimizer_state() {
    return {first_moment(), second_moment(), projectors()};
  }

  // A buffer's contents on the host; waits for the device.
  absl::StatusOr<std::vector<float>> Download(kernels::ConstVector buffer);
  // InvalidArgument: another size.
  absl::Status Upload(const std::vector<float>& values, kernels::Vector buffer);

 private:
  ModelPlan(const ModelConfig& config, int64_t batch_size,
            const ModelFactory& factory, kernels::Backend* backend)
      : config_(config),
        batch_size_(batch_size),
        factory_(factory),
        backend_(backend),
        arena_(backend) {}
  const ParameterLayout& layout() const { return model_->layout(); }
  kernels::Vector View(kernels::Arena::Piece piece, int64_t floats) {
    return {arena_.Floats(piece), floats};
  }

  ModelConfig config_;
  int64_t batch_size_;
  int64_t gradients_size_ = 0;
  const ModelFactory factory_;
  kernels::Backend* const backend_;
  std::unique_ptr<Model> model_;
  kernels::Arena arena_;
  kernels::Arena::Piece parameters_ = 0;
  kernels::Arena::Piece gradients_ = 0;
  kernels::Arena::Piece first_moment_ = 0;
  kernels::Arena::Piece second_moment_ = 0;
  kernels::Arena::Piece projectors_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PLANNING_MODEL_PLAN_H_
