// Drives a coordinator as workers, clients and the clock would.
#include "tests/server/coordinator/coordinator_harness.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "server/rpc/proto_time.h"
#include "tests/server/prepared_test_job.h"

namespace comera::server {

namespace {

// Adds the processor time of its life.
class Stopwatch {
 public:
  explicit Stopwatch(absl::Duration* sum) : sum_(sum) {}
  ~Stopwatch() {
    *sum_ += absl::Seconds(static_cast<double>(std::clock() - begin_) /
                           CLOCKS_PER_SEC);
  }

 private:
  absl::Duration* const sum_;
  const std::clock_t begin_ = std::clock();
};

}  // namespace

void CoordinatorHarness::Take(Effects effects) {
  for (auto& [name, record] : effects.records) {
    reasons[name] = record.job().reason();
    stored[name] = std::move(record);
  }
  for (const auto& [name, job] : effects.views) reasons[name] = job.reason();
  for (v1::JobEvent& event : effects.events) {
    events.push_back(std::move(event));
  }
  for (WorkerProbe& probe : effects.probes) probes.push_back(std::move(probe));
  for (Document& document : effects.documents) {
    documents.push_back(std::move(document));
  }
  for (SynchronizeReply& reply : effects.replies) {
    replies.emplace(reply.call, std::move(reply.response));
  }
}

void CoordinatorHarness::Schedule() {
  if (paused || !coordinator->NeedsSchedule() || absl::Now() < next_pass_) {
    return;
  }
  const absl::Time begin = absl::Now();
  Effects effects;
  {
    const Stopwatch watch(&busy);
    coordinator->Schedule(now, &effects);
  }
  const absl::Time end = absl::Now();
  if (pause_after_pass > 0) next_pass_ = end + pause_after_pass * (end - begin);
  Take(std::move(effects));
}

std::string CoordinatorHarness::Submit(int ranks) {
  return Submit(TestSpec(ranks));
}

std::string CoordinatorHarness::Submit(const v1::JobSpec& spec) {
  Effects effects;
  const std::string name =
      coordinator->Submit(PreparedTestJob(spec), now, &effects)->name();
  Take(std::move(effects));
  Schedule();
  return name;
}

absl::StatusOr<v1::Job> CoordinatorHarness::Cancel(const std::string& name) {
  Effects effects;
  auto job = coordinator->Cancel(name, "", now, &effects);
  Take(std::move(effects));
  Schedule();
  return job;
}

absl::StatusOr<v1::SynchronizeResponse> CoordinatorHarness::Sync(
    Worker& worker) {
  v1::SynchronizeRequest request;
  request.set_worker(worker.id);
  request.set_incarnation(worker.incarnation);
  for (int i = 0; i < worker.slots; ++i) {
    v1::Slot* slot = request.add_slots();
    slot->set_index(i);
    slot->set_device(v1::ResourceSpec::CPU);
    if (const auto gpu = worker.gpus.find(i); gpu != worker.gpus.end()) {
      slot->set_device(v1::ResourceSpec::GPU);
      slot->mutable_gpu()->set_name(gpu->second);
      slot->mutable_gpu()->set_uuid("GPU-1");
    }
    if (const auto reason = worker.unfit.find(i);
        reason != worker.unfit.end()) {
      slot->set_unfit(reason->second);
    }
  }
  for (const v1::MemberStatus& rank : worker.members)
    *request.add_members() = rank;
  for (const auto& report : worker.reports) *request.add_reports() = report;
  for (const auto& entry : worker.rendezvous) {
    *request.add_rendezvous() = entry;
  }
  request.set_host(worker.host);
  request.set_peer_address(worker.peer_address);
  for (const auto& held : worker.checkpoints) *request.add_checkpoints() = held;
  request.set_runs_programs(worker.runs_programs);
  for (const auto& trouble : worker.troubles) {
    *request.add_troubles() = trouble;
  }
  request.set_seen_version(worker.seen_version);
  *request.mutable_hold() = ToProtoDuration(worker.hold);
  Effects effects;
  const int64_t call = ++last_call;
  {
    const Stopwatch watch(&busy);
    coordinator->Synchronize(request, {}, call, now, &effects);
  }
  Take(std::move(effects));
  Schedule();
  auto it = replies.find(call);
  if (it == replies.end()) return absl::UnavailableError("held");
  if (it->second.ok()) worker.seen_version = it->second->desired_version();
  return it->second;
}

v1::SynchronizeResponse CoordinatorHarness::Follow(
    Worker& worker, v1::MemberStatus::Phase phase) {
  (void)Sync(worker);
  v1::SynchronizeResponse response = *Sync(worker);
  worker.members.clear();
  for (const v1::MemberAssignment& rank : response.desired()) {
    worker.members.push_back(
        Status(rank.job(), rank.attempt(), rank.rank(), phase, rank.slot()));
  }
  return *Sync(worker);
}

void CoordinatorHarness::Advance(absl::Duration duration) {
  now += duration;
  Effects effects;
  {
    const Stopwatch watch(&busy);
    coordinator->Tick(now, &effects);
  }
  Take(std::move(effects));
  Schedule();
}

void CoordinatorHarness::Restart(absl::Duration lead) {
  std::vector<JobRecord> records;
  for (const auto& [name, record] : stored) records.push_back(record);
  now += absl::Seconds(5) + lead;
  coordinator = std::make_unique<Coordinator>(options_, &ids_);
  if (lead > absl::ZeroDuration()) coordinator->DoubtClock(lead);
  coordinator->Load(std::move(records), now);
}

std::vector<std::string> CoordinatorHarness::States(
    const std::string& name) const {
  std::vector<std::string> states;
  for (const v1::JobEvent& event : events) {
    if (event.job() == name && event.has_state_change()) {
      states.push_back(v1::JobState_Name(event.state_change().state()));
    }
  }
  return states;
}

v1::MemberStatus Status(const std::string& job, int64_t attempt, int32_t rank,
                        v1::MemberStatus::Phase phase, int32_t slot) {
  v1::MemberStatus status;
  status.set_job(job);
  status.set_attempt(attempt);
  status.set_rank(rank);
  status.set_phase(phase);
  status.set_slot(slot);
  return status;
}

v1::MemberStatus Failed(const std::string& job, int64_t attempt, int32_t rank,
                        v1::FailureClass failure_class, absl::Time time) {
  v1::MemberStatus status =
      Status(job, attempt, rank, v1::MemberStatus::EXITED);
  status.mutable_failure()->set_failure_class(failure_class);
  status.mutable_failure()->set_message(absl::StrCat("rank ", rank, " died"));
  *status.mutable_failure()->mutable_time() = ToTimestamp(time);
  return status;
}

v1::MemberStatus Result(const std::string& job, int64_t attempt) {
  v1::MemberStatus status = Status(job, attempt, 0, v1::MemberStatus::EXITED);
  status.mutable_result()->set_outcome(v1::TARGET_MET);
  status.mutable_result()->set_reason("targets met at step 90");
  return status;
}

v1::ProgressReport Metrics(const std::string& job, int64_t attempt,
                           int64_t number, int64_t step) {
  v1::ProgressReport report;
  report.set_job(job);
  report.set_attempt(attempt);
  report.set_number(number);
  report.mutable_event()->mutable_metrics()->set_step(step);
  report.mutable_event()->mutable_metrics()->set_loss(5.0);
  return report;
}

}  // namespace comera::server
