// Cuts documents into rows of tokens, and labels each token with the next one.
#include "worker/trainer/data/batch/causal_data.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace comera::trainer {

CausalData::CausalData(const Options& options, DocumentParts documents,
                       std::shared_ptr<const Tokenizer> tokenizer)
    : ShuffledData(options.length, options.seed, options.format,
                   std::move(tokenizer)),
      length_(options.length),
      documents_(std::move(documents)),
      baseline_loss_(Baseline()) {}

std::optional<double> CausalData::BytesPerToken(const Documents* set) {
  if (set == nullptr || set->labels() == 0) return std::nullopt;
  return static_cast<double>(set->text_bytes()) /
         static_cast<double>(set->labels());
}

absl::Status CausalData::Fill(Part part, int64_t sample, const MaskKey& /*key*/,
                              int64_t row, Batch* batch) const {
  const Documents& set = part == Part::kTrain        ? *documents_.train
                         : part == Part::kValidation ? *documents_.validation
                                                     : *documents_.test;
  const int64_t start = row * length_;
  const int64_t first = sample * length_;
  const int64_t count = std::min(length_, set.tokens() - first);
  int32_t* const ids = &batch->ids[start];
  RETURN_IF_ERROR(set.CopyTokens(first, count, ids));
  std::vector<int64_t> ends;
  RETURN_IF_ERROR(set.CopyEnds(first, count, &ends));
  // The label of the row's last token is the first one of the next row.
  int32_t next_row = 0;
  if (ends.back() > first + count) {
    RETURN_IF_ERROR(set.CopyTokens(first + count, 1, &next_row));
  }
  std::fill_n(batch->mask.begin() + start, count, 1.0f);
  int64_t i = 0;
  for (size_t segment = 0; segment < ends.size(); ++segment) {
    const int64_t end = ends[segment] - first;
    const int64_t stop = std::min(end, count);
    std::fill(batch->segments.begin() + start + i,
              batch->segments.begin() + start + stop,
              static_cast<int32_t>(segment));
    for (; i < stop && i + 1 < end; ++i) {
      batch->label_rows.push_back(static_cast<int32_t>(start + i));
      batch->labels.push_back(i + 1 < count ? ids[i + 1] : next_row);
    }
    i = stop;
  }
  return absl::OkStatus();
}

double CausalData::Baseline() const {
  const std::vector<int64_t> train = documents_.train->LabelCounts();
  const std::vector<int64_t> validation = documents_.validation->LabelCounts();
  const double total = static_cast<double>(documents_.train->labels()) +
                       static_cast<double>(train.size());
  double loss = 0;
  for (size_t id = 0; id < train.size(); ++id) {
    loss -= static_cast<double>(validation[id]) *
            std::log(static_cast<double>(train[id] + 1) / total);
  }
  return loss / static_cast<double>(documents_.validation->labels());
}

}  // namespace comera::trainer
