// Small models and random batches for tests.
#ifndef COMERA_TESTS_WORKER_TRAINER_MODEL_SMALL_MODELS_H_
#define COMERA_TESTS_WORKER_TRAINER_MODEL_SMALL_MODELS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "worker/trainer/data/batch/click_shape.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/interface/model.h"

namespace comera::trainer {

// Two layers of width 12, all tensorised unless `dense`; vocabulary 30, five
// tokens per sample, three classes, no dropout; all layers on the prefix/suffix
// path, which so few tokens would not get from the planner.
ModelConfig SmallConfig(v1::ModelSpec::Family family, bool dense = false);

// A tied masked language model of one dense layer and 9,000 words in TTM form.
// Their table is expanded as a whole or, in a model 1,024 wide, too large for
// that.
ModelConfig LargeVocabularyConfig(bool expanded);

// A decoder of the same size as SmallConfig; a LLaMA has one head of keys and
// values, and its output is untied.
ModelConfig SmallDecoder(v1::ModelSpec::Architecture architecture,
                         bool dense = false);
// Puts the layers of a transformer's configuration as it now is into small
// cores, or, if `dense`, into none.
void SetLayers(bool dense, ModelConfig* config);

// Puts a SiLU between the halves of every factorised layer that may have one.
void SetInnerSilu(ModelConfig* config);

// A DLRM of four tables, two of them compressed unless `dense`.
v1::JobSpec SmallDlrmSpec(bool dense = false);
const ClickShape& SmallClickShape();
ModelConfig SmallDlrm(bool dense = false);
Batch RandomClicks(const ModelConfig& config, int64_t size, uint32_t seed);

// Ids, segments, labels at random; `padding` tokens at the end of each sample
// are padding. Language models: `label_rows` label rows spread over the others.
// The segments are two of a sample, which are a decoder's documents.
Batch RandomBatch(const ModelConfig& config, int64_t size, int64_t label_rows,
                  int64_t padding, uint32_t seed);

// Label rows of a language model spread over the tokens, at random labels.
void SpreadLabels(const ModelConfig& config, int64_t label_rows, uint32_t seed,
                  Batch* batch);

// The masks of samples of these lengths, repeated over the batch.
void SetLengths(const std::vector<int64_t>& lengths, Batch* batch);

// Samples [first, first + count) of a batch.
Batch Part(const Batch& batch, int64_t first, int64_t count);

// A model on the processor with initial parameters, on one thread.
struct TestModel {
  TestModel(const ModelConfig& config, int64_t batch_size, uint64_t seed = 1);

  // Loss of the batch; aborts the process on an error.
  double Loss(const Batch& batch, bool train = false);
  // Adds to gradients; returns the loss.
  double Gradient(const Batch& batch);
  std::vector<float> Logits(const Batch& batch);
  // Rank entries spread over 0.2 to 1.2, so that they differ.
  void SpreadRanks();

  ModelConfig config;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<Model> model;
  std::vector<float> parameters, gradients;
  kernels::StepState state;
};

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_MODEL_SMALL_MODELS_H_
