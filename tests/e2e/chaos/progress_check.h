#ifndef COMERA_TESTS_E2E_CHAOS_PROGRESS_CHECK_H_
#define COMERA_TESTS_E2E_CHAOS_PROGRESS_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::e2e {

// Checks that steps which an attempt does not go on from are given up aloud.
//
// Let `reached` be the last step that clients saw before an attempt began, and
// `saved` the newest checkpoint that they saw among those. An attempt that
// begins
//   from `reached` on         needs no word;
//   from `saved` on           loses what nobody had saved: an attempt since
//                             then was lost or cut short, and an incident of a
//                             failure, or the client's own wish, says so;
//   before `saved`            gives a saved state up: an incident names the
//                             step that it begins from instead, or the state
//                             that cannot be read.
// A job without retries.start_over goes back to its beginning only by its
// owner's wish. Not thread-safe.
class ProgressCheck {
 public:
  // The events of the job, oldest first; they must outlive it.
  ProgressCheck(const v1::Job& job, const std::vector<v1::JobEvent>& events);

  // Takes the next event; returns the violation, empty if there is none.
  std::string Add(const v1::JobEvent& event);

 private:
  std::string Begin(int64_t attempt, int64_t step);
  bool WasCutShort(int64_t attempt) const;
  bool IsGivenUp(int64_t attempt, int64_t step) const;

  const v1::Job& job_;
  const std::vector<v1::JobEvent>& events_;
  // The step from which the job's first attempt begins.
  const int64_t origin_;
  int64_t reached_ = -1, saved_ = -1;
  // The newest attempt that began to train.
  int64_t last_begun_ = 0;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_PROGRESS_CHECK_H_
