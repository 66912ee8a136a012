// Runs the coordinator: start and stop, what it commits, the passes of the
// scheduler and what expires.
#include "server/host/coordinator_host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "server/coordinator/job/forgotten_jobs.h"
#include "server/host/clock_check.h"

namespace comera::server {
namespace {

// A pass over a queue that is longer, or that takes longer than this, is
// followed by a pause so many times as long as the pass, in which other work
// gets its turn: thousands of workers may come back at once.
constexpr size_t kLongQueue = 500;
constexpr absl::Duration kLongPass = absl::Milliseconds(2);
constexpr int kSchedulePause = 4;
constexpr absl::Duration kMaxSchedulePause = absl::Seconds(1);
// How often the store's size is looked at.
constexpr absl::Duration kMeasureStore = absl::Seconds(30);

// Many, and soon followed by the next.
bool IsSample(const v1::JobEvent& event) {
  return event.has_metrics() || event.has_rank_snapshot();
}

Coordinator::Options WithPeerKey(Coordinator::Options options, IdSource* ids) {
  if (options.peer_key.empty()) {
    options.peer_key = absl::StrCat(ids->NewId(), ids->NewId(), ids->NewId());
  }
  if (options.host.empty()) {
    // Workers name their machines in the same way.
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    options.host = name[0] != '\0' ? name : "localhost";
  }
  return options;
}

void LogEvent(const v1::JobEvent& event) {
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
}

// Whether it needs less room afterwards. The names of the jobs that it deletes
// are smaller than they were.
bool OnlyDeletes(const StoreBatch& batch) {
  return batch.records.empty() && batch.events.empty() &&
         std::none_of(batch.documents.begin(), batch.documents.end(),
                      [](const Document& document) {
                        return document.body &&
                               document.kind != ForgottenJobs::kDocumentKind;
                      });
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
  StoreBatch first;
  if (options.follow == nullptr) {
    absl::StatusOr<std::vector<Document>> queues =
        store->LoadDocuments(QueueTable::kDocumentKind);
    if (!queues.ok()) return queues.status();
    absl::StatusOr<std::vector<Document>> workers =
        store->LoadDocuments(WorkerTable::kDocumentKind);
    if (!workers.ok()) return workers.status();
    absl::StatusOr<std::vector<Document>> forgotten =
        store->LoadDocuments(ForgottenJobs::kDocumentKind);
    if (!forgotten.ok()) return forgotten.status();
    absl::Status loaded =
        host->mutable_engine()->LoadDocuments(*queues, *workers, *forgotten);
    if (!loaded.ok()) return loaded;
    absl::StatusOr<Document> note =
        host->CheckClock(store, *records, clock->Now());
    if (!note.ok()) return note.status();
    first.documents.push_back(*std::move(note));
    host->mutable_engine()->Load(*std::move(records), clock->Now());
  }
  StoreThread::OnCommit on_commit =
      [metrics = options.metrics, disk = options.disk](absl::Duration took,
                                                       size_t writes, bool ok) {
        if (metrics != nullptr) metrics->OnCommit(took, writes, ok);
        if (disk != nullptr && ok) disk->OnWritten();
      };
  StoreThread::OnFull on_full;
  if (options.disk != nullptr) {
    on_full = [disk = options.disk](const absl::Status&) {
      return disk->OnFull();
    };
  }
  host->store_ = std::make_unique<StoreThread>(
      store, std::move(on_failure), std::move(on_commit), std::move(on_full));
  // Before all that will have the clock's times.
  if (!first.empty()) {
    host->store_->Write(std::move(first), [](const absl::Status&) {});
  }
  EventLoop::Options io_options;
  io_options.tick_interval = options.idle_check;
  io_options.on_tick = [raw = host.get()] { raw->idle_uploads_.EndIdle(); };
  host->io_ = std::make_unique<EventLoop>(std::move(io_options));
  host->hub_.Defer([raw = host.get()](std::function<void()> closure) {
    raw->loop_->Post(std::move(closure));
  });
  host->probes_ = std::make_unique<WorkerProbes>(
      WorkerProbes::Options(), [raw = host.get()](const WorkerProbe& probe) {
        raw->ConfirmWorkerExit(probe);
      });
  if (options.follow != nullptr) host->StartFollowing(followed.change);
  EventLoop::Options loop_options;
  loop_options.tick_interval = options.tick_interval;
  loop_options.on_tick = [raw = host.get()] { raw->Tick(); };
  host->loop_ = std::make_unique<EventLoop>(std::move(loop_options));
  return host;
}

void CoordinatorHost::StartFollowing(int64_t change) {
  StoreFollower::Options follow;
  follow.feed = options_.follow;
  follow.on_read = options_.on_follow;
  follow.change = change;
  follow.on_change = [this](const std::string& job) {
    ++visible_changes_;
    NotifyChange(job);
  };
  follow.post = [this](std::function<void()> closure) {
    loop_->Post(std::move(closure));
  };
  follower_ = std::make_unique<StoreFollower>(std::move(follow), store_.get(),
                                              &directory_, &hub_);
}

CoordinatorHost::CoordinatorHost(const Options& options, IdSource* ids,
                                 Clock* clock)
    : EngineHost(clock, WithPeerKey(options.coordinator, ids), ids),
      options_(options),
      admission_(&directory_, options.coordinator.max_queued_jobs),
      hub_(options.hub),
      retention_(options.retention),
      logs_(options.data_dir, options.logs),
      idle_uploads_(options.idle_upload, clock) {}

CoordinatorHost::~CoordinatorHost() {
  Stop();
  probes_.reset();
  io_.reset();
  // What the IO thread posted reaches the loop before the store goes.
  loop_->Run([] {});
  store_.reset();
  // What the store's thread posted still uses loop().
  loop_->Stop();
}

void CoordinatorHost::Stop() {
  loop_->Run([this] {
    if (stopping_) return;
    Effects effects;
    mutable_engine()->ReleaseHeldCalls(now(), &effects);
    Commit(std::move(effects));
    stopping_ = true;
    // Callers who wait for room would keep the server from ending.
    store_->RetryOrFail();
    if (follower_ != nullptr) follower_->Stop();
    listeners_.NotifyAll();
  });
}

StoreBatch CoordinatorHost::ToBatch(const Effects& effects) const {
  StoreBatch batch;
  for (const auto& [name, record] : effects.records) {
    batch.records.push_back(record);
  }
  batch.events = effects.events;
  batch.documents = effects.documents;
  batch.deleted_jobs = effects.deleted_jobs;
  if (options_.outbox != nullptr) options_.outbox->AddTo(effects, &batch);
  return batch;
}

void CoordinatorHost::OnCommitFailed(const absl::Status& status,
                                     const Effects& effects) {
  for (const SynchronizeReply& reply : effects.replies) {
    calls_.Reply(reply.call, status);
  }
}

void CoordinatorHost::OnCommitted(Effects effects) {
  if (options_.outbox != nullptr) options_.outbox->OnCommitted(effects);
  for (auto& [name, record] : effects.records) {
    directory_.Put(record.serial(), record.last_sequence(),
                   std::move(*record.mutable_job()));
  }
  for (auto& [name, job] : effects.views) {
    hub_.Show(job);
    directory_.Refresh(std::move(job));
  }
  // The new state is there: readers who come for it must not get an older
  // answer.
  for (const v1::JobEvent& event : effects.events) {
    if (!IsSample(event)) ++visible_changes_;
  }
  if (!effects.views.empty() || !effects.documents.empty()) {
    ++visible_changes_;
  }
  PublishEvents(std::move(effects.events));
  for (const auto& [name, record] : effects.records) NotifyChange(name);
  for (const std::string& name : effects.deleted_jobs) {
    directory_.Remove(name);
    ++visible_changes_;
    NotifyChange(name);
    changes_.erase(name);
  }
  for (SynchronizeReply& reply : effects.replies) {
    calls_.Reply(reply.call, std::move(reply.response));
  }
}

void CoordinatorHost::PublishEvents(std::vector<v1::JobEvent> events) {
  for (v1::JobEvent& event : events) {
    LogEvent(event);
    if (options_.metrics != nullptr) {
      const JobDirectory::Entry* entry = directory_.Find(event.job());
      options_.metrics->OnEvent(event,
                                entry != nullptr ? entry->job.get() : nullptr);
    }
    if (observer_ != nullptr) observer_->OnJobEvent(event);
    hub_.Publish(std::move(event));
  }
}

void CoordinatorHost::MaybeSchedule() {
  if (schedule_posted_ || stopping_ || !engine().NeedsSchedule()) return;
  schedule_posted_ = true;
  auto pass = [this] {
    schedule_posted_ = false;
    // A read-only host schedules again once it is not.
    if (!stopping_ && CheckWritable().ok()) Schedule();
  };
  if (schedule_pause_ > absl::ZeroDuration()) {
    loop_->PostAfter(schedule_pause_, std::move(pass));
  } else {
    loop_->Post(std::move(pass));
  }
}

void CoordinatorHost::Schedule() {
  Effects effects;
  const absl::Time begin = absl::Now();
  mutable_engine()->Schedule(now(), &effects);
  const absl::Duration took = absl::Now() - begin;
  if (options_.metrics != nullptr) options_.metrics->OnSchedulePass(took);
  // Every submission asks for a pass.
  schedule_pause_ = engine().queued_count() > kLongQueue || took > kLongPass
                        ? std::min(took * kSchedulePause, kMaxSchedulePause)
                        : absl::ZeroDuration();
  if (effects.records.empty() && effects.views.empty() &&
      effects.replies.empty() && effects.documents.empty()) {
    return;
  }
  Commit(std::move(effects));
}

void CoordinatorHost::UpdateMetrics() {
  if (options_.follow == nullptr) {
    options_.metrics->SetCluster(engine().CountCluster(now()));
  }
  if (now() < next_measure_) return;
  next_measure_ = now() + kMeasureStore;
  store_->Read([metrics = options_.metrics](JobStore* store) {
    const absl::StatusOr<int64_t> bytes = store->SizeBytes();
    if (bytes.ok()) metrics->SetStoreBytes(*bytes);
  });
}

void CoordinatorHost::Tick() {
  if (stopping_) return;
  if (options_.metrics != nullptr) UpdateMetrics();
  if (follower_ != nullptr) return follower_->Poll();
  if (!UpdateReadOnly()) {
    store_->Retry();
    // What expires makes room.
    if (CheckMakesRoom().ok() && retention_.IsDue(now())) RemoveExpired();
    return;
  }
  if (observer_ != nullptr) observer_->OnTick(now());
  Effects effects;
  mutable_engine()->Tick(now(), &effects);
  for (WorkerProbe& probe : effects.probes) probes_->Ask(std::move(probe));
  if (effects.records.empty() && effects.replies.empty() &&
      effects.documents.empty()) {
    MaybeSchedule();
  } else {
    Commit(std::move(effects));
  }
  if (retention_.IsDue(now())) RemoveExpired();
}

absl::StatusOr<Document> CoordinatorHost::CheckClock(
    JobStore* store, const std::vector<JobRecord>& records, absl::Time now) {
  const absl::StatusOr<absl::Time> newest = NewestStoredTime(store, records);
  if (!newest.ok()) return newest.status();
  const absl::Time steady = options_.steady_now();
  clock_trust_ = ClockTrust(now, *newest, options_.confirmed_day, steady);
  clock_lead_at_start_ = clock_trust_.Lead(now, steady);
  if (clock_lead_at_start_ == absl::ZeroDuration()) return TimeNote(now);
  mutable_engine()->SetClockLead(clock_lead_at_start_);
  mutable_engine()->DoubtClock(clock_lead_at_start_);
  LOG(ERROR) << "event=clock_not_believed clock=" << now
             << " newest_stored=" << *newest
             << " text=\"nothing expires sooner than if the server had never "
                "been away, until it starts again with the clock set right, "
                "or with --confirm_clock="
             << absl::FormatTime("%Y-%m-%d", now, absl::UTCTimeZone()) << "\"";
  // Jobs get the clock's times from now on, so the next start must not ask
  // them.
  return TimeNote(*newest);
}

void CoordinatorHost::RemoveExpired() {
  const absl::Duration lead = clock_trust_.Lead(now(), options_.steady_now());
  mutable_engine()->SetClockLead(lead);
  if (lead > absl::ZeroDuration()) {
    LOG(WARNING) << "event=clock_not_believed lead=" << lead;
  }
  store_->Write({{}, {}, {}, {TimeNote(now() - lead)}, {}},
                [](const absl::Status&) {});
  JobRetention::Expired expired = retention_.Find(engine(), now(), lead);
  if (options_.retention.dry_run) return;
  if (!expired.jobs.empty()) {
    Effects effects;
    mutable_engine()->Forget(expired.jobs, &effects);
    const std::vector<std::string> deleted = effects.deleted_jobs;
    Commit(std::move(effects), [this, deleted](const absl::Status& status) {
      // Files go only once their job is surely forgotten.
      if (status.ok()) RemoveFiles(deleted, /*logs_only=*/false);
    });
  }
  if (!expired.silent.empty()) {
    RemoveFiles(std::move(expired.silent), /*logs_only=*/true);
  }
  store_->Read([](JobStore* store) {
    const absl::Status status = store->Compact();
    LOG_IF(WARNING, !status.ok())
        << "event=compact status=\"" << status << "\"";
  });
}

bool CoordinatorHost::UpdateReadOnly() {
  if (options_.disk == nullptr) return true;
  options_.disk->Check();
  const bool read_only = options_.disk->read_only();
  if (read_only != read_only_) {
    read_only_ = read_only;
    ++visible_changes_;
    // Nobody listened to the workers.
    if (!read_only) mutable_engine()->AwaitReports(now());
    if (options_.on_read_only) options_.on_read_only(read_only);
  }
  return !read_only;
}

void CoordinatorHost::TickNow() {
  loop_->Run([this] { Tick(); });
}

void CoordinatorHost::RemoveFiles(std::vector<std::string> jobs,
                                  bool logs_only) {
  if (stopping_) return;
  io_->Post([this, jobs = std::move(jobs), logs_only] {
    RemoveJobFiles(options_.data_dir, jobs, logs_only);
  });
}

void CoordinatorHost::Write(StoreBatch batch, StatusCallback done) {
  const absl::Status status =
      OnlyDeletes(batch) ? CheckMakesRoom() : CheckWritable();
  if (!status.ok()) return done(status);
  store_->Write(std::move(batch), std::move(done));
}

void CoordinatorHost::CatchUp(std::function<void()> done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    if (stopping_ || follower_ == nullptr) return done();
    follower_->CatchUp(std::move(done));
  });
}

void CoordinatorHost::Read(std::function<void(JobStore*)> read) {
  store_->Read(std::move(read));
}

int64_t CoordinatorHost::Changes(const std::string& job) const {
  auto it = changes_.find(job);
  return it == changes_.end() ? 0 : it->second;
}

void CoordinatorHost::NotifyChange(const std::string& job) {
  ++changes_[job];
  listeners_.Notify(job);
}

}  // namespace comera::server
