// Rows for attention to kept keys and values: one new token and many, of one
// sequence and of several, with heads that share keys, values or both.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/reference/attention.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

// What new tokens see of `kept` rows.
struct Batch {
  std::string name;
  int64_t kept = 0;
  std::vector<double> first, count;
  int64_t rows() const { return static_cast<int64_t>(first.size()); }
};

// `tokens` new tokens of a sequence whose rows begin with `first`: they see
// `before` rows that were there, those of the tokens before them, and theirs.
void AddTokens(int64_t first, int64_t before, int64_t tokens, Batch* batch) {
  for (int64_t i = 0; i < tokens; ++i) {
    batch->first.push_back(static_cast<double>(first));
    batch->count.push_back(static_cast<double>(before + i + 1));
  }
}

// {first, before, tokens} of each sequence.
Batch Tokens(std::string name, int64_t kept,
             const std::vector<std::vector<int64_t>>& sequences) {
  Batch batch = {std::move(name), kept, {}, {}};
  for (const std::vector<int64_t>& s : sequences) {
    AddTokens(s[0], s[1], s[2], &batch);
  }
  return batch;
}

// `spare`: by how much `most` is above the greatest count.
OpCase Case(const Batch& batch, const CachedAttentionShape& s,
            int64_t spare = 0) {
  int64_t most = spare;
  for (double count : batch.count) {
    most = std::max(most, spare + static_cast<int64_t>(count));
  }
  return {absl::StrCat("CachedAttention_", batch.name, "_", s.heads, "_keys",
                       s.key_heads, "x", s.key_width, "_values", s.value_heads,
                       "x", s.value_width),
          {List("first", batch.first), List("count", batch.count),
           Within(-2, 2, In("q", batch.rows(), s.heads * s.key_width)),
           Within(-2, 2, In("keys", batch.kept, s.key_heads * s.key_width)),
           In("values", batch.kept, s.value_heads * s.value_width),
           Out("out", batch.rows(), s.heads * s.value_width)},
          [=](Backend* backend, const DeviceOperands& d) {
            return backend->CachedAttention(s, d[0].indices(), d[1].indices(),
                                            most, d[2].matrix, d[3].matrix,
                                            d[4].matrix, d[5].matrix);
          },
          [=](Values* v) {
            reference::CachedAttention(s, (*v)[0], (*v)[1], (*v)[2], (*v)[3],
                                       (*v)[4], &(*v)[5]);
          },
          5e-6};
}

}  // namespace

std::vector<OpCase> CachedAttentionCases() {
  std::vector<OpCase> cases;
  const Batch
      none = Tokens("none", 5, {}),
      one = Tokens("one", 1, {{0, 0, 1}}), few = Tokens("few", 9, {{1, 6, 1}}),
      // Each sequence one token: the counts are no whole vectors, nor
      // whole chunks of keys, and one is the first of its sequence.
      decoding =
          Tokens("decoding", 220, {{203, 0, 1}, {0, 64, 1}, {70, 129, 1}}),
      // A prompt behind a kept one, a prompt alone, and a token between.
      prompts = Tokens("prompts", 100, {{60, 7, 9}, {0, 11, 1}, {20, 0, 35}}),
      // Enough keys that threads share those of one token.
      distant = Tokens("distant", 403, {{2, 400, 1}});
  // Rows that see fewer keys behind rows that see more.
  const Batch turned = {"turned", 90, {3, 3, 3, 3}, {80, 2, 66, 64}};

  const CachedAttentionShape single = {1, 1, 1, 1, 1, 0.5f};
  const CachedAttentionShape whole = {3, 3, 8, 3, 8, 0.4f};
  const CachedAttentionShape grouped = {6, 2, 12, 2, 12, 0.3f};
  const CachedAttentionShape apart = {6, 2, 5, 3, 21, 0.6f};
  // Ranks and their ones: of keys, of values, of both.
  const CachedAttentionShape rank_keys = {4, 1, 17, 4, 8, 0.35f};
  const CachedAttentionShape rank_values = {4, 4, 8, 1, 33, 0.35f};
  const CachedAttentionShape rank_space = {10, 1, 17, 1, 18, -0.2f};
  for (const CachedAttentionShape& s :
       {single, whole, grouped, apart, rank_keys, rank_values, rank_space}) {
    for (const Batch& batch : {none, one, few, decoding, turned}) {
      cases.push_back(Case(batch, s));
    }
  }
  for (const CachedAttentionShape& s : {single, grouped, apart, rank_space}) {
    cases.push_back(Case(prompts, s));
  }
  for (const CachedAttentionShape& s : {single, apart, rank_space}) {
    cases.push_back(Case(distant, s, /*spare=*/2));
  }
  // Wide heads.
  cases.push_back(Case(turned, {2, 1, 131, 2, 200, 0.1f}));
  cases.push_back(Case(few, {2, 2, 0, 2, 3, 1}));
  cases.push_back(Case(few, {2, 2, 3, 2, 0, 1}));
  cases.push_back(Case(few, {0, 2, 3, 0, 3, 1}));
  return cases;
}

}  // namespace comera::kernels
