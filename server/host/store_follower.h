#ifndef COMERA_SERVER_HOST_STORE_FOLLOWER_H_
#define COMERA_SERVER_HOST_STORE_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/change_feed.h"
#include "server/store/job_store.h"
#include "server/store/store_thread.h"
#include "server/view/job_directory.h"
#include "server/view/progress_hub.h"

namespace comera::server {

// Shows what the leading coordinator has stored, for one that does not lead:
// reads the store's changes and brings the directory and the hub up to date.
// Used on the event loop.
class StoreFollower {
 public:
  struct Options {
    ChangeFeed* feed = nullptr;
    // Called on the store's thread after each round's read; may be null.
    std::function<void(JobStore*)> on_read;
    // Called on the loop after the job has changed in the directory, or gone
    // from it.
    std::function<void(const std::string& job)> on_change;
    // Runs closures on the loop.
    std::function<void(std::function<void()>)> post;
    // The newest change that the directory has already.
    int64_t change = 0;
  };

  // The pointers must outlive the follower, and the follower what the loop and
  // the store's thread still run of it.
  StoreFollower(Options options, StoreThread* store, JobDirectory* directory,
                ProgressHub* hub);

  // Begins a round, unless the one before is still under way.
  void Poll();
  // Calls `done` once all that is committed by now is shown, or cannot be read.
  void CatchUp(std::function<void()> done);
  // From now on nothing is shown any more.
  void Stop() { stopped_ = true; }

 private:
  // After each read: ends the round if that was its last.
  void EndRead();
  void ShowChanges(absl::StatusOr<StoreChanges> changes);
  void ShowEvents(JobRecord record,
                  const absl::StatusOr<std::vector<v1::JobEvent>>& events);
  void Show(JobRecord record);

  const Options options_;
  StoreThread* const store_;
  JobDirectory* const directory_;
  ProgressHub* const hub_;

  // The newest commit shown, and what is still being read of it.
  int64_t change_;
  int pending_reads_ = 0;
  // Called at the end of the present round, and of the next one.
  std::vector<std::function<void()>> waiting_;
  std::vector<std::function<void()>> waiting_next_;
  bool feed_failed_ = false;
  bool stopped_ = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_STORE_FOLLOWER_H_
