// Attention of a few queries to a run of the keys and values that are kept of
// their sequence: what one thread does of CachedAttention. Keys pass once, in
// chunks; for each chunk all heads take their scores, then their values, so
// that a row of keys is read from end to end while it is in the nearest cache.
#ifndef COMERA_KERNELS_CPU_CACHED_ATTENTION_CORE_H_
#define COMERA_KERNELS_CPU_CACHED_ATTENTION_CORE_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// Consecutive queries of one sequence.
struct CachedQueries {
  ConstMatrix q;                   // (rows, heads * key_width)
  const int32_t* count = nullptr;  // keys that each row sees, from the first
};

// What the queries make of the keys that they have seen. Head h of row r is
// number h * rows + r.
struct SoftmaxPart {
  float* largest = nullptr;  // score; -infinity where no key was seen
  float* sum = nullptr;      // sum of exp(score - largest)
  float* out = nullptr;      // (., value_width), values times these
};

// Queries that one call may take: so many that their scores stay in the nearest
// caches.
int64_t MostCachedQueries(int64_t heads);

// Floats of scratch and of a part for `rows` queries.
int64_t CachedScratchFloats(const CachedAttentionShape& shape, int64_t rows);
int64_t SoftmaxPartFloats(const CachedAttentionShape& shape, int64_t rows);
SoftmaxPart SoftmaxPartAt(const CachedAttentionShape& shape, int64_t rows,
                          float* memory);

// The part of keys [begin, end) of a sequence, whose kept rows begin with row
// 0 of `keys` and `values`.
void SeeKeys(const CachedAttentionShape& shape, const CachedQueries& queries,
             ConstMatrix keys, ConstMatrix values, int64_t begin, int64_t end,
             float* scratch, const SoftmaxPart& part);

// out (rows, heads * value_width) = the attention whose keys lie in `count`
// parts of the same queries, one every `part_floats` floats from `parts`.
void JoinParts(const CachedAttentionShape& shape, int64_t rows, float* parts,
               int64_t count, int64_t part_floats, Matrix out);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CPU_CACHED_ATTENTION_CORE_H_
