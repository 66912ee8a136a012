// Lays out the screen of `comera top` and handles its keys, independent of a
// terminal.
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

// The coordinator's newest answers.
struct TopState {
  std::string server;
  std::vector<v1::Job> jobs;
  // The number of unfinished jobs, including those that are not listed.
  int64_t total_jobs = 0;
  std::vector<v1::WorkerSummary> workers;
  std::vector<v1::Queue> queues;
  // The time of the answers; infinite past before the first.
  absl::Time time = absl::InfinitePast();
  // Why the newest request failed; empty if it did not.
  std::string error;
};

enum class TopSort { kNewest, kState, kProgress, kEta, kName };

// The user's choices.
struct TopChoice {
  // The name of the job that keys act on; empty for the first.
  std::string job;
  TopSort sort = TopSort::kNewest;
  std::string filter;
  bool typing_filter = false;
  bool details = false;
  // The job that the user is asked whether to cancel; empty for none.
  std::string cancelling;
  int64_t interval_s = 2;
  // A note shown in the last line until the next key.
  std::string note;
};

enum class TopAction { kNone, kQuit, kRefresh, kCancel };

// The jobs that pass the filter, sorted.
std::vector<const v1::Job*> ShownJobs(const TopState& state,
                                      const TopChoice& choice);

// Applies a key to `choice`. kCancel: the job `cancelled` should be cancelled.
TopAction PressKey(const KeyPress& key, const TopState& state,
                   TopChoice* choice, std::string* cancelled);

// The screen: at most `height` lines, none wider than `width`.
std::vector<StyledLine> TopScreen(const TopState& state,
                                  const TopChoice& choice, absl::Time now,
                                  int width, int height);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_TOP_VIEW_H_
