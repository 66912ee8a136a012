#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_DEAL_SAMPLES_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_DEAL_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace comera::trainer {

// The samples of a global batch that member `rank` computes, as ascending
// indices into `lengths`, the tokens of each sample. Every member gets equally
// many samples, and about equally many tokens, since the gang waits for its
// busiest member in every step.
//
// The longest sample left goes to the member that has the fewest tokens so far
// among those that have room (the longest-processing-time rule with equal
// counts, of several such members the first). The result depends on the
// arguments alone, and the shares of all ranks partition the batch. Samples of
// one length are dealt in contiguous shares.
//
// lengths.size() is a multiple of world_size, which is at least 1, and
// 0 <= rank < world_size.
std::vector<int32_t> DealSamples(absl::Span<const int32_t> lengths, int rank,
                                 int world_size);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_DEAL_SAMPLES_H_
