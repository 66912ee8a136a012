#include "server/coordinator/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/job_defaults.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/start_from.h"
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

}  // namespace

Coordinator::Coordinator(const Options& options, IdSource* ids)
    : options_(options), ids_(ids) {
  workers_.set_first_version(1);
}

void Coordinator::Load(std::vector<JobRecord> records, absl::Time now) {
  loaded_ = now;
  // One change per microsecond would have to last for a version to come twice.
  const int64_t first_version = absl::ToUnixMicros(now);
  workers_.set_first_version(first_version);
  // The first pass finds out.
  may_grow_ = true;
  for (JobRecord& record : records) {
    JobEntry& entry = *jobs_.Add(std::move(record));
    if (entry.record.has_retry_time()) {
      // The clock may be another one now.
      entry.retry_at = std::min(FromTimestamp(entry.record.retry_time()),
                                now + options_.retry_backoff.longest);
    }
    if (!IsActive(entry.job().state())) continue;
    entry.placed = now;
    if (HasResult(entry.record.attempt())) entry.result_time = now;
    for (const AttemptMember& rank : entry.record.attempt().members()) {
      MemberWatch watch;
      watch.last_listed = now;
      watch.start_version = watch.stop_version = first_version;
      entry.ranks.push_back(watch);
      WorkerState* worker = workers_.FindOrAdd(rank.worker());
      if (worker == nullptr) continue;
      worker->last_seen = now;
      worker->jobs.insert(entry.job().name());
      if (!Ended(rank)) worker->incarnation = rank.incarnation();
    }
  }
}

absl::StatusOr<v1::Job> Coordinator::FindSubmitted(
    const PreparedJob& prepared) const {
  const std::string& request_id = prepared.request_id();
  JobEntry* same = request_id.empty()
                       ? nullptr
                       : const_cast<JobTable&>(jobs_).FindRequest(request_id);
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
  if (spec.has_start_from()) {
    const auto start = ParseCheckpointName(spec.start_from().checkpoint());
    const JobEntry* source =
        start ? jobs_.Find(JobName(start->first)) : nullptr;
    const absl::Status status = CheckStartFrom(
        spec, submitter.user, source == nullptr ? nullptr : &source->job());
    if (!status.ok()) return status;
  }
  if (jobs_.queued_count() >= options_.max_queued_jobs) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the queue is full: ", jobs_.queued_count(), " jobs are waiting"));
  }
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
  JobEntry& entry = *jobs_.Add(std::move(record));
  SetState(entry, v1::QUEUED, "waiting to be scheduled", now, effects);
  needs_schedule_ = true;
  Finish(now, effects);
  return entry.job();
}

absl::StatusOr<v1::Job> Coordinator::Cancel(const std::string& name,
                                            const std::string& reason,
                                            absl::Time now, Effects* effects) {
  JobEntry* entry = jobs_.Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", name));
  }
  const std::string text = reason.empty() ? "cancelled by a client"
                                          : absl::StrCat("cancelled: ", reason);
  switch (entry->job().state()) {
    case v1::QUEUED:
    case v1::PAUSED:
      *entry->job().mutable_end_time() = ToTimestamp(now);
      SetState(*entry, v1::CANCELLED, text, now, effects);
      break;
    case v1::STARTING:
    case v1::RUNNING:
      SetState(*entry, v1::CANCELLING, text, now, effects);
      StopAttempt(*entry);
      Advance(*entry, now, effects);
      break;
    default:
      break;
  }
  // A cancelled job may have held back the jobs behind it.
  needs_schedule_ = true;
  Finish(now, effects);
  return entry->job();
}

bool Coordinator::KeepsLog(const v1::LogChunk& chunk) const {
  const JobEntry* entry = const_cast<JobTable&>(jobs_).Find(chunk.job());
  return entry != nullptr && chunk.offset() >= 0 && chunk.attempt() >= 1 &&
         chunk.attempt() <= entry->job().attempt() && chunk.rank() >= 0 &&
         chunk.rank() < entry->job().spec().resources().processes();
}

void Coordinator::Tick(absl::Time now, Effects* effects) {
  for (auto& [id, worker] : workers_.workers()) {
    if (worker.held && worker.held->deadline <= now) {
      ReplyHeld(worker, now, effects);
    }
    const absl::Duration patience =
        worker.attached ? options_.node_lost_after : options_.reattach_grace;
    const absl::Duration silent = now - worker.last_seen;
    if (!worker.lost && !worker.held && silent > patience) {
      worker.lost = true;
      peers_changed_ = peers_changed_ || !worker.peer_address.empty();
      LoseMembers(worker,
                  absl::StrCat("was not heard from for ",
                               absl::FormatDuration(
                                   absl::Trunc(silent, absl::Seconds(1)))),
                  now, effects);
    }
    ProbeSilent(worker, now, effects);
  }
  TouchPeers(now);
  const std::set<std::string> active = jobs_.active();
  for (const std::string& name : active) {
    TickAttempt(*jobs_.Find(name), now, effects);
  }
  Finish(now, effects);
  // Workers become suspect without a word, and jobs end their minimum run time.
  if (jobs_.queued_count() > 0 || may_grow_) needs_schedule_ = true;
}

void Coordinator::Change(JobEntry& entry) {
  changed_.insert(entry.job().name());
}

void Coordinator::Touch(const std::string& worker) {
  workers_.Touch(worker);
  touched_.insert(worker);
}

void Coordinator::Finish(absl::Time now, Effects* effects) {
  for (const std::string& name : changed_) {
    JobRecord& record = jobs_.Find(name)->record;
    record.set_revision(record.revision() + 1);
    record.mutable_job()->set_etag(absl::StrCat(record.revision()));
    effects->records[name] = record;
    effects->views.erase(name);
  }
  changed_.clear();
  for (const std::string& id : touched_) {
    WorkerState* worker = workers_.Find(id);
    if (worker != nullptr && worker->held) ReplyHeld(*worker, now, effects);
  }
  touched_.clear();
}

}  // namespace comera::server
