#ifndef COMERA_WORKER_SESSION_LEADER_FENCE_H_
#define COMERA_WORKER_SESSION_LEADER_FENCE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {

// Refuses answers of a coordinator that no longer leads.
//
// A leader that was replaced without noticing may still answer: by what it
// knows, nothing of its successor's is to run here. Answers carry the number of
// the leadership (worker_service.proto) and the name of the cluster; this
// object remembers the highest number that this machine has seen, on disk too,
// and turns any answer with a lower one into UNAVAILABLE. A worker that was
// moved to another cluster begins anew with that one's number. Thread-safe.
class LeaderFence {
 public:
  // `path`: where the number is kept between starts of the daemon. A file that
  // cannot be read counts as none.
  explicit LeaderFence(std::string path);

  // Whether an answer of that leadership counts; if so, earlier ones of the
  // cluster no longer do. `cluster`: empty if the answer does not name it.
  bool Admit(int64_t term, const std::string& cluster);

 private:
  const std::string path_;
  std::mutex mutex_;
  int64_t highest_ ABSL_GUARDED_BY(mutex_) = 0;
  // Empty: not known.
  std::string cluster_ ABSL_GUARDED_BY(mutex_);
};

// Makes the interceptor of a channel to the coordinator.
std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
MakeLeaderFence(std::shared_ptr<LeaderFence> fence);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_LEADER_FENCE_H_
