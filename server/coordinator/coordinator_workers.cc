// Workers as clients see them: drained, excluded, back in service.
#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxUnfitBytes = size_t{64} << 10;
constexpr size_t kMaxFailures = 64;
// At most one of so many workers is excluded by itself.
constexpr int64_t kMinWorkersPerExcluded = 4;

absl::Status NoWorker(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no worker ", name));
}

void AddUnfitSlots(const WorkerState& worker, v1::WorkerSummary* summary) {
  size_t left = kMaxUnfitBytes;
  for (const v1::Slot& slot : worker.slots) {
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

v1::WorkerSummary::Service ServiceOf(const WorkerState& worker) {
  if (worker.policy.excluded()) return v1::WorkerSummary::EXCLUDED;
  if (!worker.policy.drained()) return v1::WorkerSummary::IN_SERVICE;
  return worker.jobs.empty() && worker.occupied.empty()
             ? v1::WorkerSummary::DRAINED
             : v1::WorkerSummary::DRAINING;
}

}  // namespace

bool Coordinator::IsConnected(const WorkerState& worker, absl::Time now) const {
  return worker.attached && !worker.lost &&
         (worker.held || now - worker.last_seen <= options_.suspect_after);
}

ClusterCounts Coordinator::CountCluster(absl::Time now) const {
  ClusterCounts counts;
  // What is none must be told too.
  const auto* services = v1::WorkerSummary::Service_descriptor();
  for (int i = 0; i < services->value_count(); ++i) {
    counts.workers[services->value(i)->name()] = 0;
  }
  int64_t& lost = counts.workers["LOST"];
  ClusterCounts::Slots& cpu = counts.slots["cpu"];
  ClusterCounts::Slots& gpu = counts.slots["gpu"];
  for (const auto& [id, worker] : workers_.workers()) {
    if (!IsConnected(worker, now)) {
      ++lost;
      continue;
    }
    ++counts.workers[v1::WorkerSummary::Service_Name(ServiceOf(worker))];
    for (const v1::Slot& slot : worker.slots) {
      ClusterCounts::Slots& slots = slot.has_gpu() ? gpu : cpu;
      ++slots.total;
      if (worker.occupied.count(slot.index()) > 0) ++slots.busy;
      if (!slot.unfit().empty()) ++slots.unfit;
    }
  }
  return counts;
}

v1::WorkerSummary Coordinator::Summarize(const WorkerState& worker,
                                         absl::Time now) const {
  v1::WorkerSummary summary;
  summary.set_name(WorkerName(worker.id));
  summary.set_host(worker.host);
  summary.set_slots(static_cast<int32_t>(worker.slots.size()));
  summary.set_busy_slots(static_cast<int32_t>(worker.occupied.size()));
  summary.set_connected(IsConnected(worker, now));
  summary.set_version(worker.version);
  summary.set_rack(worker.rack);
  summary.set_peer_address(worker.peer_address);
  AddUnfitSlots(worker, &summary);
  const WorkerPolicy& policy = worker.policy;
  summary.set_service(ServiceOf(worker));
  summary.set_service_reason(policy.reason());
  if (policy.has_since()) *summary.mutable_service_since() = policy.since();
  summary.set_hardware_failures(static_cast<int32_t>(std::count_if(
      worker.failures.begin(), worker.failures.end(), [&](const auto& failure) {
        return now - failure.first <= options_.failure_window;
      })));
  for (const std::string& job : worker.jobs) summary.add_jobs(job);
  if (worker.last_seen != absl::Time()) {
    *summary.mutable_last_seen() = ToTimestamp(worker.last_seen);
  }
  return summary;
}

std::vector<v1::WorkerSummary> Coordinator::Workers(absl::Time now) const {
  std::vector<v1::WorkerSummary> summaries;
  for (const auto& [id, worker] : workers_.workers()) {
    summaries.push_back(Summarize(worker, now));
  }
  return summaries;
}

absl::StatusOr<v1::WorkerSummary> Coordinator::GetWorker(
    const std::string& name, absl::Time now) const {
  const auto id = ParseWorkerName(name);
  if (!id) return absl::InvalidArgumentError("name: must be workers/{worker}");
  const auto it = workers_.workers().find(*id);
  if (it == workers_.workers().end()) return NoWorker(name);
  return Summarize(it->second, now);
}

void Coordinator::SetPolicy(WorkerState& worker, WorkerPolicy policy,
                            Effects* effects) {
  Document document = {WorkerTable::kDocumentKind, worker.id, std::nullopt};
  if (policy.drained() || policy.excluded()) {
    document.body = policy.SerializeAsString();
  }
  effects->documents.push_back(std::move(document));
  worker.policy = std::move(policy);
  needs_schedule_ = true;
}

absl::StatusOr<v1::WorkerSummary> Coordinator::Drain(
    const v1::DrainWorkerRequest& request, absl::Time now, Effects* effects) {
  const auto id = ParseWorkerName(request.name());
  if (!id) return absl::InvalidArgumentError("name: must be workers/{worker}");
  WorkerState* worker = workers_.Find(*id);
  if (worker == nullptr) return NoWorker(request.name());
  WorkerPolicy policy = worker->policy;
  policy.set_drained(true);
  policy.set_wait(request.wait());
  policy.set_reason(request.reason());
  *policy.mutable_since() = ToTimestamp(now);
  SetPolicy(*worker, std::move(policy), effects);
  if (!request.wait()) {
    const std::set<std::string> jobs = worker->jobs;
    for (const std::string& name : jobs) {
      JobEntry& entry = *jobs_.Find(name);
      StopGang(entry, Attempt::DRAINED,
               absl::StrCat("worker ", *id, " is drained"), now);
      Advance(entry, now, effects);
    }
  }
  Finish(now, effects);
  return Summarize(*worker, now);
}

absl::StatusOr<v1::WorkerSummary> Coordinator::ResumeWorker(
    const v1::ResumeWorkerRequest& request, absl::Time now, Effects* effects) {
  const auto id = ParseWorkerName(request.name());
  if (!id) return absl::InvalidArgumentError("name: must be workers/{worker}");
  WorkerState* worker = workers_.Find(*id);
  if (worker == nullptr) return NoWorker(request.name());
  worker->failures.clear();
  SetPolicy(*worker, WorkerPolicy(), effects);
  Finish(now, effects);
  return Summarize(*worker, now);
}

void Coordinator::NoteUnfit(WorkerState& worker,
                            const v1::SynchronizeRequest& request,
                            absl::Time now) {
  std::map<int32_t, absl::Time> since;
  for (const v1::Slot& slot : request.slots()) {
    if (slot.unfit().empty()) continue;
    const auto known = worker.unfit_since.find(slot.index());
    since[slot.index()] =
        known == worker.unfit_since.end() ? now : known->second;
  }
  worker.unfit_since = std::move(since);
}

void Coordinator::CountHardwareFailure(const JobEntry& entry,
                                       const v1::Failure& failure,
                                       absl::Time now, Effects* effects) {
  const Attempt& attempt = entry.record.attempt();
  if (options_.exclude_after_failures <= 0 || failure.rank() < 0 ||
      failure.rank() >= attempt.members_size() ||
      (failure.failure_class() != v1::NODE_LOST &&
       failure.failure_class() != v1::RANK_LOST)) {
    return;
  }
  WorkerState* worker = workers_.Find(attempt.members(failure.rank()).worker());
  if (worker == nullptr || worker->policy.excluded()) return;
  // A lost worker is one failure, however many jobs it had; a rank that dies
  // again and again may be its job's fault, so jobs count once.
  const std::string what = failure.failure_class() == v1::NODE_LOST
                               ? absl::StrCat("@", absl::ToUnixMicros(now))
                               : entry.job().name();
  auto& failures = worker->failures;
  while (!failures.empty() &&
         (now - failures.front().first > options_.failure_window ||
          failures.size() >= kMaxFailures)) {
    failures.pop_front();
  }
  const bool counted =
      std::any_of(failures.begin(), failures.end(),
                  [&](const auto& known) { return known.second == what; });
  if (counted) return;
  failures.push_back({now, what});
  if (static_cast<int32_t>(failures.size()) < options_.exclude_after_failures) {
    return;
  }
  // What many workers have in common is not their fault.
  const auto excluded = std::count_if(
      workers_.workers().begin(), workers_.workers().end(),
      [](const auto& other) { return other.second.policy.excluded(); });
  if (kMinWorkersPerExcluded * (excluded + 1) >
      static_cast<int64_t>(workers_.workers().size())) {
    return;
  }
  WorkerPolicy policy = worker->policy;
  policy.set_excluded(true);
  policy.set_reason(
      absl::StrCat(failures.size(), " hardware failures within ",
                   absl::FormatDuration(options_.failure_window),
                   ", the last: ", TruncateUtf8(failure.message(), 512)));
  *policy.mutable_since() = ToTimestamp(now);
  SetPolicy(*worker, std::move(policy), effects);
}

}  // namespace comera::server
