#include "server/host/coordinator_host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "server/coordinator/synchronize_validation.h"

namespace comera::server {
namespace {

// A pass over a queue that is longer is followed by a pause so many times as
// long as the pass, in which other work gets its turn.
constexpr size_t kLongQueue = 500;
constexpr int kSchedulePause = 4;
constexpr absl::Duration kMaxSchedulePause = absl::Seconds(1);
// How often the store's size is looked at.
constexpr absl::Duration kMeasureStore = absl::Seconds(30);

// Many, and soon followed by the next.
bool IsSample(const v1::JobEvent& event) {
  return event.has_metrics() || event.has_rank_snapshot();
}

absl::Status Stopping() {
  return absl::UnavailableError("the coordinator is stopping");
}

Coordinator::Options WithPeerKey(Coordinator::Options options, IdSource* ids) {
  if (options.peer_key.empty()) {
    options.peer_key = absl::StrCat(ids->NewId(), ids->NewId(), ids->NewId());
  }
  if (options.host.empty()) {
    // As workers name theirs.
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    options.host = name[0] != '\0' ? name : "localhost";
  }
  return options;
}

absl::Status NoJob(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("no job ", name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorHost>> CoordinatorHost::Start(
    const Options& options, JobStore* store, IdSource* ids, Clock* clock,
    StatusCallback on_failure) {
  StoreChanges followed;
  absl::StatusOr<std::vector<JobRecord>> records;
  if (options.follow != nullptr) {
    absl::StatusOr<StoreChanges> changes = options.follow->ReadChanges(0);
    if (!changes.ok()) return changes.status();
    followed = *std::move(changes);
    records = std::move(followed.records);
  } else {
    records = store->LoadJobs();
  }
  if (!records.ok()) return records.status();
  std::unique_ptr<CoordinatorHost> host(
      new CoordinatorHost(options, ids, clock));
  LOG(INFO) << "event=loaded jobs=" << records->size();
  for (const JobRecord& record : *records) {
    host->directory_.Put(record.serial(), record.last_sequence(), record.job());
    if (options.metrics != nullptr && options.follow == nullptr) {
      options.metrics->OnLoaded(record.job());
    }
  }
  if (options.follow != nullptr) {
    host->followed_change_ = followed.change;
  } else {
    absl::StatusOr<std::vector<Document>> queues =
        store->LoadDocuments(QueueTable::kDocumentKind);
    if (!queues.ok()) return queues.status();
    absl::StatusOr<std::vector<Document>> workers =
        store->LoadDocuments(WorkerTable::kDocumentKind);
    if (!workers.ok()) return workers.status();
    absl::Status loaded = host->coordinator_.LoadDocuments(*queues, *workers);
    if (!loaded.ok()) return loaded;
    host->coordinator_.Load(*std::move(records), clock->Now());
  }
  StoreThread::OnCommit on_commit;
  if (options.metrics != nullptr) {
    on_commit = [metrics = options.metrics](absl::Duration took, size_t writes,
                                            bool ok) {
      metrics->OnCommit(took, writes, ok);
    };
  }
  host->store_ = std::make_unique<StoreThread>(store, std::move(on_failure),
                                               std::move(on_commit));
  host->io_ = std::make_unique<EventLoop>();
  host->hub_.Defer([raw = host.get()](std::function<void()> closure) {
    raw->loop_->Post(std::move(closure));
  });
  host->probes_ = std::make_unique<WorkerProbes>(
      WorkerProbes::Options(),
      [raw = host.get()](const WorkerProbe& probe) { raw->ConfirmWorkerExit(probe); });
  EventLoop::Options loop_options;
  loop_options.tick_interval = options.tick_interval;
  loop_options.on_tick = [raw = host.get()] { raw->Tick(); };
  host->loop_ = std::make_unique<EventLoop>(std::move(loop_options));
  return host;
}

CoordinatorHost::CoordinatorHost(const Options& options, IdSource* ids,
                                 Clock* clock)
    : options_(options),
      clock_(clock),
      coordinator_(WithPeerKey(options.coordinator, ids), ids),
      hub_(options.hub),
      logs_(options.data_dir, options.logs) {}

CoordinatorHost::~CoordinatorHost() {
  Stop();
  probes_.reset();
  io_.reset();
  // What the IO thread posted reaches the loop before the store goes.
  loop_->Run([] {});
  store_.reset();
  loop_.reset();
}

void CoordinatorHost::Stop() {
  loop_->Run([this] {
    if (stopping_) return;
    Effects effects;
    coordinator_.ReleaseHeldCalls(clock_->Now(), &effects);
    Apply(std::move(effects), [](const absl::Status&) {});
    stopping_ = true;
    const auto all = listeners_;
    for (const auto& [job, listeners] : all) {
      for (const auto& [id, wake] : listeners) wake();
    }
  });
}

void CoordinatorHost::Apply(Effects effects, StatusCallback done,
                            std::vector<AuditRow> audit) {
  StoreBatch batch;
  batch.audit = std::move(audit);
  for (const auto& [name, record] : effects.records) {
    batch.records.push_back(record);
  }
  batch.events = effects.events;
  batch.documents = effects.documents;
  batch.deleted_jobs = effects.deleted_jobs;
  auto shared = std::make_shared<Effects>(std::move(effects));
  store_->Write(std::move(batch), [this, shared, done = std::move(done)](
                                      const absl::Status& status) mutable {
    loop_->Post([this, shared, status, done = std::move(done)] {
      Release(status, std::move(*shared));
      done(status);
    });
  });
  MaybeSchedule();
}

void CoordinatorHost::Release(const absl::Status& status, Effects effects) {
  if (!status.ok()) {
    const absl::Status error = absl::UnavailableError(
        absl::StrCat("the job store failed: ", status.message()));
    for (SynchronizeReply& reply : effects.replies) Reply(reply.call, error);
    return;
  }
  for (auto& [name, record] : effects.records) {
    directory_.Put(record.serial(), record.last_sequence(),
                   std::move(*record.mutable_job()));
  }
  for (auto& [name, job] : effects.views) directory_.Refresh(std::move(job));
  // The new state is there: readers who come for it must not get an older
  // answer.
  for (const v1::JobEvent& event : effects.events) {
    if (!IsSample(event)) ++visible_changes_;
  }
  if (!effects.views.empty() || !effects.documents.empty()) {
    ++visible_changes_;
  }
  for (v1::JobEvent& event : effects.events) {
    if (event.has_state_change()) {
      LOG(INFO) << "job=" << event.job()
                << " state=" << v1::JobState_Name(event.state_change().state())
                << " attempt=" << event.attempt() << " reason=\""
                << absl::Utf8SafeCEscape(event.state_change().reason()) << "\"";
    } else if (event.has_incident()) {
      LOG(INFO) << "job=" << event.job() << " attempt=" << event.attempt()
                << " rank=" << event.incident().rank() << " incident="
                << v1::FailureClass_Name(event.incident().failure_class())
                << " message=\""
                << absl::Utf8SafeCEscape(event.incident().message()) << "\"";
    }
    if (options_.metrics != nullptr) {
      const JobDirectory::Entry* entry = directory_.Find(event.job());
      options_.metrics->OnEvent(event,
                                entry != nullptr ? entry->job.get() : nullptr);
    }
    if (observer_ != nullptr) observer_->OnJobEvent(event);
    hub_.Publish(std::move(event));
  }
  for (const auto& [name, record] : effects.records) NotifyChange(name);
  for (const std::string& name : effects.deleted_jobs) {
    directory_.Remove(name);
    ++visible_changes_;
    NotifyChange(name);
    changes_.erase(name);
  }
  for (SynchronizeReply& reply : effects.replies) {
    Reply(reply.call, std::move(reply.response));
  }
}

void CoordinatorHost::MaybeSchedule() {
  if (schedule_posted_ || stopping_ || !coordinator_.NeedsSchedule()) return;
  schedule_posted_ = true;
  auto pass = [this] {
    schedule_posted_ = false;
    if (stopping_) return;
    Effects effects;
    const absl::Time begin = absl::Now();
    coordinator_.Schedule(clock_->Now(), &effects);
    const absl::Duration took = absl::Now() - begin;
    if (options_.metrics != nullptr) options_.metrics->OnSchedulePass(took);
    // Every submission asks for a pass.
    schedule_pause_ = coordinator_.queued_count() > kLongQueue
                          ? std::min(took * kSchedulePause, kMaxSchedulePause)
                          : absl::ZeroDuration();
    if (effects.records.empty() && effects.views.empty() &&
        effects.replies.empty() && effects.documents.empty()) {
      return;
    }
    Apply(std::move(effects), [](const absl::Status&) {});
  };
  if (schedule_pause_ > absl::ZeroDuration()) {
    loop_->PostAfter(schedule_pause_, std::move(pass));
  } else {
    loop_->Post(std::move(pass));
  }
}

void CoordinatorHost::TellMetrics() {
  const absl::Time now = clock_->Now();
  if (options_.follow == nullptr) {
    options_.metrics->SetCluster(coordinator_.CountCluster(now));
  }
  if (now < next_measure_) return;
  next_measure_ = now + kMeasureStore;
  store_->Read([metrics = options_.metrics](JobStore* store) {
    const absl::StatusOr<int64_t> bytes = store->SizeBytes();
    if (bytes.ok()) metrics->SetStoreBytes(*bytes);
  });
}

void CoordinatorHost::Tick() {
  if (stopping_) return;
  if (options_.metrics != nullptr) TellMetrics();
  if (options_.follow != nullptr) return Follow();
  if (observer_ != nullptr) observer_->OnTick(clock_->Now());
  Effects effects;
  coordinator_.Tick(clock_->Now(), &effects);
  for (WorkerProbe& probe : effects.probes) probes_->Ask(std::move(probe));
  if (effects.records.empty() && effects.replies.empty() &&
      effects.documents.empty()) {
    MaybeSchedule();
  } else {
    Apply(std::move(effects), [](const absl::Status&) {});
  }
  MaybeSweep();
}

void CoordinatorHost::ConfirmWorkerExit(const WorkerProbe& probe) {
  loop_->Post([this, probe] {
    if (stopping_) return;
    LOG(INFO) << "worker=" << probe.worker
              << " event=process_gone address=" << probe.address;
    Effects effects;
    coordinator_.ConfirmWorkerExit(probe.worker, probe.incarnation, clock_->Now(),
                            &effects);
    Apply(std::move(effects), [](const absl::Status&) {});
  });
}

void CoordinatorHost::TickNow() {
  loop_->Run([this] { Tick(); });
}

void CoordinatorHost::Submit(const v1::CreateJobRequest& request,
                             const Submitter& submitter,
                             const PinnedDatasets& datasets,
                             const JobAudit& audit, Callback<v1::Job> done) {
  if (stopping_) return done(Stopping());
  Effects effects;
  absl::StatusOr<v1::Job> job = coordinator_.Submit(
      request, clock_->Now(), &effects, submitter, datasets.pins);
  // Also an answer that changes nothing waits for what it tells of.
  Apply(
      std::move(effects),
      [job, done, hold = datasets.hold](const absl::Status& status) {
        done(status.ok() ? job : absl::UnavailableError(status.message()));
      },
      Rows(audit, job));
}

void CoordinatorHost::CreateJob(v1::CreateJobRequest request,
                                Callback<v1::Job> done, Submitter submitter,
                                JobAudit audit, int64_t max_queued) {
  loop_->Post([this, request = std::move(request), done = std::move(done),
               submitter = std::move(submitter), audit = std::move(audit),
               max_queued] {
    if (stopping_) return done(Stopping());
    // A repeated request has its job, whatever became of the datasets.
    if (!absl::IsNotFound(
            coordinator_.FindSubmitted(request, submitter).status())) {
      return Submit(request, submitter, PinnedDatasets(), audit, done);
    }
    const int64_t queued = directory_.queued(submitter.user);
    if (max_queued > 0 && queued >= max_queued) {
      return done(absl::ResourceExhaustedError(
          absl::StrCat(queued, " jobs of ", submitter.user,
                       " are waiting, which is the limit")));
    }
    PinDatasets(request.spec(),
                [this, request, submitter, audit,
                 done](const absl::StatusOr<PinnedDatasets>& datasets) {
                  if (!datasets.ok()) return done(datasets.status());
                  Submit(request, submitter, *datasets, audit, done);
                });
  });
}

void CoordinatorHost::CancelJob(std::string name, std::string reason,
                                Callback<v1::Job> done, JobAudit audit) {
  loop_->Post([this, name = std::move(name), reason = std::move(reason),
               done = std::move(done), audit = std::move(audit)] {
    if (stopping_) return done(Stopping());
    Effects effects;
    absl::StatusOr<v1::Job> job =
        coordinator_.Cancel(name, reason, clock_->Now(), &effects);
    Apply(
        std::move(effects),
        [job, done](const absl::Status& status) {
          done(status.ok() ? job : absl::UnavailableError(status.message()));
        },
        Rows(audit, job));
  });
}

std::vector<AuditRow> CoordinatorHost::Rows(
    const JobAudit& audit, const absl::StatusOr<v1::Job>& job) const {
  if (audit == nullptr || !job.ok()) return {};
  return {audit(*job, clock_->Now())};
}

void CoordinatorHost::Write(StoreBatch batch, StatusCallback done) {
  store_->Write(std::move(batch), std::move(done));
}

void CoordinatorHost::Read(std::function<void(JobStore*)> read) {
  store_->Read(std::move(read));
}

void CoordinatorHost::GetJob(std::string name, Callback<v1::Job> done) {
  // Not on the loop: pollers are many, and a pass over a long queue takes time.
  const std::shared_ptr<const v1::Job> job = directory_.Get(name);
  if (job == nullptr) return done(NoJob(name));
  done(*job);
}

void CoordinatorHost::ListWorkers(Callback<v1::ListWorkersResponse> done) {
  loop_->Post([this, done = std::move(done)] {
    // Workers speak to the leader alone.
    if (options_.follow != nullptr) return done(options_.not_leader());
    v1::ListWorkersResponse response;
    for (v1::WorkerSummary& worker : coordinator_.Workers(clock_->Now())) {
      *response.add_workers() = std::move(worker);
    }
    done(std::move(response));
  });
}

int64_t CoordinatorHost::Synchronize(v1::SynchronizeRequest request,
                                     Callback<v1::SynchronizeResponse> done) {
  const int64_t call = next_call_.fetch_add(1);
  // Before anything of it is used, also by the log files.
  if (absl::Status status = ValidateSynchronize(request); !status.ok()) {
    loop_->Post([status, done = std::move(done)] { done(status); });
    return call;
  }
  loop_->Post([this, call, request = std::move(request),
               done = std::move(done)]() mutable {
    if (stopping_) return done(Stopping());
    calls_[call] = std::move(done);
    if (request.logs_size() == 0) return TakeSynchronize(request, {}, call);
    std::vector<bool> keep;
    for (const v1::LogChunk& chunk : request.logs()) {
      keep.push_back(coordinator_.KeepsLog(chunk));
    }
    io_->Post([this, call, request = std::move(request),
               keep = std::move(keep)]() mutable {
      std::vector<v1::LogAck> acks = AppendLogs(request, keep);
      loop_->Post(
          [this, call, request = std::move(request), acks = std::move(acks)] {
            TakeSynchronize(request, acks, call);
            for (const v1::LogAck& ack : acks) NotifyChange(ack.job());
          });
    });
  });
  return call;
}

std::vector<v1::LogAck> CoordinatorHost::AppendLogs(
    const v1::SynchronizeRequest& request, const std::vector<bool>& keep) {
  std::vector<v1::LogAck> acks;
  for (int i = 0; i < request.logs_size(); ++i) {
    const v1::LogChunk& chunk = request.logs(i);
    // Nobody wants the others: the worker may drop them.
    absl::StatusOr<int64_t> end =
        chunk.offset() + static_cast<int64_t>(chunk.data().size());
    if (keep[i]) end = logs_.Append(chunk);
    if (!end.ok()) {
      LOG(WARNING) << "job=" << chunk.job() << " attempt=" << chunk.attempt()
                   << " rank=" << chunk.rank()
                   << " event=log_not_stored status=\"" << end.status() << "\"";
      continue;
    }
    v1::LogAck ack;
    ack.set_job(chunk.job());
    ack.set_attempt(chunk.attempt());
    ack.set_rank(chunk.rank());
    ack.set_offset(*end);
    acks.push_back(std::move(ack));
  }
  return acks;
}

void CoordinatorHost::TakeSynchronize(const v1::SynchronizeRequest& request,
                                      const std::vector<v1::LogAck>& log_acks,
                                      int64_t call) {
  if (stopping_) return Reply(call, Stopping());
  if (calls_.count(call) == 0) return;
  Effects effects;
  coordinator_.Synchronize(request, log_acks, call, clock_->Now(), &effects);
  Apply(std::move(effects), [](const absl::Status&) {});
}

void CoordinatorHost::Reply(int64_t call,
                            absl::StatusOr<v1::SynchronizeResponse> response) {
  auto it = calls_.find(call);
  if (it == calls_.end()) return;
  Callback<v1::SynchronizeResponse> done = std::move(it->second);
  calls_.erase(it);
  done(std::move(response));
}

void CoordinatorHost::Abandon(int64_t call) {
  loop_->Post([this, call] {
    coordinator_.Abandon(call);
    Reply(call, absl::CancelledError("the worker hung up"));
  });
}

void CoordinatorHost::CheckUpload(v1::UploadArtifactHeader header,
                                  StatusCallback done) {
  loop_->Post([this, header = std::move(header), done = std::move(done)] {
    done(stopping_ ? Stopping() : coordinator_.CheckUpload(header));
  });
}

void CoordinatorHost::ArtifactStored(v1::UploadArtifactHeader header,
                                     StatusCallback done) {
  loop_->Post([this, header = std::move(header), done = std::move(done)] {
    if (stopping_) return done(Stopping());
    Effects effects;
    absl::Status status =
        coordinator_.ArtifactStored(header, clock_->Now(), &effects);
    if (!status.ok()) return done(status);
    Apply(std::move(effects), done);
  });
}

void CoordinatorHost::ReadLog(std::string job, int64_t attempt, int32_t rank,
                              int64_t offset, size_t max_bytes,
                              Callback<std::string> done) {
  io_->Post([this, job = std::move(job), attempt, rank, offset, max_bytes,
             done = std::move(done)] {
    auto data = logs_.Read(job, attempt, rank, offset, max_bytes);
    loop_->Post([data = std::move(data), done] { done(data); });
  });
}

int64_t CoordinatorHost::Changes(const std::string& job) const {
  auto it = changes_.find(job);
  return it == changes_.end() ? 0 : it->second;
}

int64_t CoordinatorHost::AddListener(const std::string& job,
                                     std::function<void()> wake) {
  listeners_[job][next_listener_] = std::move(wake);
  return next_listener_++;
}

void CoordinatorHost::RemoveListener(const std::string& job, int64_t id) {
  auto it = listeners_.find(job);
  if (it == listeners_.end()) return;
  it->second.erase(id);
  if (it->second.empty()) listeners_.erase(it);
}

void CoordinatorHost::NotifyChange(const std::string& job) {
  ++changes_[job];
  auto it = listeners_.find(job);
  if (it == listeners_.end()) return;
  // A listener may remove itself.
  const auto listeners = it->second;
  for (const auto& [id, wake] : listeners) wake();
}

}  // namespace comera::server
