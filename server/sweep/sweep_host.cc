// Runs the sweeps beside a coordinator: feeds the engine what happens to jobs
// and carries out what it asks for.
#include "server/sweep/sweep_host.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/access_service.pb.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/job_defaults.h"
#include "proto/sweep/search_job.h"
#include "proto/sweep/search_portfolio.h"
#include "server/auth/audit_log.h"
#include "server/rpc/request_checks.h"
#include "server/rpc/rpc_errors.h"
#include "server/rpc/user_quota.h"

namespace comera::server {
namespace {

constexpr char kKind[] = "sweep";
constexpr int kPage = 500;
// Pages stay below the 4 MiB that gRPC clients take by default.
constexpr size_t kMaxPageBytes = 2 << 20;
// Sweeps of one user that may be planned at once.
constexpr int kMaxPlans = 4;

absl::StatusOr<std::vector<SweepRecord>> ReadRecords(JobStore* store) {
  ASSIGN_OR_RETURN(const std::vector<Document> documents,
                   store->LoadDocuments(kKind));
  std::vector<SweepRecord> records;
  for (const Document& document : documents) {
    SweepRecord record;
    if (!document.body || !record.ParseFromString(*document.body) ||
        record.sweep().name() != document.name ||
        record.runs_size() != record.sweep().runs_size() ||
        record.stages_size() != record.sweep().stages_size()) {
      return absl::DataLossError(
          absl::StrCat("the stored sweep ", document.name, " is damaged"));
    }
    records.push_back(std::move(record));
  }
  return records;
}

// What two jobs must have in common for one to teach the other.
std::string DataKey(const v1::JobSpec& spec) {
  v1::DataSpec data = spec.data();
  data.clear_max_length();
  data.clear_mask_probability();
  return absl::StrCat(spec.queue(), "/", spec.model().family(), "/",
                      spec.model().architecture(), "/",
                      data.SerializeAsString());
}

std::vector<FinishedRun> FinishedRuns(v1::JobSpec search,
                                      const JobDirectory& jobs) {
  search.mutable_compression()->set_method(v1::CompressionSpec::DENSE);
  const std::string key = DataKey(WithDefaults(std::move(search)));
  std::vector<FinishedRun> runs;
  jobs.ForEach([&](const v1::Job& job) {
    if (job.state() != v1::SUCCEEDED || !job.progress().has_validation_loss() ||
        job.spec().objective().early().only() || DataKey(job.spec()) != key) {
      return;
    }
    runs.push_back({job.spec(), job.progress().validation_loss(),
                    job.progress().size_parameters()});
  });
  return runs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SweepHost>> SweepHost::Start(
    const SweepEngine::Options& options, CoordinatorHost* host, IdSource* ids,
    Clock* clock) {
  std::promise<absl::StatusOr<std::vector<SweepRecord>>> loaded;
  host->loop().Run([&] {
    host->store()->Read(
        [&](JobStore* store) { loaded.set_value(ReadRecords(store)); });
  });
  ASSIGN_OR_RETURN(std::vector<SweepRecord> records, loaded.get_future().get());
  std::vector<StoredSweep> stored = PlanStoredSweeps(std::move(records));
  std::unique_ptr<SweepHost> sweeps(new SweepHost(options, host, ids, clock));
  LOG(INFO) << "event=loaded sweeps=" << stored.size();
  host->loop().Run([&] {
    sweeps->mutable_engine()->Load(std::move(stored), clock->Now());
    host->SetObserver(sweeps.get());
    for (const std::string& job : sweeps->engine().Jobs()) sweeps->CatchUp(job);
  });
  return sweeps;
}

SweepHost::SweepHost(const SweepEngine::Options& options, CoordinatorHost* host,
                     IdSource* ids, Clock* clock)
    : EngineHost(clock, options, ids), host_(host) {}

StoreBatch SweepHost::ToBatch(const SweepEffects& effects) const {
  StoreBatch batch;
  for (const auto& [name, record] : effects.records) {
    Document document;
    document.kind = kKind;
    document.name = name;
    if (record) document.body = record->SerializeAsString();
    batch.documents.push_back(std::move(document));
  }
  return batch;
}

void SweepHost::OnCommitted(SweepEffects effects) {
  for (const auto& [name, record] : effects.records) {
    if (!record || !IsFinal(record->sweep().state())) continue;
    LOG(INFO) << "sweep=" << name
              << " state=" << v1::Sweep::State_Name(record->sweep().state())
              << " reason=\"" << absl::Utf8SafeCEscape(record->sweep().reason())
              << "\"";
  }
  // A reader who is woken and then asks must not get an older answer.
  if (!effects.records.empty() || !effects.wake.empty()) {
    host_->AddVisibleChange();
  }
  for (SweepEffects::Create& create : effects.create) {
    CreateChild(std::move(create));
  }
  for (const SweepEffects::Cancel& cancel : effects.cancel) CancelChild(cancel);
  for (const std::string& job : effects.pause) PauseChild(job);
  for (const std::string& job : effects.resume) ResumeChild(job);
  for (const std::string& name : effects.wake) listeners_.Notify(name);
}

JobAudit SweepHost::AuditChild(const std::string& user,
                               const std::string& sweep,
                               const std::string& method) {
  v1::AuditEntry entry;
  entry.set_user(user);
  entry.set_method(method);
  entry.set_result("OK");
  entry.set_message(absl::StrCat("by ", sweep));
  return [entry](const v1::Job& job, absl::Time now) {
    v1::AuditEntry one = entry;
    one.set_resource(job.name());
    return AuditLog::ToRow(one, now);
  };
}

JobAudit SweepHost::AuditChild(const std::string& job,
                               const std::string& method) const {
  const JobDirectory::Entry* entry = host_->directory().Find(job);
  // Nothing will be done about a job that is gone.
  if (entry == nullptr) return nullptr;
  return AuditChild(entry->job->user(), entry->job->sweep(), method);
}

void SweepHost::CreateChild(SweepEffects::Create create) {
  const auto created =
      [this, child = create.child](const absl::StatusOr<v1::Job>& job) {
        SweepEffects effects;
        mutable_engine()->Created(child, job, now(), &effects);
        Commit(std::move(effects));
        // Its first events came before it was known which sweep it belongs to.
        if (job.ok()) CatchUp(job->name());
      };
  // The sweep's plan holds valid specs with their defaults. What it adds later
  // is a few bytes, which a sweep of an earlier version may not have left.
  const absl::Status size =
      CheckSpecSize("spec", create.request.spec().ByteSizeLong());
  if (!size.ok()) return created(size);
  PreparedJob prepared(std::move(*create.request.mutable_spec()),
                       create.request.request_id(),
                       {create.user, create.child.sweep});
  host_->CreateJob(
      std::move(prepared), created,
      AuditChild(create.user, create.child.sweep, "TrainingService.CreateJob"));
}

void SweepHost::CancelChild(const SweepEffects::Cancel& cancel) {
  host_->CancelJob(
      cancel.job, cancel.reason, [](const absl::StatusOr<v1::Job>&) {},
      AuditChild(cancel.job, "TrainingService.CancelJob"));
}

void SweepHost::PauseChild(const std::string& job) {
  v1::PauseJobRequest request;
  request.set_name(job);
  request.set_reason("its share of the search's round is spent");
  // A job that cannot be paused any more is about to end.
  host_->CommitThenReply<v1::Job>(
      [request](Coordinator* coordinator, absl::Time now, Effects* changes) {
        return coordinator->Pause(request, now, changes);
      },
      [](const absl::StatusOr<v1::Job>&) {},
      AuditChild(job, "TrainingService.PauseJob"));
}

void SweepHost::ResumeChild(const std::string& job) {
  v1::ResumeJobRequest request;
  request.set_name(job);
  const JobDirectory::Entry* entry = host_->directory().Find(job);
  host_->ResumeJob(
      request, entry == nullptr ? "" : entry->job->user(),
      [this, job](const absl::StatusOr<v1::Job>& resumed) {
        if (absl::IsUnavailable(resumed.status()) ||
            absl::IsResourceExhausted(resumed.status())) {
          mutable_engine()->NotResumed(job);
        }
      },
      AuditChild(job, "TrainingService.ResumeJob"));
}

void SweepHost::OnJobEvent(const v1::JobEvent& event) {
  const std::optional<int64_t> known = engine().JobSequence(event.job());
  if (!known || catching_up_.count(event.job()) > 0) return;
  if (event.sequence() <= *known) return;
  if (event.sequence() > *known + 1) return CatchUp(event.job());
  const JobDirectory::Entry* entry = host_->directory().Find(event.job());
  if (entry == nullptr) return;
  SweepEffects effects;
  mutable_engine()->ApplyEvent(event, *entry->job, now(), &effects);
  if (effects.records.empty() && effects.wake.empty()) return;
  Commit(std::move(effects));
}

void SweepHost::OnTick(absl::Time now) {
  SweepEffects effects;
  mutable_engine()->Tick(now, &effects);
  if (effects.records.empty() && effects.wake.empty() &&
      effects.create.empty() && effects.cancel.empty() &&
      effects.pause.empty() && effects.resume.empty()) {
    return;
  }
  Commit(std::move(effects));
}

absl::Status SweepHost::CheckMayDelete(const v1::Job& job) const {
  const v1::Sweep* const sweep =
      job.sweep().empty() ? nullptr : engine().Find(job.sweep());
  if (sweep == nullptr || IsFinal(sweep->state())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(job.name(), " belongs to ", job.sweep(),
                   ", which has not finished; cancel that first"));
}

int64_t SweepHost::SpecBytesOf(const std::string& user) const {
  return engine().SpecBytesOf(user);
}

void SweepHost::CatchUp(const std::string& job) {
  const std::optional<int64_t> known = engine().JobSequence(job);
  if (!known || !catching_up_.insert({job, *known}).second) return;
  CatchUpPage(job);
}

void SweepHost::CatchUpPage(const std::string& job) {
  const JobDirectory::Entry* entry = host_->directory().Find(job);
  const int64_t after = catching_up_.at(job);
  const int64_t last = entry == nullptr ? 0 : entry->last_sequence;
  if (after >= last || host_->store() == nullptr) {
    catching_up_.erase(job);
    if (host_->store() == nullptr) return;
    SweepEffects effects;
    mutable_engine()->CaughtUp(job,
                               entry == nullptr ? nullptr : entry->job.get(),
                               last, now(), &effects);
    return Commit(std::move(effects));
  }
  host_->store()->ReadEvents(
      job, after, last, kPage,
      [this, job, last](absl::StatusOr<std::vector<v1::JobEvent>> events) {
        host_->loop().Post([this, job, last, events = std::move(events)] {
          const JobDirectory::Entry* entry = host_->directory().Find(job);
          if (!events.ok() || entry == nullptr) {
            LOG_IF(WARNING, !events.ok())
                << "job=" << job << " event=sweep_missed_events "
                << events.status();
            catching_up_.at(job) = last;
            return CatchUpPage(job);
          }
          SweepEffects effects;
          for (const v1::JobEvent& event : *events) {
            // The end is taken with the job as it is, when all else is known.
            if (event.has_state_change()) continue;
            mutable_engine()->ApplyEvent(event, *entry->job, now(), &effects);
          }
          catching_up_.at(job) =
              events->empty() ? last : events->back().sequence();
          Commit(std::move(effects));
          CatchUpPage(job);
        });
      });
}

void SweepHost::Plan(v1::SweepSpec spec, std::string user,
                     std::function<void(absl::StatusOr<PlannedSweep>)> done) {
  {
    const std::lock_guard<std::mutex> lock(planning_mutex_);
    int& plans = planning_[user];
    if (!user.empty() && plans >= kMaxPlans) {
      return done(TryAgainAfter(
          absl::Seconds(1), absl::StrCat(user, " has ", plans,
                                         " sweeps that are being planned")));
    }
    ++plans;
  }
  const auto end = [this, user = std::move(user), done = std::move(done)](
                       absl::StatusOr<PlannedSweep> planned) {
    {
      const std::lock_guard<std::mutex> lock(planning_mutex_);
      const auto plans = planning_.find(user);
      if (--plans->second == 0) planning_.erase(plans);
    }
    done(std::move(planned));
  };
  const auto plan = [end](const v1::SweepSpec& sweep,
                          const SearchContext& context) {
    std::vector<FieldViolation> violations;
    PlannedSweep planned = PlanNewSweep(sweep, context, &violations);
    if (!violations.empty()) return end(InvalidSpec(violations));
    end(std::move(planned));
  };
  planner_.Post([this, spec = std::move(spec), plan, end] {
    if (!IsSearch(spec.job())) return plan(spec, SearchContext());
    // What looks around relies on a sound job.
    std::vector<FieldViolation> violations;
    PlanSweep(spec, &violations);
    if (!violations.empty()) return end(InvalidSpec(violations));
    host_->loop().Post([this, spec, plan] {
      planner_.Post([spec, plan, context = LookAround(spec, now())] {
        plan(spec, context);
      });
    });
  });
}

void SweepHost::Create(v1::CreateSweepRequest request, PlannedSweep planned,
                       std::vector<std::string> program_queues,
                       std::string user, Callback<v1::Sweep> done) {
  // Closures are copied, and run once.
  auto shared = std::make_shared<PlannedSweep>(std::move(planned));
  CommitThenReply<v1::Sweep>(
      [this, request = std::move(request), shared,
       program_queues = std::move(program_queues), user = std::move(user)](
          SweepEngine* engine, absl::Time now,
          SweepEffects* effects) -> absl::StatusOr<v1::Sweep> {
        for (const std::string& queue : program_queues) {
          RETURN_IF_ERROR(host_->engine().CheckLetsUsersRunPrograms(queue));
        }
        const UserQuota quota = host_->QuotaOf(user);
        return engine->Create(
            request, std::move(*shared), user, now, effects,
            {quota.sweeps, quota.active_sweeps, quota.job_bytes,
             host_->directory().UseOf(user).spec_bytes});
      },
      std::move(done));
}

SearchContext SweepHost::LookAround(const v1::SweepSpec& spec,
                                    absl::Time now) const {
  SearchContext context;
  if (!IsSearch(spec.job())) return context;
  // Slots of a device that the jobs would not get count as well: the guess only
  // shapes the rounds.
  int64_t slots = 0;
  for (const auto& [kind, count] : host_->engine().CountCluster(now).slots) {
    slots += count.total - count.unfit;
  }
  const int64_t processes = std::max(1, spec.job().resources().processes());
  context.parallel = static_cast<int>(
      std::clamp<int64_t>(slots / processes, 1, kMaxCandidates));
  if (spec.max_parallel() > 0) {
    context.parallel = std::min(context.parallel, spec.max_parallel());
  }
  context.history = FinishedRuns(spec.job(), host_->directory());
  return context;
}

void SweepHost::Get(std::string name, Callback<v1::Sweep> done) {
  host_->loop().Post([this, name = std::move(name), done = std::move(done)] {
    const v1::Sweep* sweep = engine().Find(name);
    if (sweep == nullptr) {
      return done(absl::NotFoundError(absl::StrCat("no sweep ", name)));
    }
    done(*sweep);
  });
}

void SweepHost::List(int64_t before, int limit,
                     std::function<bool(const v1::Sweep&)> visible,
                     Callback<SweepPage> done) {
  host_->loop().Post([this, before, limit, visible = std::move(visible),
                      done = std::move(done)] {
    done(engine().List(before, limit, kMaxPageBytes, visible));
  });
}

void SweepHost::Cancel(std::string name, std::string reason,
                       Callback<v1::Sweep> done) {
  CommitThenReply<v1::Sweep>(
      [name = std::move(name), reason = std::move(reason)](
          SweepEngine* engine, absl::Time now, SweepEffects* effects) {
        return engine->Cancel(name, reason, now, effects);
      },
      std::move(done));
}

void SweepHost::Delete(std::string name, StatusCallback done) {
  CommitThenReply(
      [name = std::move(name)](SweepEngine* engine, absl::Time,
                               SweepEffects* effects) {
        return engine->Delete(name, effects);
      },
      std::move(done));
}

// Where the reading of several jobs' points stands.
struct SweepHost::PointsRead {
  std::vector<std::string> jobs;
  std::function<absl::Status(const v1::Job&)> visible;
  Callback<JobPoints> done;
  size_t next = 0;
  int64_t after = 0;
  JobPoints result;
};

void SweepHost::ReadPoints(std::vector<std::string> jobs,
                           std::function<absl::Status(const v1::Job&)> visible,
                           Callback<JobPoints> done) {
  auto read = std::make_shared<PointsRead>();
  read->jobs = std::move(jobs);
  read->visible = std::move(visible);
  read->done = std::move(done);
  host_->loop().Post([this, read] { ReadNextPoints(read); });
}

void SweepHost::ReadNextPoints(std::shared_ptr<PointsRead> read) {
  if (host_->store() == nullptr) return read->done(StoppingError());
  if (read->next == read->jobs.size()) {
    return read->done(std::move(read->result));
  }
  const std::string& job = read->jobs[read->next];
  const JobDirectory::Entry* entry = host_->directory().Find(job);
  if (entry == nullptr) {
    return read->done(absl::NotFoundError(absl::StrCat("no job ", job)));
  }
  if (absl::Status status = read->visible(*entry->job); !status.ok()) {
    return read->done(status);
  }
  host_->store()->ReadEvents(
      job, read->after, entry->last_sequence, kPage,
      [this, read](absl::StatusOr<std::vector<v1::JobEvent>> events) {
        host_->loop().Post([this, read, events = std::move(events)] {
          if (!events.ok()) return read->done(events.status());
          const auto add = [&](const v1::ParetoPoint& point) {
            v1::FrontPoint added;
            *added.mutable_point() = point;
            added.set_job(read->jobs[read->next]);
            added.set_run(-1);
            read->result.points.push_back(std::move(added));
          };
          for (const v1::JobEvent& event : *events) {
            read->after = event.sequence();
            if (event.has_pareto_point()) add(event.pareto_point());
            for (const v1::ParetoPoint& point : event.result().pareto_front()) {
              add(point);
            }
            if (event.has_run_info() &&
                read->result.reference.size_parameters() == 0) {
              read->result.reference.set_validation_loss(
                  event.run_info().baseline_loss());
              read->result.reference.set_size_parameters(
                  event.run_info().dense_parameters());
            }
          }
          if (events->empty()) {
            ++read->next;
            read->after = 0;
          }
          ReadNextPoints(read);
        });
      });
}

}  // namespace comera::server
