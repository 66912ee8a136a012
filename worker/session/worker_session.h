#ifndef COMERA_WORKER_SESSION_WORKER_SESSION_H_
#define COMERA_WORKER_SESSION_WORKER_SESSION_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "common/backoff.h"
#include "worker/checkpoint/checkpoint_copier.h"
#include "worker/checkpoint/checkpoint_shelf.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/checkpoint/start_fetch.h"
#include "worker/checkpoint/state_fetch.h"
#include "worker/data/blob_source.h"
#include "worker/data/data_fetcher.h"
#include "worker/data/data_roots.h"
#include "worker/data/dataset_cache.h"
#include "worker/gang/gang_member.h"
#include "worker/gang/job_folders.h"
#include "worker/gang/lease_file.h"
#include "worker/gang/member_preparer.h"
#include "worker/gang/member_records.h"
#include "worker/gang/member_table.h"
#include "worker/gpu/gpu_watch.h"
#include "worker/metrics/worker_metrics.h"
#include "worker/report/artifact_store.h"
#include "worker/report/log_shipper.h"
#include "worker/report/model_uploader.h"
#include "worker/session/rendezvous_exchange.h"

namespace comera::worker {

// This machine's side of the contract with the coordinator: reports what runs
// here, starts and stops what is wanted, and forwards what members report.
//
// Life cycle: Create takes over the members that outlived an earlier daemon,
// and kills what else it left behind; Run calls RunOnce until Stop or Leave;
// destruction kills what still runs, but not after Leave. Members go on
// training while the coordinator cannot be reached.
//
// Thread safety: Run or RunOnce on one thread; Stop from any.
class WorkerSession : private GangMembers::Observer,
                      private DataFetcher::Observer {
 public:
  struct Options {
    // The label of the rack or switch; empty if unknown.
    std::string rack;
    // The worker's name: [a-z0-9-]{1,63}.
    std::string worker;
    // A random string, new at every start of the daemon; or, where members of
    // an earlier one can be adopted, that one's
    // (MemberRecords::KeptIncarnation).
    std::string incarnation;
    // A random string, new at every start of the daemon; empty: the
    // incarnation.
    std::string daemon;
    // How long members go on when this daemon ends, for another one to adopt
    // them; 0: they end with it.
    absl::Duration member_lease = absl::ZeroDuration();
    std::string host;
    // The address at which members on other workers reach those here. Empty
    // means loopback, which serves only gangs on this machine.
    std::string address;
    std::vector<v1::Slot> slots;
    int cores = 1;
    std::string data_dir;
    // The path of comera-trainer.
    std::string trainer;
    // Additions to each member's environment, as KEY=VALUE.
    std::vector<std::string> environment;
    // The user that members run as; unset means this process's user. The
    // members' folders are given to that user.
    std::optional<MemberUser> member_user;
    // Whether members may use their own files only, where the kernel can see to
    // that (Landlock).
    bool confine_files = false;
    // Makes members' control groups; null for none. Must outlive the session.
    const MemberCgroups* cgroups = nullptr;
    // Whether members of jobs without resources.memory_bytes have limits all
    // the same: what is planned, with head-room, on the CPU (comera-trainer
    // --limit_to_plan), and in a control group their share of the machine.
    bool limit_memory = true;
    // Whether jobs may run programs of their users' own here.
    bool run_programs = false;
    // What jobs may read on this machine; by default nothing.
    DataRoots data_roots;
    GangMembers::Options processes;
    ModelUploader::Options upload;
    DatasetCache::Options cache;
    DataFetcher::Options fetch;
    StartFetchOptions start_fetch;
    // How long the coordinator may hold a call that brings no news.
    absl::Duration hold = absl::Seconds(10);
    // How long past `hold` an answer may take.
    absl::Duration call_timeout = absl::Seconds(10);
    // News that follow a call within this time share the next call.
    absl::Duration min_interval = absl::Milliseconds(100);
    // The shortest and longest pause while the coordinator cannot be reached.
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(3);
    // Replaces `hold` while members run, whose progress each call carries.
    absl::Duration busy_hold = absl::Seconds(1);
    // When the coordinator has been unreachable for this long, members save
    // their state and end.
    absl::Duration orphan_after = absl::Hours(8);
    // The time from asking a member that hangs to end until SIGKILL.
    absl::Duration hung_grace = absl::Seconds(2);
    // The bytes of memory for copies of other workers' training states; 0
    // disables PeerService.
    size_t replica_memory = size_t{512} << 20;
    PeerServer::Options peers;
    // Credentials of calls to other workers; null means unencrypted.
    std::shared_ptr<grpc::ChannelCredentials> peer_credentials;
    // The store that all workers share. If there is none, checkpoints are only
    // as safe as this machine's disk.
    std::shared_ptr<ArtifactStore> checkpoint_store;
    // How the training state that a member resumes from is fetched.
    StateFetchOptions state_fetch;
    // The beginning of the mark (stray_processes.h) on the processes of models
    // that this daemon answers with.
    std::string PredictorMark() const {
      return absl::StrCat(data_dir, "#", incarnation, "#predict#");
    }
    // The limit for finishing copies before this daemon ends.
    absl::Duration flush_timeout = absl::Seconds(10);
    // How long files are kept of jobs that have no member here any more, other
    // than checkpoints, which stay until the coordinator says that the job has
    // ended. The files of ended jobs are removed at once.
    absl::Duration keep_stopped = absl::Hours(24 * 30);
    absl::Duration keep_logs = absl::Hours(24 * 30);
    // With less room than this the disk counts as full: members cannot tell
    // that they live.
    int64_t least_room_bytes = int64_t{1} << 20;
    // Receives counts of what happens; may be null. Must outlive the session.
    WorkerMetrics* metrics = nullptr;
  };

  // `gpus` watches the GPUs of the slots, and is started here; null if there
  // are none. DeadlineExceeded: a leftover process does not end. Unavailable:
  // files or descriptors cannot be opened.
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Create(
      const Options& options, std::shared_ptr<grpc::Channel> channel,
      std::unique_ptr<GpuWatch> gpus = nullptr);
  ~WorkerSession() override;

  // Makes one exchange with the coordinator and acts on its answer. Also OK if
  // local news cut the call short. Aborted: another incarnation of this worker
  // has taken over, and all members were killed. After any other error, try
  // again.
  absl::Status RunOnce();

  // Runs until Stop (OK: all members were stopped and reported as lost), until
  // Leave (OK: members that survive go on) or until RunOnce returns Aborted.
  absl::Status Run();
  void Stop();
  void Leave();

 private:
  WorkerSession(const Options& options, std::shared_ptr<grpc::Channel> channel);
  void StartPeers();
  void AddCollectors();

  bool OnLine(GangMembers::Id id, std::string_view line, int64_t end) override;
  void OnLogGrown(GangMembers::Id id) override;
  void OnExit(GangMembers::Id id, const MemberExit& exit) override;
  void OnFetching(DataFetcher::Id id,
                  const v1::TrainerEvent& heartbeat) override;
  void OnFetched(DataFetcher::Id id, absl::StatusOr<v1::JobSpec> spec) override;
  void OnUpload(const v1::MemberKey& rank,
                const absl::StatusOr<ModelUploader::Models>& model);

  // Wakes the exchange, because there is news for the coordinator.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::SynchronizeRequest MakeRequest(bool* news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks whether the disk is full.
  void CheckRoom();
  // Sends the member's model once the coordinator has answered this daemon: it
  // refuses the models of an attempt that it has given up, and may learn only
  // by that call that its members are here.
  void UploadModel(const v1::MemberKey& rank)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Call(const v1::SynchronizeRequest& request, bool news,
                    v1::SynchronizeResponse* response);
  void ApplyResponse(const v1::SynchronizeResponse& response);
  // The time from SIGTERM to SIGKILL: what the coordinator wants, but at least
  // the usual grace.
  absl::Duration GraceOf(GangMembers::Id id);
  // Starts and stops members as the table decides.
  void ApplyActions();
  // Begins the work that must precede the start of a member whose data have
  // arrived (worker_session_start.cc). Returns false if there is none.
  bool Prepare(const MemberTable::Actions::Start& start);
  // Starts the members whose preparation is done.
  void StartPrepared();
  // Returns false if the member is not being prepared.
  bool AbandonPreparation(GangMembers::Id id);
  // Starts the member once the paths of its data have been checked.
  void CheckAndStart(const MemberTable::Actions::Start& start);
  void StartOrFail(const MemberTable::Actions::Start& start);
  void FailStart(const MemberTable::Actions::Start& start,
                 const absl::Status& status);
  absl::Status StartMember(const MemberTable::Actions::Start& start);
  // Takes over the members of the records that survived, and kills the others
  // (worker_session_adoption.cc).
  absl::Status AdoptMembers(const std::vector<MemberRecord>& records);
  void Adopt(const MemberRecord& record, int pidfd);
  // The records that this daemon goes on with; the others' processes are
  // killed.
  absl::StatusOr<std::vector<MemberRecord>> ClaimRecords();
  bool MembersSurvive() const {
    return options_.member_lease > absl::ZeroDuration();
  }
  // Writes the record of a member that is about to start, or of its process.
  absl::Status Record(const MemberTable::Actions::Start& start,
                      const MemberCommand& command, pid_t pid);
  // Writes a record, and keeps in mind if that failed.
  absl::Status Save(const MemberRecord& record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SaveAgain();
  // Brings the records up to date with what the coordinator has.
  void UpdateRecords();
  void LeaveMembers();
  // Opens the cache of datasets and the fetcher that fills it. Members of the
  // records still read their data.
  absl::Status OpenCache(const std::vector<MemberRecord>& records);
  // Returns the members whose data have arrived, with specs that name the local
  // files, and begins to fetch the data of the others.
  std::vector<MemberTable::Actions::Start> FetchData(
      const std::vector<MemberTable::Actions::Start>& starts);
  // Cancels the fetch for a member that should no longer start.
  void CancelFetch(GangMembers::Id id);
  void DropFetched() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // So many bytes of so many (0: unknown) are here of the state that the member
  // waits for.
  void OnPreparationMoved(GangMembers::Id id, int64_t bytes, int64_t size,
                          const std::string& source);
  // Brings the training state that the member resumes from to this machine.
  // Errors are those of CheckpointFetcher.
  absl::Status FetchCheckpoint(GangMembers::Id id,
                               const v1::MemberAssignment& rank,
                               const std::atomic<bool>& abandoned);
  // Brings the training state of another job that the member starts from.
  // Errors are those of FetchCheckpoint.
  absl::Status FetchOthersState(GangMembers::Id id,
                                const v1::MemberAssignment& rank,
                                const std::atomic<bool>& abandoned);
  // Tells the member to end soon and to leave its best model.
  void AskToFinish(const v1::MemberAssignment& rank) const;
  // Adds what keeps checkpoints of the members here from being copied.
  void FillTroubles(v1::SynchronizeRequest* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Queues copies of the state that member 0 has saved.
  void CopyCheckpoint(GangMembers::Id id, const v1::CheckpointSaved& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has deleted from the store what no job needs any more.
  void ExpireStored(const v1::SynchronizeResponse& response);
  // Gives the members up if the coordinator has been silent for too long.
  void WatchCoordinator(const absl::Status& call);
  // Why no member may start in the slot now; empty if one may.
  std::string WhyUnfit(const v1::Slot& slot)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Claims the GPU of the member's slot, if it has one, and makes it the only
  // GPU that the command sees. FailedPrecondition: the GPU is unfit.
  absl::Status ClaimGpu(const MemberTable::Actions::Start& start,
                        const v1::Slot& slot, MemberCommand* command);
  // Sets the user that the member runs as, and its control group.
  absl::Status Confine(const MemberTable::Actions::Start& start, int threads,
                       MemberCommand* command);
  void ReleaseGpu(GangMembers::Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CleanUp();
  void KillAll();
  void ShutDown();

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const JobFolders folders_;
  const MemberRecords records_;
  // The following are used only by the thread that calls RunOnce.
  RendezvousExchange rendezvous_;
  int64_t seen_version_ = 0;
  // The time of the coordinator's last answer, by SteadyNow.
  absl::Time heard_;
  bool disk_full_ = false;
  // The members that the last answer asked to stop.
  std::vector<v1::MemberStop> stopping_;
  absl::Time next_sweep_ = absl::InfinitePast();

  PeerKeys peer_keys_;
  ReplicaCache replicas_;
  PeerClient peers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  CheckpointShelf shelf_ ABSL_GUARDED_BY(mutex_);
  MemberTable table_ ABSL_GUARDED_BY(mutex_);
  LogShipper logs_ ABSL_GUARDED_BY(mutex_);
  std::map<GangMembers::Id, MemberRecord> recorded_ ABSL_GUARDED_BY(mutex_);
  // The records that could not be written.
  std::set<GangMembers::Id> unwritten_ ABSL_GUARDED_BY(mutex_);
  // The UUID of the GPU that each member uses.
  std::map<GangMembers::Id, std::string> gpu_of_ ABSL_GUARDED_BY(mutex_);
  // Members whose data are being fetched, and those whose data have arrived.
  std::map<GangMembers::Id, v1::MemberAssignment> fetching_
      ABSL_GUARDED_BY(mutex_);
  std::vector<MemberTable::Actions::Start> fetched_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the coordinator has answered, and the models that wait for that.
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<v1::MemberKey> unsent_ ABSL_GUARDED_BY(mutex_);
  // Whether stop_ leaves members that survive.
  bool leave_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether news came since the request under way was made.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  // The call under way, if news may cut it short.
  grpc::ClientContext* held_call_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::unique_ptr<BlobSource> blobs_;
  std::unique_ptr<DatasetCache> cache_;
  // The data of members that were adopted; those of others are the fetcher's.
  std::map<GangMembers::Id, DatasetCache::Lease> adopted_data_
      ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<LeaseFile> lease_;  // Null: members end with this daemon.

  // Destroyed first, in this order, because their threads call this object.
  std::unique_ptr<GangMembers> processes_;
  std::unique_ptr<CheckpointCopier> copier_;
  std::unique_ptr<ModelUploader> uploader_;
  std::unique_ptr<GpuWatch> gpus_;  // Null: no GPUs.
  std::unique_ptr<DataFetcher> fetcher_;
  std::unique_ptr<MemberPreparer> preparer_;
  std::unique_ptr<MemberPreparer> checker_;  // Checks the paths of data.
  std::unique_ptr<PeerServer> peer_server_;  // Null: no copies.
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_WORKER_SESSION_H_
