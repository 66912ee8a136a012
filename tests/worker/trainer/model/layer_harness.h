#ifndef COMERA_TESTS_WORKER_TRAINER_MODEL_LAYER_HARNESS_H_
#define COMERA_TESTS_WORKER_TRAINER_MODEL_LAYER_HARNESS_H_

#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/lte_head_runs.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// One layer on its own: its parameters, its memory, and a step to run it with.
//
// Linear layers are named "layer", and have a bias unless `bias` is false;
// max_rows bounds one row block. Without a
// backend it is one thread of the processor, whose memory is the host's, so
// that step() serves as it is.
class LayerHarness {
 public:
  static std::unique_ptr<LayerHarness> ForLinear(
      int64_t inputs, int64_t outputs, const Factorisation& f, float threshold,
      int64_t max_rows, std::unique_ptr<kernels::Backend> backend = nullptr,
      bool bias = true);
  // The same for a factorised layer contracted in these groups
  // (ContractedLinear).
  static std::unique_ptr<LayerHarness> ForGroups(
      int64_t inputs, int64_t outputs, const Factorisation& f, float threshold,
      int64_t max_rows, const std::vector<int>& ends, bool bias = true);
  // A factorised layer whose ranks are 0.
  static std::unique_ptr<LayerHarness> ForPruned(int64_t inputs,
                                                 int64_t outputs,
                                                 const Factorisation& f,
                                                 bool bias = true);
  static std::unique_ptr<LayerHarness> ForEmbedding(
      int64_t vocabulary, int64_t width, const Factorisation& f,
      float threshold, int64_t max_ids,
      std::unique_ptr<kernels::Backend> backend = nullptr);

  Linear& linear() { return *linear_; }
  WordEmbedding& embedding() { return *embedding_; }
  kernels::Backend& backend() { return *backend_; }
  const ModelLayout& layout() const { return layout_; }

  // By name below the layer, e.g. "core.0", "rank.1", "bias", "weight".
  float* Parameter(const std::string& name);
  const float* Gradient(const std::string& name);
  int64_t Size(const std::string& name);
  std::vector<float>& parameters() { return parameters_; }
  std::vector<float>& gradients() { return gradients_; }
  // The rows that each head of an LTE layer sees in training.
  LteHeadRuns& head_runs() { return head_runs_; }
  // In training, without dropout.
  Step step();

 private:
  LayerHarness(float threshold, std::unique_ptr<kernels::Backend> backend,
               int64_t heads = 1);
  void Commit();

  std::unique_ptr<kernels::Backend> backend_;
  ModelConfig config_;
  ModelLayout layout_;
  StepMemory memory_;
  Plan plan_;
  LteHeadRuns head_runs_;
  std::unique_ptr<Linear> linear_;
  std::unique_ptr<WordEmbedding> embedding_;
  std::vector<float> parameters_, gradients_;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_MODEL_LAYER_HARNESS_H_
