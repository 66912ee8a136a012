// Implements MassSilence: counts who is silent, and times the pause.
#include "server/coordinator/worker/mass_silence.h"

#include <algorithm>

namespace comera::server {
namespace {

// Whether silence of the worker means anything: it has something to offer or to
// tell, and was not given up before. A worker that is ending offers no slots.
bool Counts(const WorkerState& worker) {
  return !worker.lost() && (!worker.slots().empty() || !worker.jobs().empty());
}

}  // namespace

void MassSilence::Update(absl::Time now) {
  int workers = 0;
  int silent = 0;
  for (const auto& [id, worker] : workers_->workers()) {
    if (!Counts(worker)) continue;
    ++workers;
    if (IsSilent(worker, now)) ++silent;
  }
  const bool most = workers >= kMinWorkers && 2 * silent > workers;
  if (most && !active_) since_ = now;
  if (!most && active_) ended_ = now;
  active_ = most;
}

absl::Duration MassSilence::SilenceOf(const WorkerState& worker,
                                      absl::Time now) const {
  // Pauses that come again and again keep nobody for ever.
  return std::max(now - std::max(worker.last_seen(), ended_),
                  now - worker.last_seen() - options_->mass_silence_wait);
}

bool MassSilence::IsSilent(const WorkerState& worker, absl::Time now) const {
  return !worker.held() &&
         now - worker.last_seen() >
             std::min(options_->suspect_after, options_->node_lost_after / 2);
}

}  // namespace comera::server
