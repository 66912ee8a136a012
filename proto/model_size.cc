// Adds up the smallest and largest number of parameters that a model can have.

#include "proto/model_size.h"

#include <algorithm>
#include <vector>

#include "proto/dlrm_size.h"
#include "proto/model_family.h"

namespace comera {
namespace {

// Exceeds every vocabulary in use; for bounds where the file is not known.
constexpr double kLargestVocabulary = 1 << 20;

bool IsCompressed(const v1::JobSpec& spec, const v1::LayerCompression& layer) {
  return spec.compression().method() == v1::CompressionSpec::COMERA &&
         !layer.dense();
}

// The parameters of one layer's cores and rank entries at its initial ranks.
double CoreParameters(const v1::LayerCompression& layer, bool ttm) {
  std::vector<double> modes;
  for (int i = 0; i < layer.input_modes_size(); ++i) {
    modes.push_back(static_cast<double>(layer.input_modes(i)) *
                    (ttm ? static_cast<double>(layer.output_modes(i)) : 1.0));
  }
  if (!ttm) {
    for (int64_t mode : layer.output_modes()) modes.push_back(mode);
  }
  double total = 0;
  double left = 1;
  for (size_t i = 0; i < modes.size(); ++i) {
    double right = 1;
    if (i + 1 < modes.size()) {
      const int index = layer.ranks_size() == 1 ? 0 : static_cast<int>(i);
      right = static_cast<double>(layer.ranks(index));
    }
    total += left * modes[i] * right + (i + 1 < modes.size() ? right : 0);
    left = right;
  }
  return total;
}

// The weights of a class of layers, without biases.
struct Weights {
  const v1::LayerCompression& layer;
  // The number of layers in the class.
  double count;
  // The parameters of one layer when it is dense.
  double dense;
  bool ttm;
  // The widths of the blocks' linear layers; 0 for others.
  double inputs = 0, outputs = 0;
  // Whether the modes are chosen automatically even where some are given.
  bool automatic = false;
};

// The parameters of one layer without cores.
double WholeParameters(const v1::JobSpec& spec, const Weights& weights) {
  const v1::CompressionSpec& c = spec.compression();
  const double sides = weights.inputs + weights.outputs;
  if (sides == 0 || weights.layer.dense()) return weights.dense;
  const auto factors = [&](int64_t rank) {
    return sides * std::min({static_cast<double>(rank), weights.inputs,
                             weights.outputs});
  };
  switch (c.method()) {
    case v1::CompressionSpec::LORA:
      return weights.dense + factors(c.lora().rank());
    case v1::CompressionSpec::COLA:
      return factors(c.cola().rank());
    default:
      return weights.dense;
  }
}

std::vector<Weights> AllWeights(const v1::JobSpec& spec, double vocabulary) {
  const v1::CompressionSpec& c = spec.compression();
  const double layers = spec.model().layers();
  const double hidden = spec.model().hidden();
  const auto kv = static_cast<double>(KvWidth(spec.model()));
  const double ffn = spec.model().ffn();
  // A LLaMA's gate is like its up projection, and in the same class.
  const double ups = IsLlama(spec.model()) ? 2 : 1;
  std::vector<Weights> all = {
      {c.embedding(), 1, vocabulary * hidden, true},
      // Query and output, then key and value, which may be narrower.
      {c.attention(), 2 * layers, hidden * hidden, false, hidden, hidden},
      {c.attention(), 2 * layers, hidden * kv, false, hidden, kv, kv < hidden},
      {c.ffn_up(), ups * layers, hidden * ffn, false, hidden, ffn},
      {c.ffn_down(), layers, ffn * hidden, false, ffn, hidden},
  };
  if (HasHeadLayer(spec.model())) {
    all.push_back({c.head(), 1, hidden * hidden, false});
  }
  if (HasOutputLayer(spec.model())) {
    all.push_back({c.output(), 1, hidden * vocabulary, false});
  }
  return all;
}

// The parameters of a decoder's norms, of GPT2 also of its biases and
// positions. The projection to the vocabulary has no bias.
double PlainDecoderParameters(const v1::ModelSpec& model) {
  const double layers = model.layers();
  const double hidden = model.hidden();
  const double norms = 2 * layers + 1;
  if (IsLlama(model)) return norms * hidden;
  const double biases = 4 * hidden + model.ffn() + hidden;
  return model.max_positions() * hidden + norms * 2 * hidden + layers * biases;
}

// The parameters of biases, LayerNorms, position and segment embeddings, and
// the classifier's fc2.
double PlainParameters(const v1::JobSpec& spec, double vocabulary) {
  const v1::ModelSpec& model = spec.model();
  if (model.family() == v1::ModelSpec::CAUSAL_LM) {
    return PlainDecoderParameters(model);
  }
  const double hidden = model.hidden();
  const double classes = model.classes();
  const double embeddings =
      (model.max_positions() + model.segments() + 2.0) * hidden;
  const double per_layer = 4 * hidden + model.ffn() + hidden + 4 * hidden;
  const double tail = model.family() == v1::ModelSpec::MASKED_LM
                          ? 3 * hidden + vocabulary
                          : hidden + hidden * classes + classes;
  return embeddings + model.layers() * per_layer + tail;
}

// The parameters of the word embedding's dense rows.
double DenseRowParameters(const v1::JobSpec& spec) {
  const v1::LayerCompression& embedding = spec.compression().embedding();
  if (!IsCompressed(spec, embedding)) return 0;
  return static_cast<double>(embedding.dense_tokens()) * spec.model().hidden();
}

}  // namespace

double SmallestModelParameters(const v1::JobSpec& spec) {
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    return SmallestDlrmParameters(spec);
  }
  const double vocabulary =
      std::max<double>(1, spec.data().tokenizer().train_vocabulary_size());
  double total = PlainParameters(spec, vocabulary) + DenseRowParameters(spec);
  for (const Weights& weights : AllWeights(spec, vocabulary)) {
    if (!IsCompressed(spec, weights.layer)) {
      total += weights.count * WholeParameters(spec, weights);
    }
  }
  return total;
}

double LargestModelParameters(const v1::JobSpec& spec) {
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    return LargestDlrmParameters(spec);
  }
  const int32_t trained = spec.data().tokenizer().train_vocabulary_size();
  const double vocabulary = trained > 0 ? trained : kLargestVocabulary;
  double total = PlainParameters(spec, vocabulary) + DenseRowParameters(spec);
  for (const Weights& weights : AllWeights(spec, vocabulary)) {
    const bool cores = IsCompressed(spec, weights.layer) &&
                       !weights.layer.input_modes().empty() &&
                       !weights.automatic;
    total += weights.count * (cores ? CoreParameters(weights.layer, weights.ttm)
                                    : WholeParameters(spec, weights));
  }
  return total;
}

}  // namespace comera
