// Describes workers for clients: one by one, and counted by service and slot.
#include "server/coordinator/worker/worker_summary.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxUnfitBytes = size_t{64} << 10;

void AddUnfitSlots(const WorkerState& worker, v1::WorkerSummary* summary) {
  size_t left = kMaxUnfitBytes;
  for (const v1::Slot& slot : worker.slots()) {
    if (slot.has_gpu()) summary->add_gpus(slot.gpu().name());
    if (slot.unfit().empty()) continue;
    summary->set_unfit_count(summary->unfit_count() + 1);
    if (left == 0) continue;
    std::string text = absl::StrCat(
        "slot ", slot.index(),
        slot.has_gpu()
            ? absl::StrCat(" (", slot.gpu().name(), " ", slot.gpu().uuid(), ")")
            : "",
        ": ", slot.unfit());
    text = TruncateUtf8(text, left);
    left -= std::min(left, text.size());
    summary->add_unfit_slots(std::move(text));
  }
}

}  // namespace

v1::WorkerSummary Summarize(const WorkerState& worker,
                            const CoordinatorOptions& options, absl::Time now) {
  v1::WorkerSummary summary;
  summary.set_name(WorkerName(worker.id()));
  summary.set_host(worker.host());
  summary.set_slots(static_cast<int32_t>(worker.slots().size()));
  summary.set_busy_slots(static_cast<int32_t>(worker.occupied().size()));
  summary.set_connected(worker.IsConnected(now, options.suspect_after));
  summary.set_version(worker.version());
  summary.set_rack(worker.rack());
  summary.set_peer_address(worker.peer_address());
  summary.set_runs_programs(worker.runs_programs());
  AddUnfitSlots(worker, &summary);
  const WorkerPolicy& policy = worker.policy();
  summary.set_service(worker.Service());
  summary.set_service_reason(policy.reason());
  if (policy.has_since()) *summary.mutable_service_since() = policy.since();
  summary.set_hardware_failures(
      static_cast<int32_t>(worker.CountFailures(now, options.failure_window)));
  for (const std::string& job : worker.jobs()) summary.add_jobs(job);
  if (worker.last_seen() != absl::Time()) {
    *summary.mutable_last_seen() = ToTimestamp(worker.last_seen());
  }
  return summary;
}

ClusterCounts CountCluster(const WorkerTable& workers,
                           absl::Duration suspect_after, absl::Time now) {
  ClusterCounts counts;
  // A count of none is reported too.
  const auto* services = v1::WorkerSummary::Service_descriptor();
  for (int i = 0; i < services->value_count(); ++i) {
    counts.workers[services->value(i)->name()] = 0;
  }
  int64_t& lost = counts.workers["LOST"];
  ClusterCounts::Slots& cpu = counts.slots["cpu"];
  ClusterCounts::Slots& gpu = counts.slots["gpu"];
  for (const auto& [id, worker] : workers.workers()) {
    if (!worker.IsConnected(now, suspect_after)) {
      // One that is known by what was decided about it may have gone long ago.
      if (worker.attached() || !worker.jobs().empty()) ++lost;
      continue;
    }
    ++counts.workers[v1::WorkerSummary::Service_Name(worker.Service())];
    for (const v1::Slot& slot : worker.slots()) {
      ClusterCounts::Slots& slots = slot.has_gpu() ? gpu : cpu;
      ++slots.total;
      if (worker.occupied().count(slot.index()) > 0) ++slots.busy;
      if (!slot.unfit().empty()) ++slots.unfit;
    }
  }
  return counts;
}

}  // namespace comera::server
