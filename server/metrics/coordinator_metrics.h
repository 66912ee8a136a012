#ifndef COMERA_SERVER_METRICS_COORDINATOR_METRICS_H_
#define COMERA_SERVER_METRICS_COORDINATOR_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/coordinator/worker/cluster_counts.h"
#include "server/metrics/queue_waits.h"

namespace comera::server {

// What a coordinator shows Prometheus; docs/metrics.md lists it.
//
// Parts of the server tell it what happens; each call costs some hundred
// nanoseconds at most. What is cheaper to look up when it is asked for comes
// from collectors. Labels have few values: queues, states, classes, methods;
// never jobs or users.
//
// Thread-safe.
class CoordinatorMetrics {
 public:
  // Families of the moment; must not wait for the event loop.
  using Collector = std::function<std::vector<prometheus::MetricFamily>()>;

  CoordinatorMetrics();

  // All metrics in Prometheus' text format 0.0.4.
  std::string Text() const;

  // Called by Text() until ClearCollectors().
  void AddCollector(Collector collector);
  void ClearCollectors();

  // A job that was there when the coordinator started.
  void OnLoaded(const v1::Job& job);
  // Each event once it is durable; `job`: as it is shown, null if it is gone.
  void OnEvent(const v1::JobEvent& event, const v1::Job* job);
  void OnForgotten(const std::string& job) { waits_.End(job); }
  void OnSchedulePass(absl::Duration took);
  void OnCommit(absl::Duration took, size_t writes, bool ok);
  void SetStoreBytes(int64_t bytes);
  void SetCluster(const ClusterCounts& counts);
  void SetLeader(bool leads, int64_t term);

  prometheus::Registry& registry() { return registry_; }

 private:
  void OnState(const v1::JobEvent& event, const v1::Job& job);
  std::vector<prometheus::MetricFamily> CollectWaits() const;

  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& accepted_;
  prometheus::Family<prometheus::Counter>& finished_;
  prometheus::Family<prometheus::Counter>& failures_;
  prometheus::Family<prometheus::Counter>& incidents_;
  prometheus::Counter& restarts_;
  prometheus::Counter& preemptions_;
  prometheus::Family<prometheus::Counter>& events_;
  prometheus::Family<prometheus::Histogram>& queue_wait_;
  prometheus::Histogram& pass_;
  prometheus::Histogram& commit_;
  prometheus::Histogram& batch_;
  prometheus::Counter& commit_failures_;
  prometheus::Family<prometheus::Gauge>& store_bytes_;
  prometheus::Family<prometheus::Gauge>& workers_;
  prometheus::Family<prometheus::Gauge>& slots_;
  prometheus::Family<prometheus::Gauge>& busy_slots_;
  prometheus::Family<prometheus::Gauge>& unfit_slots_;
  prometheus::Gauge& mass_silence_;
  prometheus::Gauge& leader_;
  prometheus::Gauge& leader_term_;
  // By v1::JobEvent::EventCase; they come often.
  std::vector<prometheus::Counter*> event_kinds_;
  QueueWaits waits_;

  mutable std::mutex mutex_;
  std::vector<Collector> collectors_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_METRICS_COORDINATOR_METRICS_H_
