#ifndef COMERA_WORKER_METRICS_WORKER_METRICS_H_
#define COMERA_WORKER_METRICS_WORKER_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "comera/v1/progress.pb.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"
#include "worker/gpu/gpu_watch.h"

namespace comera::worker {

// The metrics that a worker exposes to Prometheus; docs/metrics.md lists them.
// A job is a label only while it has a member here, so that there are never
// more labels than slots.
//
// Thread-safe.
class WorkerMetrics : public prometheus::Collectable {
 public:
  using Collector = std::function<std::vector<prometheus::MetricFamily>()>;

  WorkerMetrics();

  std::vector<prometheus::MetricFamily> Collect() const override;

  // Adds families that Collect() gathers until ClearCollectors().
  void AddCollector(Collector collector);
  void ClearCollectors();

  // Counts a process of the job; `attempt` is its attempt.
  void OnMemberStarted(const std::string& job, int64_t attempt);
  void OnMemberEnded(const std::string& job, bool failed);
  // Records a step that the job's member 0, which runs here, reported.
  void OnStep(const std::string& job, const v1::StepMetrics& step);
  // Counts a copy of a training state to another worker's memory or to the
  // store.
  enum class CopyTarget { kReplica, kStore };
  void OnCheckpointCopy(CopyTarget target, int64_t bytes, bool ok);
  // Counts an exchange with the coordinator.
  void OnSynchronize(bool ok);

 private:
  struct Job {
    int ranks = 0;
    // The step of the last report; -1 if there was none.
    int64_t step = -1;
    prometheus::Gauge* steps = nullptr;
    prometheus::Gauge* speed = nullptr;
    // Null until a report tells the figure.
    prometheus::Gauge* energy = nullptr;
    prometheus::Gauge* tokens = nullptr;
    prometheus::Gauge* utilisation = nullptr;
  };

  prometheus::Registry registry_;
  prometheus::Gauge& ranks_;
  prometheus::Counter& starts_;
  prometheus::Counter& restarts_;
  prometheus::Counter& failed_;
  prometheus::Family<prometheus::Gauge>& job_step_;
  prometheus::Family<prometheus::Gauge>& job_speed_;
  prometheus::Family<prometheus::Gauge>& job_tokens_;
  prometheus::Family<prometheus::Gauge>& job_utilisation_;
  prometheus::Family<prometheus::Gauge>& job_energy_;
  prometheus::Counter& synchronized_bytes_;
  prometheus::Family<prometheus::Counter>& copies_;
  prometheus::Family<prometheus::Counter>& copied_bytes_;
  prometheus::Gauge& connected_;
  prometheus::Gauge& last_contact_;
  prometheus::Counter& lost_calls_;

  mutable std::mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // Separate from mutex_, because collectors take other locks.
  mutable std::mutex collectors_mutex_;
  std::vector<Collector> collectors_ ABSL_GUARDED_BY(collectors_mutex_);
};

// The families comera_gpu_...{gpu, uuid}, as of the last poll.
std::vector<prometheus::MetricFamily> GpuFamilies(
    const std::vector<GpuWatch::Seen>& gpus);

}  // namespace comera::worker

#endif  // COMERA_WORKER_METRICS_WORKER_METRICS_H_
