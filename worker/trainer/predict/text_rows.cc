// Turns rows of text into samples and writes those into batches.
#include "worker/trainer/predict/text_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/pair_tokens.h"

namespace comera::trainer {

TextRows::TextRows(Tokenizer* tokenizer, int32_t max_length,
                   std::string mask_token)
    : tokenizer_(*tokenizer),
      max_length_(max_length),
      mask_token_(std::move(mask_token)) {}

void TextRows::EncodeText(const std::string& text, std::vector<int32_t>* ids) {
  absl::string_view rest = text;
  while (!mask_token_.empty()) {
    const size_t at = rest.find(mask_token_);
    if (at == absl::string_view::npos) break;
    absl::string_view before = rest.substr(0, at);
    // A token of byte-level BPE holds the space before its word; so does the
    // mask, which stands for one.
    if (!tokenizer_.has_segments()) {
      before = absl::StripTrailingAsciiWhitespace(before);
    }
    tokenizer_.Encode(before, ids);
    ids->push_back(tokenizer_.special_tokens().mask);
    rest.remove_prefix(at + mask_token_.size());
  }
  tokenizer_.Encode(rest, ids);
}

absl::StatusOr<TextSample> TextRows::Encode(const v1::PredictRow& row) {
  if (!IsValidUtf8(row.text()) || !IsValidUtf8(row.text_pair())) {
    return absl::InvalidArgumentError("text: not UTF-8");
  }
  const SpecialTokens& special = tokenizer_.special_tokens();
  TextSample sample;
  std::vector<int32_t> first, second;
  EncodeText(row.text(), &first);
  if (row.has_text_pair()) {
    EncodeText(row.text_pair(), &second);
    const bool segments = tokenizer_.has_segments();
    sample.truncated = CutPair(max_length_, segments, &first, &second);
    sample.second_start =
        JoinPair(special, segments, first, second, &sample.ids);
  } else {
    const auto room = static_cast<size_t>(max_length_ - 2);
    sample.truncated = first.size() > room;
    if (sample.truncated) first.resize(room);
    sample.ids.push_back(special.cls);
    sample.ids.insert(sample.ids.end(), first.begin(), first.end());
    sample.ids.push_back(special.sep);
    sample.second_start = static_cast<int32_t>(sample.ids.size());
  }
  for (size_t i = 0; !mask_token_.empty() && i < sample.ids.size(); ++i) {
    if (sample.ids[i] == special.mask) {
      sample.masks.push_back(static_cast<int32_t>(i));
    }
  }
  return sample;
}

void ClearBatch(int64_t size, int64_t length, int32_t pad, Batch* batch) {
  *batch = Batch();
  batch->size = size;
  batch->length = length;
  batch->ids.assign(size * length, pad);
  batch->segments.assign(size * length, 0);
  batch->mask.assign(size * length, 0.0f);
}

void PutSample(const TextSample& sample, int64_t row, bool segments,
               Batch* batch) {
  const int64_t start = row * batch->length;
  std::copy(sample.ids.begin(), sample.ids.end(), batch->ids.begin() + start);
  std::fill_n(batch->mask.begin() + start, sample.ids.size(), 1.0f);
  if (!segments) return;
  std::fill(batch->segments.begin() + start + sample.second_start,
            batch->segments.begin() + start + sample.ids.size(), 1);
}

}  // namespace comera::trainer
