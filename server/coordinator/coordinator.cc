// Implements Coordinator: the life of a job, from its submission to its end.
#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job_defaults.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/coordinator/job/job_artifacts.h"
#include "server/coordinator/job/job_retention.h"
#include "server/coordinator/job/kept_models.h"
#include "server/coordinator/job/start_from.h"
#include "server/coordinator/worker/worker_summary.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

std::string Deterministic(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream output(&stream);
    output.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&output);
  }
  return bytes;
}

// `Table` is a JobTable, const or not.
template <typename Table>
auto FindJob(Table& jobs, const std::string& name)
    -> absl::StatusOr<decltype(jobs.Find(name))> {
  auto* entry = jobs.Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", name));
  }
  return entry;
}

template <typename Table>
auto FindWorker(Table& workers, const std::string& name)
    -> absl::StatusOr<decltype(workers.Find(name))> {
  const auto id = ParseWorkerName(name);
  if (!id) return absl::InvalidArgumentError("name: must be workers/{worker}");
  auto* worker = workers.Find(*id);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("no worker ", name));
  }
  return worker;
}

}  // namespace

Coordinator::Coordinator(const Options& options, IdSource* ids)
    : options_(options),
      ids_(ids),
      queue_directory_(&jobs_, &queues_),
      peers_(&options_, &jobs_, &workers_),
      exclusion_(options_.exclude_after_failures, options_.failure_window,
                 &workers_),
      failures_(&exclusion_),
      lifecycle_(&options_, &jobs_, &workers_, &failures_),
      members_(options_.missing_member_after, &jobs_, &workers_, &failures_,
               &lifecycle_),
      assignments_(&options_, &jobs_, &peers_),
      held_calls_(&workers_, &assignments_),
      monitor_(&options_, &workers_, &lifecycle_, &peers_, &held_calls_),
      exchange_({&options_, &jobs_, &workers_, &lifecycle_, &members_, &peers_,
                 &assignments_, &held_calls_}),
      starts_(&options_, &workers_, &peers_),
      scheduler_(&options_, {&jobs_, &workers_, &queues_, &starts_},
                 &lifecycle_),
      explainer_(&jobs_, &queue_directory_, &scheduler_) {}

absl::Status Coordinator::LoadDocuments(
    const std::vector<Document>& queues, const std::vector<Document>& workers,
    const std::vector<Document>& forgotten) {
  peers_.LoadForgotten(forgotten);
  RETURN_IF_ERROR(queues_.Load(queues));
  return workers_.Load(workers);
}

void Coordinator::Load(std::vector<JobRecord> records, absl::Time now) {
  // One change per microsecond would have to last for a version to come twice.
  const int64_t first_version = absl::ToUnixMicros(now);
  workers_.set_first_version(first_version);
  starts_.MarkLoaded(now);
  scheduler_.MarkLoaded();
  for (JobRecord& record : records) {
    JobEntry& entry = *jobs_.Add(std::move(record));
    entry.Restore(first_version, now + options_.retry_backoff.longest,
                  doubted_lead_, now);
    if (!entry.active()) continue;
    for (const GangMember& member : entry.attempt().members()) {
      WorkerState* worker = workers_.FindOrAdd(member.worker());
      if (worker == nullptr) continue;
      worker->ExpectMember(
          entry.name(), member.HasEnded() ? "" : member.record().incarnation(),
          now);
    }
  }
}

absl::StatusOr<v1::Job> Coordinator::FindSubmitted(
    const PreparedJob& prepared) const {
  const std::string& request_id = prepared.request_id();
  const JobEntry* same =
      request_id.empty() ? nullptr : jobs_.FindRequest(request_id);
  if (same == nullptr) return absl::NotFoundError("a new request");
  if (same->job().user() != prepared.submitter().user) {
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id \"", request_id, "\" was used by somebody else"));
  }
  // An older version stored the job without the defaults that came since.
  if (Deterministic(WithDefaults(same->job().spec())) ==
      Deterministic(prepared.spec())) {
    return same->job();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("request_id \"", request_id, "\" was used for ",
                   same->job().name(), " with another spec"));
}

absl::StatusOr<v1::Job> Coordinator::Submit(const PreparedJob& prepared,
                                            absl::Time now, Effects* effects) {
  absl::StatusOr<v1::Job> submitted = FindSubmitted(prepared);
  if (!absl::IsNotFound(submitted.status())) return submitted;
  const v1::JobSpec& spec = prepared.spec();
  const Submitter& submitter = prepared.submitter();
  if (queues_.Find(spec.queue()) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec.queue: there is no queue \"", spec.queue(), "\""));
  }
  RETURN_IF_ERROR(CheckMayRun(spec, submitter));
  RETURN_IF_ERROR(CheckSource(spec, submitter.user));
  RETURN_IF_ERROR(CheckQueueHasRoom());
  std::string name;
  do {
    name = JobName(ids_->NewId());
  } while (jobs_.Find(name) != nullptr);
  JobRecord record;
  record.set_serial(jobs_.last_serial() + 1);
  v1::Job& job = *record.mutable_job();
  job.set_name(name);
  *job.mutable_spec() = spec;
  for (const v1::DatasetPin& pin : prepared.datasets()) {
    *job.add_datasets() = pin;
  }
  job.set_request_id(prepared.request_id());
  job.set_user(submitter.user);
  job.set_sweep(submitter.sweep);
  *job.mutable_create_time() = ToTimestamp(now);
  Operation op(now, effects);
  JobEntry& entry = *jobs_.Add(std::move(record));
  entry.SetState(v1::QUEUED, "waiting to be scheduled", &op);
  op.RequestSchedule();
  Commit(&op);
  return entry.job();
}

absl::Status Coordinator::CheckMayRun(const v1::JobSpec& spec,
                                      const Submitter& submitter) const {
  // What a sweep runs was checked when the sweep was accepted.
  if (!spec.has_program() || submitter.administers ||
      !submitter.sweep.empty()) {
    return absl::OkStatus();
  }
  return CheckLetsUsersRunPrograms(spec.queue());
}

absl::Status Coordinator::CheckLetsUsersRunPrograms(
    const std::string& queue) const {
  const v1::Queue* const found = queues_.Find(queue);
  if (found != nullptr && found->program_role() == v1::ROLE_USER) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "program: only an administrator of queue ", queue,
      " may run programs in it; an administrator of the server lets its users "
      "do so with `comera queues update ",
      queue, " --programs user`"));
}

absl::Status Coordinator::CheckQueueHasRoom() const {
  if (queued_count() < options_.max_queued_jobs) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the queue is full: ", queued_count(), " jobs are waiting"));
}

absl::Status Coordinator::CheckSource(const v1::JobSpec& spec,
                                      const std::string& user) const {
  const auto start = ParseCheckpointName(spec.start_from().checkpoint());
  const JobEntry* source = start ? jobs_.Find(JobName(start->first)) : nullptr;
  return CheckStartFrom(spec, user,
                        source == nullptr ? nullptr : &source->job());
}

absl::Status Coordinator::CheckMayQueueAgain(const JobEntry& entry,
                                             bool start_over) const {
  RETURN_IF_ERROR(lifecycle_.CheckMayReopen(entry));
  const v1::JobSpec& spec = entry.job().spec();
  if (queues_.Find(spec.queue()) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no queue ", spec.queue(),
                     " any more; create it, or submit the job to another one"));
  }
  // A job that goes on from a state of its own needs no other.
  if (start_over || entry.job().attempt() == 0) {
    const absl::Status source = CheckSource(spec, entry.job().user());
    if (!source.ok()) return absl::FailedPreconditionError(source.message());
  }
  return CheckQueueHasRoom();
}

void Coordinator::Schedule(absl::Time now, Effects* effects) {
  Operation op(now, effects);
  scheduler_.Run(&op);
  Commit(&op);
}

void Coordinator::Synchronize(const v1::SynchronizeRequest& request,
                              const std::vector<v1::LogAck>& log_acks,
                              int64_t call, absl::Time now, Effects* effects) {
  Operation op(now, effects);
  exchange_.Run(request, log_acks, call, &op);
  Commit(&op);
}

void Coordinator::AwaitReports(absl::Time now) {
  for (auto& [id, worker] : workers_.workers()) {
    const bool known = worker.attached() || !worker.jobs().empty();
    if (known && !worker.lost()) worker.AwaitReport(now);
  }
  for (const auto& [name, entry] : jobs_.index().active()) {
    entry->attempt().ForgiveSilence(now);
  }
  starts_.MarkLoaded(now);
  scheduler_.Request();
}

void Coordinator::Tick(absl::Time now, Effects* effects) {
  Operation op(now, effects);
  monitor_.Check(&op);
  if (monitor_.gives_nobody_up(now)) starts_.HoldersAreAway(now);
  peers_.Announce(&op);
  // Jobs that end leave the index.
  const auto active = jobs_.index().active();
  for (const auto& [name, entry] : active) {
    lifecycle_.CheckDeadlines(*entry, &op);
  }
  Commit(&op);
  scheduler_.RequestByTime();
}

absl::StatusOr<v1::Job> Coordinator::Cancel(const std::string& name,
                                            const std::string& reason,
                                            absl::Time now, Effects* effects) {
  ASSIGN_OR_RETURN(JobEntry* const entry, FindJob(jobs_, name));
  Operation op(now, effects);
  lifecycle_.Cancel(*entry,
                    reason.empty() ? "cancelled by a client"
                                   : absl::StrCat("cancelled: ", reason),
                    &op);
  Commit(&op);
  return entry->job();
}

absl::StatusOr<v1::Job> Coordinator::Pause(const v1::PauseJobRequest& request,
                                           absl::Time now, Effects* effects) {
  ASSIGN_OR_RETURN(JobEntry* const entry, FindJob(jobs_, request.name()));
  Operation op(now, effects);
  RETURN_IF_ERROR(lifecycle_.Pause(
      *entry,
      request.reason().empty() ? "paused by a client"
                               : absl::StrCat("paused: ", request.reason()),
      &op));
  Commit(&op);
  return entry->job();
}

absl::StatusOr<v1::Job> Coordinator::Resume(const v1::ResumeJobRequest& request,
                                            absl::Time now, Effects* effects,
                                            const std::string& user) {
  ASSIGN_OR_RETURN(JobEntry* const entry, FindJob(jobs_, request.name()));
  if (IsFinal(entry->state())) {
    RETURN_IF_ERROR(CheckMayQueueAgain(*entry, request.start_over()));
  }
  Operation op(now, effects);
  RETURN_IF_ERROR(request.start_over() ? lifecycle_.StartOver(*entry, user, &op)
                                       : lifecycle_.Resume(*entry, &op));
  Commit(&op);
  return entry->job();
}

void Coordinator::Commit(Operation* op) {
  // An answer lets workers keep states, and their names are stored with it.
  held_calls_.AnswerChanged(op);
  for (const std::string& name : op->changed_jobs()) {
    op->effects().records[name] = jobs_.Find(name)->CommitRevision(op->now());
    op->effects().views.erase(name);
  }
  if (op->needs_schedule()) scheduler_.Request();
}

absl::StatusOr<v1::JobExplanation> Coordinator::Explain(const std::string& name,
                                                        absl::Time now) const {
  ASSIGN_OR_RETURN(const JobEntry* const entry, FindJob(jobs_, name));
  return explainer_.Explain(*entry, now);
}

v1::Forecast Coordinator::Forecast(const v1::JobSpec& spec,
                                   const std::string& user,
                                   absl::Time now) const {
  return explainer_.Forecast(spec, user, now);
}

void Coordinator::ReleaseHeldCalls(absl::Time now, Effects* effects) {
  Operation op(now, effects);
  held_calls_.AnswerAll(&op);
  Commit(&op);
}

void Coordinator::ConfirmWorkerExit(const std::string& worker,
                                    const std::string& incarnation,
                                    absl::Time now, Effects* effects) {
  Operation op(now, effects);
  monitor_.ConfirmExit(worker, incarnation, &op);
  Commit(&op);
}

bool Coordinator::KeepsLog(const v1::LogChunk& chunk,
                           const std::string& worker, absl::Time now) const {
  return IsOwnLog(chunk, worker, now, jobs_);
}

absl::Status Coordinator::CheckUpload(const v1::UploadArtifactHeader& header,
                                      const std::string& worker) const {
  return FindUploader(header, worker, jobs_).status();
}

int64_t Coordinator::UploadedBytes(const std::string* user) const {
  int64_t bytes = 0;
  for (const auto& [name, entry] : jobs_.index().active()) {
    if (user != nullptr && entry->job().user() != *user) continue;
    for (const UploadedFile& upload : entry->attempt().record().uploads()) {
      bytes += upload.file().size_bytes();
    }
  }
  return bytes;
}

bool Coordinator::NeedsCheckpoint(const std::string& worker,
                                  const std::string& checkpoint) const {
  const WorkerState* state = workers_.Find(worker);
  const auto ids = ParseCheckpointName(checkpoint);
  if (state == nullptr || !ids) return false;
  for (const std::string& job : state->jobs()) {
    if (job == JobName(ids->first) ||
        jobs_.Find(job)->job().spec().start_from().checkpoint() == checkpoint) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> Coordinator::NeededDatasets(
    const std::string& worker) const {
  std::set<std::string> digests;
  const WorkerState* state = workers_.Find(worker);
  if (state == nullptr) return {};
  for (const std::string& job : state->jobs()) {
    for (const v1::DatasetPin& pin : jobs_.Find(job)->job().datasets()) {
      digests.insert(pin.digest());
    }
  }
  return {digests.begin(), digests.end()};
}

absl::Status Coordinator::ArtifactStored(const v1::UploadArtifactHeader& header,
                                         const std::string& worker,
                                         absl::Time now, Effects* effects) {
  ASSIGN_OR_RETURN(const JobEntry* const uploader,
                   FindUploader(header, worker, jobs_));
  JobEntry& entry = *jobs_.Find(uploader->name());
  Operation op(now, effects);
  entry.attempt().AddUpload(header.artifact(), header.file());
  entry.MarkChanged(&op);
  lifecycle_.Advance(entry, &op);
  Commit(&op);
  return absl::OkStatus();
}

std::vector<v1::WorkerSummary> Coordinator::Workers(absl::Time now) const {
  std::vector<v1::WorkerSummary> summaries;
  for (const auto& [id, worker] : workers_.workers()) {
    summaries.push_back(Summarize(worker, options_, now));
  }
  return summaries;
}

ClusterCounts Coordinator::CountCluster(absl::Time now) const {
  ClusterCounts counts =
      server::CountCluster(workers_, options_.suspect_after, now);
  counts.mass_silence = monitor_.mass_silence();
  return counts;
}

absl::StatusOr<v1::WorkerSummary> Coordinator::GetWorker(
    const std::string& name, absl::Time now) const {
  ASSIGN_OR_RETURN(const WorkerState* const worker, FindWorker(workers_, name));
  return Summarize(*worker, options_, now);
}

std::vector<v1::WorkerSummary> Coordinator::ModelServers(absl::Time now) const {
  std::vector<v1::WorkerSummary> servers;
  for (const auto& [id, worker] : workers_.workers()) {
    if (worker.IsConnected(now, options_.suspect_after) &&
        worker.CanBeReachedFrom(options_.host)) {
      servers.push_back(Summarize(worker, options_, now));
    }
  }
  const auto order = [](const v1::WorkerSummary& worker) {
    return std::make_pair(worker.service() != v1::WorkerSummary::DRAINED,
                          worker.busy_slots() - worker.slots());
  };
  std::stable_sort(
      servers.begin(), servers.end(),
      [&](const auto& a, const auto& b) { return order(a) < order(b); });
  return servers;
}

absl::StatusOr<v1::WorkerSummary> Coordinator::Drain(
    const v1::DrainWorkerRequest& request, absl::Time now, Effects* effects) {
  ASSIGN_OR_RETURN(WorkerState* const worker,
                   FindWorker(workers_, request.name()));
  Operation op(now, effects);
  WorkerPolicy policy = worker->policy();
  policy.set_drained(true);
  policy.set_wait(request.wait());
  policy.set_reason(request.reason());
  *policy.mutable_since() = ToTimestamp(now);
  worker->SetPolicy(std::move(policy), &op);
  if (!request.wait()) {
    const std::set<std::string> jobs = worker->jobs();
    for (const std::string& name : jobs) {
      JobEntry& entry = *jobs_.Find(name);
      lifecycle_.RequestStop(
          entry, AttemptRecord::DRAINED,
          absl::StrCat("worker ", worker->id(), " is drained"), &op);
      lifecycle_.Advance(entry, &op);
    }
  }
  Commit(&op);
  return Summarize(*worker, options_, now);
}

absl::StatusOr<v1::WorkerSummary> Coordinator::ResumeWorker(
    const v1::ResumeWorkerRequest& request, absl::Time now, Effects* effects) {
  // Also one that has been away for so long that it is known no more.
  if (const auto id = ParseWorkerName(request.name())) {
    workers_.FindOrRecall(*id);
  }
  ASSIGN_OR_RETURN(WorkerState* const worker,
                   FindWorker(workers_, request.name()));
  Operation op(now, effects);
  worker->ClearFailures();
  worker->SetPolicy(WorkerPolicy(), &op);
  Commit(&op);
  return Summarize(*worker, options_, now);
}

absl::StatusOr<v1::DeleteWorkerResponse> Coordinator::DeleteWorker(
    const v1::DeleteWorkerRequest& request, absl::Time now, Effects* effects) {
  if (const auto id = ParseWorkerName(request.name())) {
    workers_.FindOrRecall(*id);
  }
  ASSIGN_OR_RETURN(WorkerState* const worker,
                   FindWorker(workers_, request.name()));
  if (worker->IsConnected(now, options_.suspect_after)) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.name(), " is connected: stop it first"));
  }
  if (!worker->jobs().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "members of ", *worker->jobs().begin(),
        worker->jobs().size() > 1 ? " and other jobs" : "",
        " may still run on ", request.name(),
        ": they are given up when it has been silent for ",
        absl::FormatDuration(options_.node_lost_after)));
  }
  Operation op(now, effects);
  const std::string id = worker->id();
  workers_.Remove(id, &op);
  peers_.Forget(id);
  peers_.MarkPeersChanged();
  Commit(&op);
  return v1::DeleteWorkerResponse();
}

absl::StatusOr<v1::Queue> Coordinator::CreateQueue(
    const v1::CreateQueueRequest& request, absl::Time now, Effects* effects) {
  scheduler_.Request();
  return queues_.Create(request, now, &effects->documents);
}

absl::StatusOr<v1::Queue> Coordinator::UpdateQueue(
    const v1::UpdateQueueRequest& request, Effects* effects) {
  ASSIGN_OR_RETURN(v1::Queue queue,
                   queues_.Update(request, &effects->documents));
  scheduler_.Request();
  queue_directory_.AddUse({&queue});
  return queue;
}

absl::StatusOr<v1::DeleteQueueResponse> Coordinator::DeleteQueue(
    const v1::DeleteQueueRequest& request, Effects* effects) {
  RETURN_IF_ERROR(queue_directory_.CheckUnused(request.name()));
  RETURN_IF_ERROR(queues_.Delete(request, &effects->documents));
  return v1::DeleteQueueResponse();
}

absl::StatusOr<v1::Job> Coordinator::RemoveModel(const std::string& name,
                                                 absl::Time now,
                                                 Effects* effects) {
  Operation op(now, effects);
  ASSIGN_OR_RETURN(JobEntry* const entry,
                   server::RemoveModel(name, &jobs_, &op));
  Commit(&op);
  return entry->job();
}

absl::StatusOr<v1::Job> Coordinator::PinModel(const std::string& name,
                                              bool pinned, absl::Time now,
                                              Effects* effects) {
  Operation op(now, effects);
  ASSIGN_OR_RETURN(JobEntry* const entry, SetPinned(name, pinned, &jobs_, &op));
  Commit(&op);
  return entry->job();
}

const v1::Job* Coordinator::FindModelAlias(const std::string& alias) const {
  const JobEntry* const entry = jobs_.FindAlias(alias);
  return entry == nullptr ? nullptr : &entry->job();
}

absl::StatusOr<v1::Job> Coordinator::SetModelAlias(
    const v1::SetModelAliasRequest& request, absl::Time now, Effects* effects) {
  Operation op(now, effects);
  ASSIGN_OR_RETURN(JobEntry* const entry,
                   SetAlias(request.alias(), request.model(), &jobs_, &op));
  Commit(&op);
  return entry->job();
}

absl::StatusOr<v1::Job> Coordinator::RemoveModelAlias(const std::string& alias,
                                                      absl::Time now,
                                                      Effects* effects) {
  Operation op(now, effects);
  ASSIGN_OR_RETURN(JobEntry* const entry, RemoveAlias(alias, &jobs_, &op));
  Commit(&op);
  return entry->job();
}

absl::Status Coordinator::Delete(const std::string& name, Effects* effects) {
  ASSIGN_OR_RETURN(const JobEntry* const entry, FindJob(jobs_, name));
  RETURN_IF_ERROR(CheckMayBeForgotten(*entry, jobs_));
  Forget({name}, effects);
  return absl::OkStatus();
}

std::vector<std::string> Coordinator::ExpiredJobs(absl::Time ended_before,
                                                  size_t limit) const {
  return FindExpiredJobs(jobs_, ended_before, limit);
}

void Coordinator::Forget(const std::vector<std::string>& names,
                         Effects* effects) {
  for (const std::string& name : names) {
    const JobEntry* entry = jobs_.Find(name);
    if (entry == nullptr || !IsFinal(entry->state())) continue;
    // One that has never run has left nothing.
    const bool has_run = entry->job().attempt() > 0;
    jobs_.Remove(name);
    if (has_run) peers_.ForgetJob(name, &effects->documents);
    effects->deleted_jobs.push_back(name);
  }
}

}  // namespace comera::server
