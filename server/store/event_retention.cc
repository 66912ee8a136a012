// Chooses the samples that thinning deletes.
#include "server/store/event_retention.h"

namespace comera::server {

int SampleSeries(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kMetrics:
      // Samples with a validation loss are rarer and worth more.
      return event.metrics().has_validation_loss() ? 2 : 1;
    case v1::JobEvent::kRankSnapshot:
      return 3;
    case v1::JobEvent::kParetoPoint:
      return 4;
    case v1::JobEvent::kCheckpoint:
      return 5;
    default:
      return 0;
  }
}

bool IsSample(const v1::JobEvent& event) { return SampleSeries(event) != 0; }

std::vector<int64_t> ThinSeries(const std::vector<int64_t>& sequences,
                                int keep) {
  std::vector<int64_t> doomed;
  const int64_t total = static_cast<int64_t>(sequences.size());
  for (int shift = 0;
       shift < 63 && total - static_cast<int64_t>(doomed.size()) > keep;
       ++shift) {
    doomed.clear();
    for (int64_t i = 1; i + 1 < total; ++i) {
      const bool first_of_bucket =
          sequences[i] >> shift != sequences[i - 1] >> shift;
      if (!first_of_bucket) doomed.push_back(sequences[i]);
    }
  }
  return doomed;
}

}  // namespace comera::server
