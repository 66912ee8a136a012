// Finds the blocks of a transformer's parameters by their names.
#include "worker/trainer/model/plan/gradient_blocks.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/model/config/layer_table.h"

namespace comera::trainer {
namespace {

// Takes the trained parameters from *next on whose names begin with `prefix`.
ParameterRange Take(const ParameterLayout& layout, const std::string& prefix,
                    size_t* next) {
  const std::vector<Parameter>& all = layout.parameters();
  ParameterRange range;
  if (*next < all.size()) range.first = all[*next].offset;
  for (; *next < all.size(); ++*next) {
    const Parameter& parameter = all[*next];
    if (parameter.kind == ParameterKind::kFrozen ||
        !absl::StartsWith(parameter.name, prefix)) {
      break;
    }
    range.size += parameter.size;
  }
  return range;
}

}  // namespace

// The order is that of MakeModelLayout.
GradientBlocks::GradientBlocks(const ModelConfig& config,
                               const ParameterLayout& layout)
    : trained_size_(layout.trained_size()) {
  const std::string name = TransformerName(config);
  size_t next = 0;
  if (config.tie_output) {
    kept_ = Take(layout, name + ".embedding.word.", &next);
  }
  embedding_ = Take(layout, name + ".embedding.", &next);
  largest_ = embedding_.size;
  for (int64_t i = 0; i < config.layers; ++i) {
    for (const char* half : {".attention.", ".ffn."}) {
      halves_.push_back(
          Take(layout, absl::StrCat(name, ".layers.", i, half), &next));
      largest_ = std::max(largest_, halves_.back().size);
    }
  }
  head_ = Take(layout, "head.", &next);
  largest_ = std::max(largest_, head_.size);
}

std::vector<ParameterRange> GradientBlocks::Buckets(int64_t floats) const {
  std::vector<ParameterRange> buckets;
  int64_t end = trained_size_;
  for (auto half = halves_.rbegin(); half != halves_.rend(); ++half) {
    if (end - half->first < floats || half->first == 0) continue;
    buckets.push_back({half->first, end - half->first});
    end = half->first;
  }
  buckets.push_back({0, end});
  return buckets;
}

}  // namespace comera::trainer
