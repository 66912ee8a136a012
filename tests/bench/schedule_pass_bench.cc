// Builds large clusters in a Coordinator and times its scheduling passes.

#include "tests/bench/schedule_pass_bench.h"

#include <time.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "server/coordinator/coordinator.h"
#include "tests/server/prepared_test_job.h"
#include "tests/server/sequential_ids.h"
#include "tests/server/test_spec.h"

namespace comera::bench {
namespace {

using server::Coordinator;
using server::Effects;

double ProcessorMs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) +
         1e-6 * static_cast<double>(time.tv_nsec);
}

class Cluster {
 public:
  explicit Cluster(const PassOptions& options)
      : options_(options), coordinator_(Coordinator::Options(), &ids_) {
    coordinator_.Load({}, now_);
    for (int q = 0; q < 8; ++q) {
      v1::CreateQueueRequest request;
      request.set_queue_id(absl::StrCat("q", q));
      request.mutable_queue()->set_guaranteed_processes(
          options.workers * options.gpus_per_worker / 16);
      Effects effects;
      (void)coordinator_.CreateQueue(request, now_, &effects);
    }
    Hear();
  }

  // Synchronizes every worker once.
  void Hear() {
    for (int w = 0; w < options_.workers; ++w) {
      v1::SynchronizeRequest request;
      request.set_worker(absl::StrCat("w", w));
      request.set_incarnation("i1");
      request.set_rack(absl::StrCat("r", w / 16));
      for (int i = 0; i < options_.gpus_per_worker; ++i) {
        v1::Slot* slot = request.add_slots();
        slot->set_index(i);
        slot->set_device(v1::ResourceSpec::GPU);
      }
      Effects effects;
      coordinator_.Synchronize(request, {}, ++call_, now_, &effects);
    }
  }

  void Submit(int jobs, int priority) {
    for (int i = 0; i < jobs; ++i) {
      v1::JobSpec spec = server::TestSpec(1 << (random_() % 5));
      spec.mutable_resources()->set_device(v1::ResourceSpec::GPU);
      spec.mutable_training()->set_batch_size(64);
      spec.set_priority(priority + static_cast<int>(random_() % 3));
      spec.set_queue(absl::StrCat("q", random_() % 8));
      if (random_() % 2 == 0) {
        spec.mutable_time_limit()->set_seconds(600 + random_() % 86400);
      }
      const std::string user = absl::StrCat("user", random_() % 64);
      Effects effects;
      (void)coordinator_.Submit(
          server::PreparedTestJob(std::move(spec), "", user), now_, &effects);
    }
  }

  double Pass() {
    Effects effects;
    const double begin = ProcessorMs();
    coordinator_.Schedule(now_, &effects);
    return ProcessorMs() - begin;
  }
  void Tick(absl::Duration duration) {
    now_ += duration;
    Hear();
    Effects effects;
    coordinator_.Tick(now_, &effects);
  }
  bool NeedsSchedule() const { return coordinator_.NeedsSchedule(); }

 private:
  const PassOptions options_;
  std::mt19937_64 random_{1};
  server::SequentialIds ids_;
  Coordinator coordinator_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  int64_t call_ = 0;
};

}  // namespace

std::vector<PassTime> MeasurePasses(const PassOptions& options) {
  PassTime filling = {"filling", {}}, steady = {"steady", {}},
           preempting = {"preempting", {}};
  Cluster cluster(options);
  cluster.Submit(options.queued + options.workers * options.gpus_per_worker / 6,
                 0);
  do filling.ms.push_back(cluster.Pass());
  while (cluster.NeedsSchedule() && filling.ms.size() < 100);
  // Runs until every job has its reason.
  for (int i = 0; i < 40; ++i) {
    cluster.Tick(absl::Seconds(1));
    cluster.Pass();
  }
  for (int i = 0; i < options.repeats; ++i) {
    cluster.Tick(absl::Seconds(1));
    steady.ms.push_back(cluster.Pass());
  }
  cluster.Submit(50, 10);
  cluster.Tick(absl::Seconds(10));
  for (int i = 0; i < options.repeats; ++i) {
    cluster.Tick(absl::Seconds(1));
    preempting.ms.push_back(cluster.Pass());
  }
  return {filling, steady, preempting};
}

}  // namespace comera::bench
