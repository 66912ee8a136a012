#ifndef COMERA_WORKER_TRAINER_MODEL_INTERFACE_MODEL_H_
#define COMERA_WORKER_TRAINER_MODEL_INTERFACE_MODEL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// Sums over the labels of a batch; the caller divides, because the denominator
// is the global batch's.
struct LossTotals {
  double loss_sum = 0;  // nats
  double labels = 0;
  double correct = 0;
};

// A transformer with a head, or a DLRM, planned for one batch shape and one set
// of ranks.
//
// Life cycle: CreateModel (create_model.h) plans and allocates activations and
// workspace; parameters and gradients are the caller's flat device buffers of
// layout().size() floats. After a change of ranks, create a new Model. A step:
// SetBatch, Forward, in training Backward. Forward and Backward enqueue only,
// and what they enqueue is decided by AppendShape's numbers, so that they can
// be captured once and replayed for every batch of that shape. Not thread-safe.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ParameterLayout& layout() const = 0;
  virtual const std::vector<TensorisedLayer>& tensorised_layers() const = 0;
  virtual int64_t activation_bytes() const = 0;

  // Initial values (REFERENCE.md, "Initialisation"), keyed by seed and
  // parameter name; host memory of layout().size() floats.
  virtual void Initialise(uint64_t seed, float* parameters) const = 0;

  // Copies the batch (size at most batch_size) to the device. `train`: dropout
  // is on, and Backward may follow. `state` lives in device memory.
  // InvalidArgument: malformed batch, naming the field.
  virtual absl::Status SetBatch(const Batch& batch, bool train,
                                const kernels::StepState* state) = 0;
  // Appends numbers that, if equal for two batches, say that Forward and
  // Backward enqueue the same operations on the same memory for both.
  virtual void AppendShape(std::vector<int64_t>* shape) const = 0;
  // Runs the batch that was set and writes its totals.
  virtual absl::Status Forward(const float* parameters) = 0;
  absl::Status Forward(const Batch& batch, const float* parameters, bool train,
                       const kernels::StepState* state);
  // gradients += gradient of the *sum* of the losses of the last Forward.
  virtual absl::Status Backward(const float* parameters, float* gradients) = 0;

  // Neighbouring trained parameters, the last ones first, whose gradients a
  // backward pass completes one range after the other, so that they can be
  // summed over a gang while the pass goes on. Each but the last has at least
  // `floats` floats, and together they have layout().trained_size(). By default
  // one range of all.
  virtual std::vector<ParameterRange> GradientBuckets(int64_t floats) const;
  // The piece of Backward that completes the gradients of a bucket. A pass is
  // one call for each of GradientBuckets, in their order. After the first,
  // totals() are complete.
  virtual absl::Status BackwardBucket(const float* parameters, float* gradients,
                                      const ParameterRange& bucket);

  // Is called with a block of parameters whose gradients are complete, and may
  // change these parameters and gradients.
  using BlockDone = std::function<absl::Status(const ParameterRange& block,
                                               kernels::Vector gradients)>;
  // Backward in pieces, each followed by `done`, in memory that holds the
  // gradients of one block at a time (plan/gradient_blocks.h): `gradients` has
  // buffer_size() floats, of any value before and after. Every trained
  // parameter is in one block. FailedPrecondition: this family has no blocks.
  virtual absl::Status BackwardByBlock(const float* parameters,
                                       kernels::Vector gradients,
                                       const BlockDone& done);
  // LossTotals of the last Forward as three floats in device memory, always at
  // the same place. In training they are complete after Backward or ReadLoss.
  virtual const float* totals() const = 0;
  // Totals of the last Forward; synchronises.
  virtual absl::StatusOr<LossTotals> ReadLoss() = 0;
  // Logits of the last Forward, before its Backward: (label rows, classes or
  // vocabulary), of a DLRM one a sample, on the host; synchronises. For
  // evaluation and checks.
  virtual absl::StatusOr<std::vector<float>> ReadLogits() = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_INTERFACE_MODEL_H_
