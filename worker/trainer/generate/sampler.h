#ifndef COMERA_WORKER_TRAINER_GENERATE_SAMPLER_H_
#define COMERA_WORKER_TRAINER_GENERATE_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace comera::trainer {

struct SamplingOptions {
  // 0: always the most probable token.
  double temperature = 1;
  int64_t top_k = 0;  // 0: all tokens
  double top_p = 1;
  uint64_t seed = 0;
};

// Chooses tokens by their logits: these are divided by the temperature, all but
// the top_k largest are dropped, then all but the fewest of the most probable
// whose probabilities add up to at least top_p (nucleus sampling, arXiv
// 1904.09751), and one is drawn of what is left. Equal logits count as larger
// where the id is smaller.
//
// The numbers drawn are a function of the seed and the token's place alone. Not
// thread-safe.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  // The token at `place` of those generated, from logits (vocabulary).
  // FailedPrecondition: a logit is not finite.
  absl::StatusOr<int32_t> Choose(absl::Span<const float> logits,
                                 uint64_t place);

  // A token that may be drawn.
  struct Candidate {
    int32_t id = 0;
    float logit = 0;
    double probability = 0;
  };
  // What Choose draws from, with probabilities that add up to 1, in no
  // particular order; at temperature 0 the one token. Valid until the next
  // call. FailedPrecondition as Choose.
  absl::StatusOr<absl::Span<const Candidate>> Candidates(
      absl::Span<const float> logits);

 private:
  void KeepTopK();
  void KeepTopP();
  // Makes probabilities of the logits of all candidates.
  void Normalise();

  const SamplingOptions options_;
  std::vector<Candidate> candidates_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_SAMPLER_H_
