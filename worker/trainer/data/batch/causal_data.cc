// Cuts documents into rows of tokens, and labels each token with the next one.
#include "worker/trainer/data/batch/causal_data.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace comera::trainer {

CausalData::CausalData(const Options& options,
                       std::shared_ptr<const DocumentSets> documents,
                       std::shared_ptr<const Tokenizer> tokenizer)
    : ShuffledData(options.length, options.seed, options.format,
                   std::move(tokenizer)),
      length_(options.length),
      documents_(std::move(documents)),
      baseline_loss_(Baseline()) {}

std::optional<double> CausalData::BytesPerToken(const DocumentSet& set) {
  if (set.labels() == 0) return std::nullopt;
  return static_cast<double>(set.text_bytes()) /
         static_cast<double>(set.labels());
}

void CausalData::Fill(Part part, int64_t sample, const MaskKey& /*key*/,
                      int64_t row, Batch* batch) const {
  const DocumentSet& set = part == Part::kTrain        ? documents_->train
                           : part == Part::kValidation ? documents_->validation
                                                       : documents_->test;
  const int64_t start = row * length_;
  const int64_t first = sample * length_;
  const int64_t count = std::min(length_, set.tokens() - first);
  set.CopyTokens(first, count, &batch->ids[start]);
  std::fill_n(batch->mask.begin() + start, count, 1.0f);
  int64_t document = set.DocumentOf(first);
  int32_t segment = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t next = first + i + 1;
    batch->segments[start + i] = segment;
    if (next < set.end(document)) {
      batch->label_rows.push_back(static_cast<int32_t>(start + i));
      batch->labels.push_back(set.token(next));
    } else {
      ++document;
      ++segment;
    }
  }
}

double CausalData::Baseline() const {
  const std::vector<int64_t> train = documents_->train.LabelCounts();
  const std::vector<int64_t> validation = documents_->validation.LabelCounts();
  const double total = static_cast<double>(documents_->train.labels()) +
                       static_cast<double>(train.size());
  double loss = 0;
  for (size_t id = 0; id < train.size(); ++id) {
    loss -= static_cast<double>(validation[id]) *
            std::log(static_cast<double>(train[id] + 1) / total);
  }
  return loss / static_cast<double>(documents_->validation.labels());
}

}  // namespace comera::trainer
