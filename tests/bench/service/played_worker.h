#ifndef COMERA_TESTS_BENCH_SERVICE_PLAYED_WORKER_H_
#define COMERA_TESTS_BENCH_SERVICE_PLAYED_WORKER_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "tests/bench/service/load_options.h"

namespace comera::bench {

// Plays a worker without processes: it accepts what is assigned to it, and
// while reporting is on, every member 0 reports one step per interval. Reports
// are due at fixed times, which follow from the step's number: see DueTime().
//
// Runs a thread of its own from construction to destruction; methods may be
// called from any thread.
class PlayedWorker {
 public:
  PlayedWorker(std::shared_ptr<grpc::Channel> channel, int slots,
               absl::Duration interval);
  ~PlayedWorker();

  // The number of members assigned to it.
  int ranks() const { return ranks_count_; }
  void SetReporting(bool on) { reporting_ = on; }
  // The number of reports sent to the server and acknowledged.
  int64_t reports() const { return reports_; }
  // When the report of that step was due.
  absl::Time DueTime(int64_t step) const { return begin_ + step * interval_; }
  // The error of the first call that failed; later calls are made all the same.
  absl::Status status() const;

 private:
  void Loop();
  void Round(int64_t step);
  void Apply(const v1::SynchronizeResponse& response);

  const int slots_;
  const absl::Duration interval_;
  const absl::Time begin_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::atomic<int> ranks_count_{0};
  std::atomic<int64_t> reports_{0};
  std::atomic<bool> reporting_{false};
  std::atomic<bool> stopping_{false};

  // The following members are used by the thread alone.
  struct Member {
    v1::MemberAssignment assignment;
    int64_t reported = 0;
  };
  std::map<std::string, Member> ranks_;
  int64_t seen_version_ = 0;

  mutable std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_PLAYED_WORKER_H_
