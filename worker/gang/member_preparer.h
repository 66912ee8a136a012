#ifndef COMERA_WORKER_GANG_MEMBER_PREPARER_H_
#define COMERA_WORKER_GANG_MEMBER_PREPARER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "worker/gang/member_table.h"

namespace comera::worker {

// Runs the slow work that must precede the start of a member's process, e.g.
// fetching files, on one thread per member. Thread-safe; destruction abandons
// all work.
class MemberPreparer {
 public:
  using Start = MemberTable::Actions::Start;
  // The work; it should end soon once `abandoned` is true.
  using Work = std::function<absl::Status(const std::atomic<bool>& abandoned)>;

  // `on_done` is called, on any thread, whenever PopFinished() has something to
  // return.
  explicit MemberPreparer(std::function<void()> on_done);
  ~MemberPreparer();

  void Begin(const Start& start, Work work);
  // Abandons the preparation of a member that is no longer wanted;
  // PopFinished() will not return it. Returns false if it is not being
  // prepared.
  bool Abandon(GangMembers::Id id);

  struct Done {
    Start start;
    absl::Status status;
  };
  // Returns the members whose preparation has ended since the last call.
  std::vector<Done> PopFinished();

 private:
  struct Task {
    Start start;
    std::atomic<bool> abandoned{false};
    bool ended = false;  // guarded by mutex_
    absl::Status status;
    std::thread thread;
  };

  const std::function<void()> on_done_;
  std::mutex mutex_;
  std::map<GangMembers::Id, std::unique_ptr<Task>> tasks_
      ABSL_GUARDED_BY(mutex_);
  // Abandoned tasks whose threads are still to be joined.
  std::vector<std::unique_ptr<Task>> leaving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_PREPARER_H_
