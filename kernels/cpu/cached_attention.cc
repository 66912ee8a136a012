// Computes attention of new tokens to kept keys and values, shared among
// threads by rows and, where there are few, by runs of their keys.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cpu/cached_attention_core.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/operand_check.h"

namespace comera::kernels {
namespace {

// Keys of a part, at least, so that joining parts costs little beside them.
constexpr int64_t kLeastKeys = 64;

// InvalidArgument unless every row sees at least one kept row and at most
// `most`.
absl::Status CheckSeen(ConstIndices first, ConstIndices count, int64_t most,
                       int64_t kept) {
  for (int64_t i = 0; i < first.size; ++i) {
    const int64_t begin = first.data[i], seen = count.data[i];
    if (seen < 1 || seen > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("CachedAttention: count ", seen, " at ", i,
                       " is outside [1, ", most, "]"));
    }
    if (begin < 0 || begin > kept - seen) {
      return absl::InvalidArgumentError(
          absl::StrCat("CachedAttention: first ", begin, " at ", i, " with ",
                       seen, " rows is outside ", kept, " kept rows"));
    }
  }
  return absl::OkStatus();
}

// Runs of at most `most` consecutive rows with the same first key; run b is
// rows [starts[b], starts[b + 1]). Returns their number.
int64_t FindRuns(ConstIndices first, int64_t most, int32_t* starts) {
  int64_t runs = 0;
  for (int64_t i = 0; i < first.size; ++i) {
    const bool goes_on = runs > 0 && i - starts[runs - 1] < most &&
                         first.data[i] == first.data[i - 1];
    if (!goes_on) starts[runs++] = static_cast<int32_t>(i);
  }
  starts[runs] = static_cast<int32_t>(first.size);
  return runs;
}

// Keys that some row of a run sees.
int64_t KeysOf(const int32_t* count, int64_t begin, int64_t end) {
  return *std::max_element(count + begin, count + end);
}

}  // namespace

absl::Status CpuBackend::CachedAttention(const CachedAttentionShape& s,
                                         ConstIndices first, ConstIndices count,
                                         int64_t most, ConstMatrix q,
                                         ConstMatrix keys, ConstMatrix values,
                                         Matrix out) {
  RETURN_IF_ERROR(
      CheckCachedAttention(s, first, count, most, q, keys, values, out));
  RETURN_IF_ERROR(CheckSeen(first, count, most, keys.rows));
  if (q.rows == 0 || s.heads == 0 || s.value_width == 0) {
    return absl::OkStatus();
  }

  // Parts of runs have their place each, whole runs that of their thread.
  const int64_t most_rows = std::min(q.rows, MostCachedQueries(s.heads));
  const int64_t places = 2 * threads_ + std::min<int64_t>(q.rows, 2 * threads_);
  const int64_t each = CachedScratchFloats(s, most_rows);
  const int64_t part_floats = SoftmaxPartFloats(s, most_rows);
  float* const scratch =
      Scratch<float>(threads_ * each + places * part_floats + q.rows + 1);
  float* const part_memory = scratch + threads_ * each;
  int32_t* const starts =
      reinterpret_cast<int32_t*>(part_memory + places * part_floats);
  const int64_t runs = FindRuns(first, most_rows, starts);

  int64_t work = 0, longest = 0;
  for (int64_t b = 0; b < runs; ++b) {
    const int64_t seen = KeysOf(count.data, starts[b], starts[b + 1]);
    work += seen * (starts[b + 1] - starts[b]) * s.heads *
            (s.key_width + s.value_width);
    longest = std::max(longest, seen);
  }
  const int threads =
      static_cast<int>(std::min<int64_t>(threads_, 1 + work / kParallelGrain));
  const int64_t parts =
      threads == 1 || runs >= 2 * threads
          ? 1
          : std::clamp<int64_t>(longest / kLeastKeys, 1,
                                (2 * threads + runs - 1) / runs);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < runs * parts; ++i) {
    const int64_t begin = starts[i / parts], end = starts[i / parts + 1];
    const int64_t rows = end - begin, kept = first.data[begin];
    const int64_t seen = KeysOf(count.data, begin, end);
    const int64_t place = parts > 1 ? i : omp_get_thread_num();
    float* const part = part_memory + place * part_floats;
    SeeKeys(
        s,
        {{q.data + begin * q.stride, rows, q.cols, q.stride},
         count.data + begin},
        {keys.data + kept * keys.stride, seen, keys.cols, keys.stride},
        {values.data + kept * values.stride, seen, values.cols, values.stride},
        seen * (i % parts) / parts, seen * (i % parts + 1) / parts,
        scratch + omp_get_thread_num() * each, SoftmaxPartAt(s, rows, part));
    if (parts == 1) {
      JoinParts(s, rows, part, 1, part_floats,
                {out.data + begin * out.stride, rows, out.cols, out.stride});
    }
  }
  if (parts == 1) return absl::OkStatus();
  ParallelRanges(
      threads, runs, parts * part_floats, [&](int64_t from, int64_t to) {
        for (int64_t b = from; b < to; ++b) {
          const int64_t rows = starts[b + 1] - starts[b];
          JoinParts(
              s, rows, part_memory + b * parts * part_floats, parts,
              part_floats,
              {out.data + starts[b] * out.stride, rows, out.cols, out.stride});
        }
      });
  return absl::OkStatus();
}

}  // namespace comera::kernels
