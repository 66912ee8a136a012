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

// Does what must be done before a rank's process starts and may take long, e.g.
// fetches files: each rank on a thread of its own. Thread-safe; destruction
// abandons all.
class MemberPreparer {
 public:
  using Start = MemberTable::Actions::Start;
  // Should end soon once `abandoned` is true.
  using Work = std::function<absl::Status(const std::atomic<bool>& abandoned)>;

  // `on_done` is called from some thread whenever there is something for
  // PopFinished().
  explicit MemberPreparer(std::function<void()> on_done);
  ~MemberPreparer();

  void Begin(const Start& start, Work work);
  // The rank is not wanted any more. False: it is not being prepared; true:
  // PopFinished() will not tell of it.
  bool Abandon(GangMembers::Id id);

  struct Done {
    Start start;
    absl::Status status;
  };
  // Ranks whose preparation ended since the last call.
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
  // Abandoned, to be joined.
  std::vector<std::unique_ptr<Task>> leaving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_MEMBER_PREPARER_H_
