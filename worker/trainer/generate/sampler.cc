// Draws tokens from filtered distributions.
#include "worker/trainer/generate/sampler.h"

#include <algorithm>
#include <cmath>

#include "common/status_macros.h"
#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {
namespace {

using Candidate = Sampler::Candidate;

bool Before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// In [0, 1), all 53 bits of a double's precision.
double Uniform(uint64_t seed, uint64_t place) {
  const auto words = RandomWords(seed, RandomStream::kGeneratedToken, place, 0);
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

void Sampler::Normalise() {
  float most = candidates_[0].logit;
  for (const Candidate& c : candidates_) most = std::max(most, c.logit);
  double sum = 0;
  for (Candidate& c : candidates_) {
    c.probability =
        std::exp((static_cast<double>(c.logit) - most) / options_.temperature);
    sum += c.probability;
  }
  for (Candidate& c : candidates_) c.probability /= sum;
}

void Sampler::KeepTopK() {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0 || k >= candidates_.size()) return;
  std::nth_element(candidates_.begin(),
                   candidates_.begin() + static_cast<int64_t>(k),
                   candidates_.end(), Before);
  candidates_.resize(k);
}

void Sampler::KeepTopP() {
  if (options_.top_p >= 1) return;
  Normalise();
  // The best are taken from a heap, as few are wanted as a rule.
  const auto after = [](const Candidate& a, const Candidate& b) {
    return Before(b, a);
  };
  std::make_heap(candidates_.begin(), candidates_.end(), after);
  auto end = candidates_.end();
  double sum = 0;
  while (end != candidates_.begin() && sum < options_.top_p) {
    std::pop_heap(candidates_.begin(), end, after);
    --end;
    sum += end->probability;
  }
  candidates_.erase(candidates_.begin(), end);
}

absl::StatusOr<absl::Span<const Candidate>> Sampler::Candidates(
    absl::Span<const float> logits) {
  candidates_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      return absl::FailedPreconditionError(
          "the model gives logits that are not finite");
    }
    candidates_[i] = {static_cast<int32_t>(i), logits[i], 0};
  }
  if (options_.temperature == 0) {
    candidates_ = {
        *std::min_element(candidates_.begin(), candidates_.end(), Before)};
    candidates_[0].probability = 1;
    return candidates_;
  }
  KeepTopK();
  KeepTopP();
  Normalise();
  return candidates_;
}

absl::StatusOr<int32_t> Sampler::Choose(absl::Span<const float> logits,
                                        uint64_t place) {
  ASSIGN_OR_RETURN(const absl::Span<const Candidate> candidates,
                   Candidates(logits));
  double left = Uniform(options_.seed, place);
  for (const Candidate& c : candidates) {
    left -= c.probability;
    if (left < 0) return c.id;
  }
  // Rounding left a little.
  return candidates.back().id;
}

}  // namespace comera::trainer
