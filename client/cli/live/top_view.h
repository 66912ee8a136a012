// The screen of comera top, and what its keys do: without a terminal.
#ifndef COMERA_CLIENT_CLI_LIVE_TOP_VIEW_H_
#define COMERA_CLIENT_CLI_LIVE_TOP_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/live/terminal_screen.h"
#include "client/cli/output/style.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/training_service.pb.h"

namespace comera::client {

// What the coordinator said.
struct TopState {
  std::string server;
  std::vector<v1::Job> jobs;
  int64_t total_jobs = 0;  // that have not ended, beyond those listed
  std::vector<v1::WorkerSummary> workers;
  std::vector<v1::Queue> queues;
  // When it said so; infinite past: never yet.
  absl::Time time = absl::InfinitePast();
  // Why the newest question has no answer; empty: it has.
  std::string error;
};

enum class TopSort { kNewest, kState, kProgress, kEta, kName };

// What the user has chosen.
struct TopChoice {
  // Of the job that keys act on; empty: the first.
  std::string job;
  TopSort sort = TopSort::kNewest;
  std::string filter;
  bool typing_filter = false;
  bool details = false;
  // Asked whether to cancel it; empty: nothing is asked.
  std::string cancelling;
  int64_t interval_s = 2;
  // Told in the last line until the next key.
  std::string note;
};

enum class TopAction { kNone, kQuit, kRefresh, kCancel };

// The jobs that pass the filter, sorted.
std::vector<const v1::Job*> ShownJobs(const TopState& state,
                                      const TopChoice& choice);

// What the key does to `choice`; kCancel: `cancelled` is to be cancelled.
TopAction PressKey(const KeyPress& key, const TopState& state,
                   TopChoice* choice, std::string* cancelled);

// `height` lines at most, none wider than `width`.
std::vector<StyledLine> TopScreen(const TopState& state,
                                  const TopChoice& choice, absl::Time now,
                                  int width, int height);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_TOP_VIEW_H_
