#ifndef COMERA_WORKER_TRAINER_LATE_SIZE_CONTROLLER_H_
#define COMERA_WORKER_TRAINER_LATE_SIZE_CONTROLLER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/late/pruning_choice.h"
#include "worker/trainer/late/size_control.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// The state of the approach to one target. Sizes are counted sizes of the whole
// model.
struct Approach {
  double size = 0;
  double target_size = 0;
  int64_t step = 0;  // done so far
  int64_t max_steps = 0;
  // The share by which a size step lowers the size, unless the schedule needs
  // more: the current learning rate of the rank entries, which bounds the
  // published method's own pruning in the same way.
  double rate = 0;
};

// Brings the size of a model to its target by proximal steps on the rank
// entries, beside the optimiser's steps on the loss.
//
// The size term is the relaxed size of those entries alone that the target has
// no room for (a trimmed L1 norm): its proximal step lowers them by a fixed
// amount and leaves all others alone, so that what stays is not weakened and
// the term is 0 once the target is met. Entries are removed in waves: the least
// salient entries that make up about the next tenth of the size are chosen,
// fade to 0 over some size steps, and are then out for good; the last wave ends
// at or just below the target size. Outside a wave no entry is removed, unless
// relaxed_weight has lowered it to the threshold. docs/late_stage.md has the
// reasons.
//
// Life cycle: bound to one layout; after a change of ranks, create a new one
// with the state of the old. Not thread-safe.
//
// Guarantees: every decision is a function of parameters, gradients and state,
// so that members with equal ones take equal decisions.
class SizeController {
 public:
  struct Options {
    float rank_threshold = 1e-2f;
    double fixed_size = 0;  // parameters that no rank changes
    // Rank that attention keeps while other layers have ranks to lose: the
    // number of heads. The loss hardly feels it when a query or key that is
    // still to learn goes, and no later step can bring it back.
    int64_t attention_floor = 1;
    // Whether the size has to be met by half of max_steps. If false, size steps
    // are taken only when the caller asks for one.
    bool scheduled = true;
    // The weight of the relaxed size of all entries, in every step: rho / S(0)
    // of the achievement scalarisation.
    double relaxed_weight = 0;
  };

  // Copies what it needs. `control` may be that of a new approach, which is
  // empty. InvalidArgument: it does not fit the layout.
  static absl::StatusOr<std::unique_ptr<SizeController>> Create(
      const Options& options, const std::vector<TensorisedLayer>& layers,
      const ParameterLayout& layout, SizeControl control,
      kernels::Backend* backend);

  const SizeControl& control() const { return control_; }

  // Updates the saliencies from `scale` times the gradient of the loss; call
  // before the optimiser's step.
  absl::Status Observe(kernels::ConstVector parameters,
                       kernels::ConstVector gradients, double scale);

  // True if the size is behind its schedule, so that a size step is due: half
  // of max_steps is for reaching the size, half for lowering the loss at it.
  bool Due(const Approach& approach) const;

  // Call after the optimiser's step. In a size step, lowers the entries that
  // are fading. All other entries stay pruned or unpruned, as they were.
  absl::Status Step(bool on_size, const Approach& approach,
                    kernels::Vector parameters);

  // The state for the compacted layout, which has only the entries above the
  // threshold.
  absl::StatusOr<SizeControl> Compacted(kernels::ConstVector parameters);

 private:
  struct Bond {
    int64_t offset;  // into the parameters
    int64_t size;
    size_t first;  // into the entries of SizeControl
  };
  struct Layer {
    bool attention = false;
    std::vector<int64_t> modes;
    std::vector<Bond> bonds;
  };

  SizeController(const Options& options, SizeControl control,
                 kernels::Backend* backend)
      : options_(options), control_(std::move(control)), backend_(backend) {}

  absl::Status Read(kernels::ConstVector buffer, std::vector<float>* entries);
  absl::Status Write(const std::vector<float>& entries,
                     kernels::Vector parameters);
  void BeginWave(const Approach& approach, const std::vector<float>& entries);
  // Proximal step on relaxed_weight times the relaxed size of all entries.
  void LowerAll(double rate, std::vector<float>* entries);
  std::vector<PrunableLayer> Candidates() const;

  const Options options_;
  SizeControl control_;
  kernels::Backend* const backend_;
  std::vector<Layer> layers_;
  size_t entry_count_ = 0;
  // Scratch, one number per entry.
  std::vector<float> entries_;
  std::vector<float> gradients_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LATE_SIZE_CONTROLLER_H_
