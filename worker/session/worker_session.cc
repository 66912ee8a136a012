// The exchange with the coordinator: builds requests, applies answers, and
// handles members' events.

#include "worker/session/worker_session.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/grpc_status.h"
#include "common/log.h"
#include "common/metrics/process_metrics.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "common/version.h"
#include "google/protobuf/util/time_util.h"
#include "proto/resource_names.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/gang/event_line.h"
#include "worker/gang/gang.h"
#include "worker/gang/stray_processes.h"

namespace comera::worker {
namespace {

constexpr size_t kMaxLogBytes = size_t{256} << 10;
// The hold while gangs with members elsewhere meet, because their entries
// arrive as files.
constexpr absl::Duration kMeetingHold = absl::Milliseconds(250);
// The limit on the time that a coordinator may give members for their last
// checkpoint.
constexpr absl::Duration kMaxGrace = absl::Minutes(30);
constexpr absl::Duration kSweepInterval = absl::Hours(1);
// The coordinator counts as unreachable when it is silent for longer than calls
// usually take.
constexpr absl::Duration kCutOff = absl::Seconds(15);

// Names become paths and command lines, so nothing malformed may pass.
bool IsSane(const v1::MemberAssignment& assignment) {
  return ParseJobName(assignment.job()).has_value() &&
         assignment.attempt() >= 1 && assignment.rank() >= 0 &&
         assignment.rank() < assignment.world_size() &&
         assignment.local_rank() >= 0 &&
         assignment.local_rank() < assignment.local_world_size() &&
         assignment.attempt() <= kMaxNamed &&
         assignment.start().attempt() >= 0 &&
         assignment.start().attempt() <= kMaxNamed &&
         assignment.start().step() >= 0 &&
         assignment.start().step() <= kMaxNamed &&
         (assignment.start_job().empty() ||
          ParseJobName(assignment.start_job()).has_value());
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSession>> WorkerSession::Create(
    const Options& options, std::shared_ptr<grpc::Channel> channel,
    std::unique_ptr<GpuWatch> gpus) {
  std::unique_ptr<WorkerSession> session(
      new WorkerSession(options, std::move(channel)));
  ASSIGN_OR_RETURN(const std::vector<MemberRecord> records,
                   session->ClaimRecords());
  if (session->MembersSurvive()) {
    ASSIGN_OR_RETURN(
        session->lease_,
        LeaseFile::Start(session->folders_.Lease(), options.member_lease));
  }
  RETURN_IF_ERROR(session->OpenCache(records));
  session->StartPeers();
  WorkerSession* self = session.get();
  session->uploader_ = std::make_unique<ModelUploader>(
      options.upload, session->channel_,
      [self](const v1::MemberKey& rank,
             const absl::StatusOr<ModelUploader::Models>& models) {
        self->OnUpload(rank, models);
      });
  const auto notify = [self] {
    const std::lock_guard<std::mutex> lock(self->mutex_);
    self->Notify();
  };
  session->preparer_ = std::make_unique<MemberPreparer>(notify);
  session->checker_ = std::make_unique<MemberPreparer>(notify);
  GangMembers::Options processes = options.processes;
  processes.mark = absl::StrCat(options.data_dir, "#", options.incarnation);
  processes.other_marks.insert(options.PredictorMark());
  ASSIGN_OR_RETURN(session->processes_, GangMembers::Start(processes, self));
  if (gpus != nullptr) {
    // What holds their memory is nobody else.
    for (const MemberRecord& record : records) {
      if (record.pid() != 0) gpus->Begin(record.gpu_uuid());
    }
    // Makes the first call report the health of GPUs.
    gpus->Poll();
    session->gpus_ = std::move(gpus);
    session->gpus_->Start(notify);
  }
  const absl::Status adopted = session->AdoptMembers(records);
  if (!adopted.ok()) {
    // The next try finds them as they are.
    session->processes_->Leave();
    return adopted;
  }
  session->AddCollectors();
  return session;
}

void WorkerSession::AddCollectors() {
  if (options_.metrics == nullptr) return;
  options_.metrics->AddCollector([this] {
    auto families = CollectDiskMetrics(options_.data_dir);
    families.push_back(MakeGauge("comera_worker_slots",
                                 "Slots that this worker offers.",
                                 static_cast<double>(options_.slots.size())));
    families.push_back(
        MakeGauge("comera_worker_members_confined",
                  "1: members may use their own job's files only (Landlock).",
                  options_.confine_files ? 1 : 0));
    families.push_back(
        MakeGauge("comera_worker_data_cache_bytes",
                  "Bytes of datasets' files in this worker's cache.",
                  static_cast<double>(cache_->used_bytes())));
    families.push_back(MakeGauge(
        "comera_worker_data_cache_max_bytes", "Bytes that the cache may have.",
        static_cast<double>(options_.cache.max_bytes)));
    return families;
  });
  if (gpus_ == nullptr) return;
  options_.metrics->AddCollector([this] { return GpuFamilies(gpus_->seen()); });
}

WorkerSession::WorkerSession(const Options& options,
                             std::shared_ptr<grpc::Channel> channel)
    : options_(options),
      channel_(std::move(channel)),
      folders_(options.data_dir),
      records_(options.data_dir + "/ranks"),
      rendezvous_(&folders_),
      heard_(SteadyNow()),
      replicas_(options.replica_memory),
      peers_(options.peer_credentials, &peer_keys_, options.peers.insecure),
      shelf_(&folders_, &replicas_),
      table_(options.slots) {}

// Order: processes_ is destroyed first, because its thread passes models to
// uploader_, checkpoints to copier_, GPUs back to gpus_ and data to fetcher_.
WorkerSession::~WorkerSession() {
  if (options_.metrics != nullptr) options_.metrics->ClearCollectors();
  preparer_.reset();
  checker_.reset();
  processes_.reset();
  fetcher_.reset();
  copier_.reset();
  uploader_.reset();
  gpus_.reset();
  peer_server_.reset();
}

void WorkerSession::Notify() {
  news_ = true;
  if (held_call_ != nullptr) held_call_->TryCancel();
  changed_.notify_all();
}

bool WorkerSession::OnLine(GangMembers::Id id, std::string_view line,
                           int64_t end) {
  const std::optional<v1::TrainerEvent> event = ParseEventLine(line);
  if (!event) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (event->has_checkpoint()) CopyCheckpoint(id, event->checkpoint());
  if (event->has_metrics() && options_.metrics != nullptr) {
    if (const auto rank = table_.Find(id)) {
      options_.metrics->OnStep(rank->job(), event->metrics());
    }
  }
  if (table_.OnEvent(id, *event, end)) Notify();
  return true;
}

void WorkerSession::OnLogGrown(GangMembers::Id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Notify();
}

void WorkerSession::OnExit(GangMembers::Id id, const MemberExit& exit) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Comes before the end is reported, so that the slot is not seen as free
  // while its GPU is not.
  ReleaseGpu(id);
  fetcher_->Release(id);
  adopted_data_.erase(id);
  if (const auto rank = table_.Find(id)) {
    LOG(INFO) << "member ended " << DescribeMember(*rank)
              << " known=" << exit.known << " code=" << exit.code
              << " signal=" << exit.signal
              << " peak_memory_bytes=" << exit.peak_memory_bytes;
    logs_.End(*rank);
    if (options_.metrics != nullptr) {
      options_.metrics->OnMemberEnded(
          rank->job(), !exit.known || exit.code != 0 || exit.signal != 0);
    }
  }
  if (const auto rank = table_.OnExit(id, exit, absl::Now())) {
    answered_ ? UploadModel(*rank) : unsent_.push_back(*rank);
  }
  Notify();
}

void WorkerSession::UploadModel(const v1::MemberKey& rank) {
  uploader_->Upload(rank, folders_.Model(rank.job()),
                    folders_.Targets(rank.job()));
}

void WorkerSession::OnUpload(const v1::MemberKey& rank,
                             const absl::StatusOr<ModelUploader::Models>& m) {
  LOG(INFO) << "model upload " << DescribeMember(rank)
            << " status=" << m.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  table_.OnUpload(rank, m, absl::Now());
  Notify();
}

absl::Duration WorkerSession::GraceOf(GangMembers::Id id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto rank = table_.Find(id);
  for (const v1::MemberStop& stop : stopping_) {
    if (rank && stop.member().job() == rank->job() &&
        stop.member().attempt() == rank->attempt() &&
        stop.member().rank() == rank->rank()) {
      const absl::Duration asked = absl::Seconds(stop.grace().seconds());
      return std::max(options_.processes.grace, std::min(asked, kMaxGrace));
    }
  }
  return options_.processes.grace;
}

void WorkerSession::ApplyActions() {
  MemberTable::Actions actions;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    actions = table_.Reconcile(absl::Now());
    for (const v1::MemberKey& rank : actions.stop_retrying) {
      uploader_->StopRetrying(rank);
    }
    for (const v1::MemberKey& rank : actions.upload_again) UploadModel(rank);
  }
  for (GangMembers::Id id : actions.kill) {
    CancelFetch(id);
    if (AbandonPreparation(id)) continue;
    processes_->Stop(id, options_.hung_grace);
  }
  for (GangMembers::Id id : actions.stop) {
    CancelFetch(id);
    if (!AbandonPreparation(id)) processes_->Stop(id, GraceOf(id));
  }
  for (const MemberTable::Actions::Start& start : FetchData(actions.start)) {
    if (!Prepare(start)) CheckAndStart(start);
  }
  StartPrepared();
}

void WorkerSession::StartOrFail(const MemberTable::Actions::Start& start) {
  const absl::Status status = StartMember(start);
  if (!status.ok()) FailStart(start, status);
}

void WorkerSession::FailStart(const MemberTable::Actions::Start& start,
                              const absl::Status& status) {
  LOG(ERROR) << "member not started job=" << start.assignment.job()
             << " attempt=" << start.assignment.attempt()
             << " rank=" << start.assignment.rank() << " " << status;
  const std::lock_guard<std::mutex> lock(mutex_);
  fetcher_->Release(start.id);
  table_.StartFailed(start.id, status, absl::Now());
  Notify();
}

v1::SynchronizeRequest WorkerSession::MakeRequest(bool* news) {
  v1::SynchronizeRequest request;
  request.set_worker(options_.worker);
  request.set_incarnation(options_.incarnation);
  request.set_daemon(options_.daemon);
  request.set_members_survive(MembersSurvive());
  request.set_obeys_finish(true);
  request.set_runs_programs(options_.run_programs);
  request.set_host(options_.host);
  request.set_rack(options_.rack);
  request.set_version(kVersion);
  // A worker that is ending accepts no new members.
  if (!stop_) {
    for (const v1::Slot& slot : options_.slots) {
      v1::Slot& told = *request.add_slots();
      told = slot;
      if (gpus_ != nullptr && slot.has_gpu()) {
        told.set_unfit(WhyUnfit(slot));
      }
    }
  }
  request.set_seen_version(seen_version_);
  if (peer_server_ != nullptr) {
    request.set_peer_address(peer_server_->address());
  }
  shelf_.Fill(request.mutable_checkpoints());
  FillTroubles(&request);
  const auto spanning = table_.SpanningGangs();
  const bool statuses =
      table_.Fill(&request, SteadyNow() - heard_ > kCutOff, disk_full_);
  const bool logs = logs_.Fill(kMaxLogBytes, request.mutable_logs());
  const bool entries =
      rendezvous_.Collect(spanning, request.mutable_rendezvous());
  *news = statuses || logs || entries || stop_;
  news_ = false;
  if (!*news) {
    absl::Duration hold = options_.hold;
    if (table_.HasProcesses()) hold = std::min(hold, options_.busy_hold);
    if (table_.AnyMeeting()) hold = std::min(hold, kMeetingHold);
    *request.mutable_hold() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(hold));
  }
  return request;
}

absl::Status WorkerSession::Call(const v1::SynchronizeRequest& request,
                                 bool news, v1::SynchronizeResponse* response) {
  grpc::ClientContext context;
  const absl::Duration hold = news ? absl::ZeroDuration() : options_.hold;
  context.set_deadline(
      absl::ToChronoTime(absl::Now() + hold + options_.call_timeout));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!news) {
      if (news_ || stop_) return absl::CancelledError("local news");
      held_call_ = &context;
    }
  }
  const grpc::Status status = v1::WorkerService::NewStub(channel_)->Synchronize(
      &context, request, response);
  const std::lock_guard<std::mutex> lock(mutex_);
  held_call_ = nullptr;
  return FromGrpcStatus(status);
}

void WorkerSession::ApplyResponse(const v1::SynchronizeResponse& response) {
  v1::SynchronizeResponse sane = response;
  sane.clear_desired();
  for (const v1::MemberAssignment& assignment : response.desired()) {
    if (IsSane(assignment)) {
      *sane.add_desired() = assignment;
      if (assignment.finish()) AskToFinish(assignment);
    } else {
      LOG(ERROR) << "refused assignment " << assignment.ShortDebugString();
    }
  }
  seen_version_ = response.desired_version();
  peer_keys_.Learn(sane);
  stopping_.assign(response.stopping().begin(), response.stopping().end());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.OnResponse(sane);
    logs_.OnResponse(sane.log_acks());
    answered_ = true;
    // The ones that are not wanted are tried once (below).
    for (const v1::MemberKey& rank : unsent_) UploadModel(rank);
    unsent_.clear();
  }
  UpdateRecords();
  ExpireStored(response);
  ApplyActions();
  RendezvousExchange::Gangs spanning;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    spanning = table_.SpanningGangs();
  }
  const absl::Status delivered =
      rendezvous_.Deliver(spanning, sane.rendezvous());
  LOG_IF(ERROR, !delivered.ok()) << "rendezvous " << delivered;
}

void WorkerSession::CleanUp() {
  std::vector<std::string> jobs;
  std::vector<std::pair<std::string, int64_t>> attempts;
  std::set<std::string> active;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs = table_.PopFinishedJobs();
    attempts = table_.PopFinishedAttempts();
    active = table_.Jobs();
  }
  for (const auto& [job, attempt] : attempts)
    folders_.RemoveAttempt(job, attempt);
  for (const std::string& job : jobs) {
    copier_->Forget(job);
    replicas_.Drop(job);
    folders_.RemoveAllButLogs(job);
    const std::lock_guard<std::mutex> lock(mutex_);
    shelf_.Forget(job);
  }
  const absl::Time now = SteadyNow();
  if (now < next_sweep_) return;
  next_sweep_ = now + kSweepInterval;
  folders_.RemoveOld(active, options_.keep_stopped, options_.keep_logs);
  const std::lock_guard<std::mutex> lock(mutex_);
  shelf_.ScanAll();
}

void WorkerSession::CheckRoom() {
  struct statvfs disk;
  const bool full = statvfs(options_.data_dir.c_str(), &disk) == 0 &&
                    static_cast<int64_t>(disk.f_bavail) *
                            static_cast<int64_t>(disk.f_frsize) <
                        options_.least_room_bytes;
  if (full == disk_full_) return;
  disk_full_ = full;
  LOG(WARNING) << "disk full=" << full << " data_dir=" << options_.data_dir;
}

absl::Status WorkerSession::RunOnce() {
  ApplyActions();
  SaveAgain();
  CheckRoom();
  v1::SynchronizeRequest request;
  bool news = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    request = MakeRequest(&news);
  }
  v1::SynchronizeResponse response;
  const absl::Status status = Call(request, news, &response);
  WatchCoordinator(status);
  if (absl::IsAborted(status)) KillAll();
  // Only Notify cancels calls.
  if (absl::IsCancelled(status) && !news) return absl::OkStatus();
  RETURN_IF_ERROR(status);
  ApplyResponse(response);
  CleanUp();
  return absl::OkStatus();
}

void WorkerSession::WatchCoordinator(const absl::Status& call) {
  // Cancelled: the call was cut short by local news.
  const absl::Time now = SteadyNow();
  if (options_.metrics != nullptr && !absl::IsCancelled(call)) {
    options_.metrics->OnSynchronize(call.ok());
  }
  if (call.ok()) {
    heard_ = now;
    return;
  }
  if (absl::IsCancelled(call) || now - heard_ < options_.orphan_after) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!table_.HasProcesses()) return;
  LOG(WARNING) << "coordinator given up, members save and end after="
               << now - heard_;
  table_.GiveUpCoordinator(absl::StrCat(
      "the coordinator was not heard for ",
      absl::FormatDuration(absl::Trunc(now - heard_, absl::Seconds(1)))));
}

absl::Status WorkerSession::Run() {
  Backoff backoff(options_.min_backoff, options_.max_backoff);
  bool connected = true;
  while (true) {
    const absl::Status status = RunOnce();
    if (absl::IsAborted(status)) return status;
    if (status.ok() != connected) {
      connected = status.ok();
      if (absl::IsUnauthenticated(status)) {
        LOG(WARNING) << "the coordinator does not know this worker: "
                        "--token_file names the file with a worker's token, "
                        "which `comera token create` makes; this worker goes "
                        "on asking";
      } else {
        LOG(WARNING) << "coordinator reachable=" << connected << " " << status;
      }
    }
    if (status.ok()) backoff.Reset();
    const absl::Duration pause =
        status.ok() ? options_.min_interval : backoff.Next();
    std::unique_lock<std::mutex> lock(mutex_);
    if (changed_.wait_for(
            lock, absl::ToChronoMilliseconds(pause),
            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; })) {
      break;
    }
  }
  bool leave = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    leave = leave_;
  }
  leave ? LeaveMembers() : ShutDown();
  return absl::OkStatus();
}

void WorkerSession::Leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  leave_ = true;
  stop_ = true;
  Notify();
}

void WorkerSession::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = true;
  Notify();
}

void WorkerSession::KillAll() {
  std::unique_lock<std::mutex> lock(mutex_);
  table_.ShutDown();
  const std::vector<GangMembers::Id> ids = table_.Processes();
  DropFetched();
  lock.unlock();
  for (GangMembers::Id id : ids) {
    CancelFetch(id);
    if (!AbandonPreparation(id)) processes_->Kill(id);
  }
  lock.lock();
  changed_.wait_for(lock, std::chrono::seconds(30),
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                      return !table_.HasProcesses();
                    });
  // The coordinator refuses this incarnation, so nobody is to go on with it.
  for (const auto& [id, record] : recorded_) records_.Remove(id);
  recorded_.clear();
  unwritten_.clear();
  records_.ForgetIncarnation();
}

void WorkerSession::ShutDown() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    table_.ShutDown();
  }
  ApplyActions();
  const absl::Duration patience = options_.processes.grace + absl::Seconds(10);
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoMilliseconds(patience),
                      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return !table_.HasProcesses();
                      });
  }
  // Finishes the copies of what members have just saved, before the machine
  // goes.
  if (!copier_->Flush(options_.flush_timeout)) {
    LOG(WARNING) << "not all checkpoints could be copied";
  }
  // Reports the ends now; otherwise the coordinator would find out later.
  const absl::Status told = RunOnce();
  LOG_IF(WARNING, !told.ok()) << "coordinator not told of the end " << told;
}

}  // namespace comera::worker
