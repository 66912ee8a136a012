// Sees a run of keys chunk by chunk, with a softmax that goes along.
#include "kernels/cpu/cached_attention_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/products/panel_gemm.h"
#include "kernels/cpu/products/row_tiles.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace comera::kernels {
namespace {

// Keys of a chunk; rows of scores have room for so many.
constexpr int64_t kChunk = 64;
// Scores of a chunk, at most, unless a single query has more.
constexpr int64_t kScoreFloats = 16384;
constexpr int64_t kMostQueries = 32;
// Queries of a head of keys (or values) from which a product of panels beats
// dot products of rows.
constexpr int64_t kPanelQueries = 12;

// Heads of keys, or of values, and the queries that share each: rows times the
// heads of queries that use it.
struct Group {
  int64_t heads = 0;
  int64_t width = 0;
  int64_t queries = 0;
};
Group KeyGroup(const CachedAttentionShape& s, int64_t rows) {
  return {s.key_heads, s.key_width, s.heads / s.key_heads * rows};
}
Group ValueGroup(const CachedAttentionShape& s, int64_t rows) {
  return {s.value_heads, s.value_width, s.heads / s.value_heads * rows};
}

int64_t Padded(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// One thread's scratch. Query n of head of keys h is row h * group.queries + n
// of `queries` and of `scores`.
struct Parts {
  Parts(const CachedAttentionShape& s, const Group& group, int64_t rows)
      : query_row(Padded(s.key_width, 16)),
        panel_row(group.queries < kPanelQueries ? 0
                                                : Padded(group.queries, 16)),
        scores(s.heads * rows * query_row),
        panels(scores + s.heads * rows * kChunk),
        chunk_panel(panels + s.key_heads * s.key_width * panel_row),
        floats(Padded(chunk_panel + kChunk * panel_row, 16)) {}

  int64_t query_row, panel_row;
  // Where the parts begin behind the first, the queries times the scale
  // (heads * rows, query_row).
  int64_t scores;       // (heads * rows, kChunk)
  int64_t panels;       // per head of keys (key_width, panel_row): its queries
  int64_t chunk_panel;  // (kChunk, panel_row): scores of a head of keys
  int64_t floats;       // the sum of all parts
};

// Scores of kQueries queries with four rows of keys.
template <int kQueries>
COMERA_INLINE void ScoreFour(const float* keys, int64_t key_row, const float* q,
                             int64_t q_row, int64_t width, float* scores) {
  FourFloats totals[kQueries];
  DotFour<kQueries>(keys, key_row, q, q_row, width, totals);
  for (int i = 0; i < kQueries; ++i) {
    std::memcpy(scores + i * kChunk, &totals[i], sizeof(totals[i]));
  }
}

// Scores of few queries with `count` rows of keys.
COMERA_CLONES
void DotChunk(const Group& group, const float* keys, int64_t key_row,
              int64_t count, const float* queries, int64_t query_row,
              float* scores) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    for (int64_t h = 0; h < group.heads; ++h) {
      const float* key = keys + j * key_row + h * group.width;
      const float* q = queries + h * group.queries * query_row;
      float* to = scores + h * group.queries * kChunk + j;
      int64_t n = 0;
      for (; n + 2 <= group.queries; n += 2) {
        ScoreFour<2>(key, key_row, q + n * query_row, query_row, group.width,
                     to + n * kChunk);
      }
      if (n < group.queries) {
        ScoreFour<1>(key, key_row, q + n * query_row, query_row, group.width,
                     to + n * kChunk);
      }
    }
  }
  for (; j < count; ++j) {
    for (int64_t n = 0; n < group.heads * group.queries; ++n) {
      const float* key = keys + j * key_row + n / group.queries * group.width;
      scores[n * kChunk + j] =
          DotOne(key, queries + n * query_row, group.width);
    }
  }
}

// Adds four rows of values times their weights to the sums of kQueries queries.
template <int kQueries>
COMERA_INLINE void WeighFour(const float* values, int64_t value_row,
                             const float* weights, int64_t width, float* sums) {
  float factors[kQueries][4];
  for (int i = 0; i < kQueries; ++i) {
    std::memcpy(factors[i], weights + i * kChunk, sizeof(factors[i]));
  }
  AddFour<kQueries>(factors, values, value_row, sums, width, width);
}

// Adds `count` rows of values times their weights to the sums of few queries.
COMERA_CLONES
void AddChunk(const Group& group, const float* values, int64_t value_row,
              int64_t count, const float* weights, float* sums) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    for (int64_t h = 0; h < group.heads; ++h) {
      const float* v = values + j * value_row + h * group.width;
      const float* w = weights + h * group.queries * kChunk + j;
      float* to = sums + h * group.queries * group.width;
      int64_t n = 0;
      for (; n + 2 <= group.queries; n += 2) {
        WeighFour<2>(v, value_row, w + n * kChunk, group.width,
                     to + n * group.width);
      }
      if (n < group.queries) {
        WeighFour<1>(v, value_row, w + n * kChunk, group.width,
                     to + n * group.width);
      }
    }
  }
  for (; j < count; ++j) {
    for (int64_t n = 0; n < group.heads * group.queries; ++n) {
      const float* v = values + j * value_row + n / group.queries * group.width;
      const float w = weights[n * kChunk + j];
      float* __restrict to = sums + n * group.width;
#pragma omp simd
      for (int64_t c = 0; c < group.width; ++c) to[c] += w * v[c];
    }
  }
}

// Turns scores into weights, exp(score - largest), with what is largest from
// now on, and the sums of before into theirs.
COMERA_CLONES
void SeeScores(float* __restrict scores, int64_t n, float* largest, float* sum,
               float* __restrict out, int64_t width) {
  const float before = *largest;
  float most = before;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < n; ++i) most = scores[i] > most ? scores[i] : most;
  float added = 0;
#pragma omp simd reduction(+ : added)
  for (int64_t i = 0; i < n; ++i) {
    const float weight = VectorExp(scores[i] - most);
    scores[i] = weight;
    added += weight;
  }
  if (most > before) {
    const float factor = VectorExp(before - most);
    *largest = most;
    *sum *= factor;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) out[c] *= factor;
  }
  *sum += added;
}

COMERA_CLONES
void AddScaled(float factor, const float* __restrict from, float* __restrict to,
               int64_t n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) to[c] += factor * from[c];
}

// The queries times the scale, and as panels where they meet keys as such.
void ArrangeQueries(const CachedAttentionShape& s, const CachedQueries& queries,
                    const Group& group, const Parts& parts, float* scratch) {
  const int64_t rows = queries.q.rows;
  for (int64_t n = 0; n < s.heads * rows; ++n) {
    PadPanel(
        s.scale,
        queries.q.data + n % rows * queries.q.stride + n / rows * s.key_width,
        s.key_width, 1, s.key_width, scratch + n * parts.query_row,
        parts.query_row);
  }
  if (group.queries < kPanelQueries) return;
  for (int64_t h = 0; h < group.heads; ++h) {
    TransposePanel(1, scratch + h * group.queries * parts.query_row,
                   parts.query_row, group.queries, group.width,
                   scratch + parts.panels + h * group.width * parts.panel_row,
                   parts.panel_row);
  }
}

void ScoreChunk(const Group& group, const float* keys, int64_t key_row,
                int64_t count, const Parts& parts, float* scratch) {
  float* const scores = scratch + parts.scores;
  float* const chunk_panel = scratch + parts.chunk_panel;
  if (group.queries < kPanelQueries) {
    DotChunk(group, keys, key_row, count, scratch, parts.query_row, scores);
    return;
  }
  for (int64_t h = 0; h < group.heads; ++h) {
    PanelGemm({count, parts.panel_row, group.width, key_row, 1, parts.panel_row,
               parts.panel_row},
              keys + h * group.width,
              scratch + parts.panels + h * group.width * parts.panel_row, false,
              chunk_panel);
    TransposePanel(1, chunk_panel, parts.panel_row, count, group.queries,
                   scores + h * group.queries * kChunk, kChunk);
  }
}

void WeighChunk(const Group& group, const float* values, int64_t value_row,
                int64_t count, const float* weights, float* out) {
  if (group.queries < kPanelQueries) {
    AddChunk(group, values, value_row, count, weights, out);
    return;
  }
  for (int64_t h = 0; h < group.heads; ++h) {
    PanelGemm(
        {group.queries, group.width, count, kChunk, 1, value_row, group.width},
        weights + h * group.queries * kChunk, values + h * group.width, true,
        out + h * group.queries * group.width);
  }
}

}  // namespace

int64_t MostCachedQueries(int64_t heads) {
  return std::clamp<int64_t>(kScoreFloats / (kChunk * heads), 1, kMostQueries);
}

int64_t CachedScratchFloats(const CachedAttentionShape& s, int64_t rows) {
  return Parts(s, KeyGroup(s, rows), rows).floats;
}

int64_t SoftmaxPartFloats(const CachedAttentionShape& s, int64_t rows) {
  return Padded(s.heads * rows * (2 + s.value_width), 16);
}

SoftmaxPart SoftmaxPartAt(const CachedAttentionShape& s, int64_t rows,
                          float* memory) {
  const int64_t queries = s.heads * rows;
  return {memory, memory + queries, memory + 2 * queries};
}

void SeeKeys(const CachedAttentionShape& s, const CachedQueries& queries,
             ConstMatrix keys, ConstMatrix values, int64_t begin, int64_t end,
             float* scratch, const SoftmaxPart& part) {
  const int64_t rows = queries.q.rows, all = s.heads * rows;
  const Group key_group = KeyGroup(s, rows), value_group = ValueGroup(s, rows);
  const Parts parts(s, key_group, rows);
  float* const scores = scratch + parts.scores;
  ArrangeQueries(s, queries, key_group, parts, scratch);
  std::fill(part.largest, part.largest + all, -INFINITY);
  std::fill(part.sum, part.sum + all, 0.0f);
  std::fill(part.out, part.out + all * s.value_width, 0.0f);
  for (int64_t at = begin; at < end; at += kChunk) {
    const int64_t count = std::min(kChunk, end - at);
    ScoreChunk(key_group, keys.data + at * keys.stride, keys.stride, count,
               parts, scratch);
    for (int64_t n = 0; n < all; ++n) {
      float* row = scores + n * kChunk;
      const int64_t seen =
          std::clamp<int64_t>(queries.count[n % rows] - at, 0, count);
      if (seen > 0) {
        SeeScores(row, seen, part.largest + n, part.sum + n,
                  part.out + n * s.value_width, s.value_width);
      }
      std::fill(row + seen, row + count, 0.0f);
    }
    WeighChunk(value_group, values.data + at * values.stride, values.stride,
               count, scores, part.out);
  }
}

void JoinParts(const CachedAttentionShape& s, int64_t rows, float* parts,
               int64_t count, int64_t part_floats, Matrix out) {
  for (int64_t n = 0; n < s.heads * rows; ++n) {
    float* to = out.data + n % rows * out.stride + n / rows * s.value_width;
    std::fill(to, to + s.value_width, 0.0f);
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      largest = std::max(
          largest, SoftmaxPartAt(s, rows, parts + i * part_floats).largest[n]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const SoftmaxPart part = SoftmaxPartAt(s, rows, parts + i * part_floats);
      sum += std::exp(part.largest[n] - largest) * part.sum[n];
    }
    for (int64_t i = 0; i < count; ++i) {
      const SoftmaxPart part = SoftmaxPartAt(s, rows, parts + i * part_floats);
      AddScaled(std::exp(part.largest[n] - largest) / sum,
                part.out + n * s.value_width, to, s.value_width);
    }
  }
}

}  // namespace comera::kernels
