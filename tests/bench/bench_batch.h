// Makes batches of random tokens for benchmarks.
#ifndef COMERA_TESTS_BENCH_BENCH_BATCH_H_
#define COMERA_TESTS_BENCH_BENCH_BATCH_H_

#include <cstdint>

#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/config/model_config.h"

namespace comera::bench {

// For a DLRM, returns `size` rows of a click log; for other models, `size`
// samples of config.length tokens. Sequences are full when `fill` is 1, else of
// uniformly random lengths with that mean share. For masked LM, 15% of the
// tokens have labels; for causal LM, every token has the next one. The result depends on the arguments alone.
trainer::Batch RandomBatch(const trainer::ModelConfig& config, int64_t size,
                           double fill, uint64_t seed);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_BENCH_BATCH_H_
