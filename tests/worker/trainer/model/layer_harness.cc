// Builds one layer with its own memory and parameters.
#include "tests/worker/trainer/model/layer_harness.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "worker/trainer/model/embedding/dense_embedding.h"
#include "worker/trainer/model/embedding/ttm_embedding.h"
#include "worker/trainer/model/linear/adapter_linear.h"
#include "worker/trainer/model/linear/cola_linear.h"
#include "worker/trainer/model/linear/contracted_linear.h"
#include "worker/trainer/model/linear/dense_linear.h"
#include "worker/trainer/model/linear/pruned_linear.h"
#include "worker/trainer/model/linear/tt_linear.h"

namespace comera::trainer {

LayerHarness::LayerHarness(float threshold,
                           std::unique_ptr<kernels::Backend> backend,
                           int64_t heads)
    : backend_(backend != nullptr ? std::move(backend)
                                  : kernels::CreateCpuBackend({1, 0})),
      memory_(backend_.get(), /*stages=*/1),
      head_runs_(heads, /*max_sequences=*/1) {
  config_.rank_threshold = threshold;
  plan_.backend = backend_.get();
  plan_.memory = &memory_;
  plan_ = plan_.AtStage(0);
  plan_.config = &config_;
  plan_.layout = &layout_;
}

std::unique_ptr<LayerHarness> LayerHarness::ForLinear(
    int64_t inputs, int64_t outputs, const Factorisation& f, float threshold,
    int64_t max_rows, std::unique_ptr<kernels::Backend> backend, bool bias) {
  std::unique_ptr<LayerHarness> harness(
      new LayerHarness(threshold, std::move(backend), f.low_rank.heads));
  const FactorisableLayer layer = {"layer", "layer", "attention", inputs,
                                   outputs, false,   false,       bias};
  AddLayer(layer, f, &harness->layout_);
  AddFrozen(layer, f, &harness->layout_);
  const LowRank::Kind kind = f.low_rank.kind;
  if (kind == LowRank::Kind::kLora || kind == LowRank::Kind::kLte) {
    harness->linear_ = std::make_unique<AdapterLinear>(
        harness->plan_, "layer", f.low_rank, max_rows, &harness->head_runs_);
  } else if (kind == LowRank::Kind::kCola) {
    harness->linear_ = std::make_unique<ColaLinear>(harness->plan_, "layer",
                                                    f.low_rank, max_rows);
  } else if (f.dense()) {
    harness->linear_ = std::make_unique<DenseLinear>(harness->plan_, "layer");
  } else {
    harness->linear_ = std::make_unique<TtLinear>(harness->plan_, layer, f,
                                                  max_rows, "linear");
  }
  harness->Commit();
  return harness;
}

std::unique_ptr<LayerHarness> LayerHarness::ForGroups(
    int64_t inputs, int64_t outputs, const Factorisation& f, float threshold,
    int64_t max_rows, const std::vector<int>& ends, bool bias) {
  std::unique_ptr<LayerHarness> harness(new LayerHarness(threshold, nullptr));
  const FactorisableLayer layer = {"layer", "layer", "attention", inputs,
                                   outputs, false,   false,       bias};
  AddLayer(layer, f, &harness->layout_);
  harness->linear_ = std::make_unique<ContractedLinear>(
      harness->plan_, layer, f, ends, max_rows, "linear");
  harness->Commit();
  return harness;
}

std::unique_ptr<LayerHarness> LayerHarness::ForPruned(int64_t inputs,
                                                      int64_t outputs,
                                                      const Factorisation& f,
                                                      bool bias) {
  std::unique_ptr<LayerHarness> harness(new LayerHarness(0, nullptr));
  AddLayer({"layer", "layer", "attention", inputs, outputs, false, false, bias},
           f, &harness->layout_);
  harness->linear_ = std::make_unique<PrunedLinear>(harness->plan_, "layer");
  harness->Commit();
  return harness;
}

std::unique_ptr<LayerHarness> LayerHarness::ForEmbedding(
    int64_t vocabulary, int64_t width, const Factorisation& f, float threshold,
    int64_t max_ids, std::unique_ptr<kernels::Backend> backend) {
  std::unique_ptr<LayerHarness> harness(
      new LayerHarness(threshold, std::move(backend)));
  AddLayer({"layer", "layer", "embedding", vocabulary, width, true, false}, f,
           &harness->layout_);
  if (f.dense()) {
    harness->embedding_ =
        std::make_unique<DenseEmbedding>(harness->plan_, "layer", max_ids);
  } else {
    harness->embedding_ =
        std::make_unique<TtmEmbedding>(harness->plan_, "layer", f, max_ids);
  }
  harness->Commit();
  return harness;
}

void LayerHarness::Commit() {
  if (!memory_.Commit().ok()) std::abort();
  parameters_.resize(layout_.parameters.size());
  gradients_.resize(layout_.parameters.trained_size());
}

float* LayerHarness::Parameter(const std::string& name) {
  return parameters_.data() + plan_.At("layer." + name).offset;
}

const float* LayerHarness::Gradient(const std::string& name) {
  return gradients_.data() + plan_.At("layer." + name).offset;
}

int64_t LayerHarness::Size(const std::string& name) {
  return plan_.At("layer." + name).size;
}

Step LayerHarness::step() {
  Step step;
  step.parameters = parameters_.data();
  step.gradients = gradients_.data();
  step.train = true;
  return step;
}

}  // namespace comera::trainer
