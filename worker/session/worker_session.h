#ifndef COMERA_WORKER_SESSION_WORKER_SESSION_H_
#define COMERA_WORKER_SESSION_WORKER_SESSION_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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
#include "worker/data/blob_source.h"
#include "worker/data/data_fetcher.h"
#include "worker/data/data_roots.h"
#include "worker/data/dataset_cache.h"
#include "worker/gang/gang_member.h"
#include "worker/gang/job_folders.h"
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

// This machine's side of the contract with the coordinator: tells what runs
// here, makes run here what is wanted, carries what the ranks say.
//
// Life cycle: Create kills what an earlier daemon left behind; Run calls
// RunOnce until Stop; destruction kills what still runs. Ranks go on training
// while the coordinator cannot be reached.
//
// Thread safety: Run or RunOnce on one thread; Stop from any.
class WorkerSession : private GangMembers::Observer,
                      private DataFetcher::Observer {
 public:
  struct Options {
    // Label of the rack or switch; empty: unknown.
    std::string rack;
    // [a-z0-9-]{1,63}.
    std::string worker;
    // Random per start.
    std::string incarnation;
    std::string host;
    // At which the ranks of other workers reach those here; empty: loopback,
    // which serves only gangs on this machine.
    std::string address;
    std::vector<v1::Slot> slots;
    int cores = 1;
    std::string data_dir;
    // Path of comera-trainer.
    std::string trainer;
    // Added to each rank's environment: KEY=VALUE.
    std::vector<std::string> environment;
    // Whom ranks run as; unset: this process's user. Their folders are given to
    // him.
    std::optional<MemberUser> member_user;
    // Control groups for ranks; null: none. Must outlive the session.
    const MemberCgroups* cgroups = nullptr;
    // Where jobs may read data.
    DataRoots data_roots;
    GangMembers::Options processes;
    ModelUploader::Options upload;
    DatasetCache::Options cache;
    DataFetcher::Options fetch;
    StartFetchOptions start_fetch;
    // How long the coordinator may hold a call that brings no news.
    absl::Duration hold = absl::Seconds(10);
    // For a call's answer, over `hold`.
    absl::Duration call_timeout = absl::Seconds(10);
    // News that come within this of a call go together in the next.
    absl::Duration min_interval = absl::Milliseconds(100);
    // Pauses while the coordinator cannot be reached.
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(3);
    // While ranks run; what they do travels with each call.
    absl::Duration busy_hold = absl::Seconds(1);
    // After a call that found no coordinator for this long, ranks save what
    // they have and end.
    absl::Duration orphan_after = absl::Minutes(10);
    // A rank that hangs has this long between being asked to end and SIGKILL.
    absl::Duration hung_grace = absl::Seconds(2);
    // For other workers' copies of training states; 0: no PeerService.
    size_t replica_memory = size_t{512} << 20;
    PeerServer::Options peers;
    // For calls to other workers; null: in the clear.
    std::shared_ptr<grpc::ChannelCredentials> peer_credentials;
    // Folder of a file system that all workers share; empty: checkpoints are
    // as durable as this machine's disk.
    std::string checkpoint_store;
    // Before a rank that goes on starts, and before this daemon ends.
    absl::Duration fetch_timeout = absl::Seconds(20);
    absl::Duration flush_timeout = absl::Seconds(10);
    absl::Duration keep_durable = absl::Hours(24 * 30);
    // Files of jobs that have no rank here any more: also the checkpoints of
    // jobs that are paused or wait. Those of ended jobs go at once.
    absl::Duration keep_stopped = absl::Hours(24 * 30);
    absl::Duration keep_logs = absl::Hours(24 * 30);
    // Told what happens; null: nobody is. Must outlive the session.
    WorkerMetrics* metrics = nullptr;
  };

  // `gpus` watches those of the slots; null where there are none. It is started
  // here. DeadlineExceeded: a leftover process does not end. Unavailable:
  // files, descriptors.
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Create(
      const Options& options, std::shared_ptr<grpc::Channel> channel,
      std::unique_ptr<GpuWatch> gpus = nullptr);
  ~WorkerSession() override;

  // One exchange with the coordinator, and what follows from it. OK also if
  // it was cut short by local news. Aborted: another incarnation of this
  // worker has taken over; all ranks were killed. Other errors: try again.
  absl::Status RunOnce();

  // Until Stop (OK: all ranks were stopped and told as lost) or Aborted.
  absl::Status Run();
  void Stop();

 private:
  WorkerSession(const Options& options, std::shared_ptr<grpc::Channel> channel);
  void StartPeers();
  void AddCollectors();

  bool OnLine(GangMembers::Id id, std::string_view line) override;
  void OnLogGrown(GangMembers::Id id) override;
  void OnExit(GangMembers::Id id, const MemberExit& exit) override;
  void OnFetching(DataFetcher::Id id,
                  const v1::TrainerEvent& heartbeat) override;
  void OnFetched(DataFetcher::Id id, absl::StatusOr<v1::JobSpec> spec) override;
  void OnUpload(const v1::MemberKey& rank,
                const absl::StatusOr<ModelUploader::Models>& model);

  // There is news for the coordinator.
  void Notify() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::SynchronizeRequest MakeRequest(bool* news)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Call(const v1::SynchronizeRequest& request, bool news,
                    v1::SynchronizeResponse* response);
  void ApplyResponse(const v1::SynchronizeResponse& response);
  // From SIGTERM to SIGKILL: what the coordinator wants, at least the usual.
  absl::Duration GraceOf(GangMembers::Id id);
  // Starts and stops what is to be.
  void Act();
  // What must come before a rank whose data are here (worker_session_start.cc);
  // false: nothing must.
  bool Prepare(const MemberTable::Actions::Start& start);
  // Starts the ranks whose preparation is done.
  void StartPrepared();
  // False: the rank is not being prepared.
  bool AbandonPreparation(GangMembers::Id id);
  void StartOrFail(const MemberTable::Actions::Start& start);
  absl::Status StartMember(const MemberTable::Actions::Start& start);
  // Opens the cache of data and what fills it.
  absl::Status OpenCache();
  // The ranks whose data came, with specs that name them; and those that have
  // to wait for theirs are begun to be fetched for.
  std::vector<MemberTable::Actions::Start> FetchData(
      const std::vector<MemberTable::Actions::Start>& starts);
  // Ends fetches for ranks that are not to be started any more.
  void CancelFetch(GangMembers::Id id);
  void DropFetched() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings the newest training state here, if the rank is to go on with one.
  void FetchCheckpoint(const v1::MemberAssignment& rank);
  // Rank 0 saved its state.
  void CopyCheckpoint(GangMembers::Id id, const v1::CheckpointSaved& saved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the ranks up if the coordinator was not heard for too long.
  void WatchCoordinator(const absl::Status& call);
  // Takes the GPU of the rank's slot, if it has one, and adds to the command
  // what makes it the only one that the rank sees. FailedPrecondition: unfit.
  absl::Status ClaimGpu(const MemberTable::Actions::Start& start,
                        const v1::Slot& slot, MemberCommand* command);
  // Whom the rank runs as, and its control group.
  absl::Status Confine(const MemberTable::Actions::Start& start, int threads,
                       MemberCommand* command);
  void GiveGpuBack(GangMembers::Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CleanUp();
  void KillAll();
  void ShutDown();

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const JobFolders folders_;
  const MemberRecords records_;
  // Of the thread that calls RunOnce.
  RendezvousExchange rendezvous_;
  int64_t seen_version_ = 0;
  absl::Time heard_;  // from the coordinator, by SteadyNow
  // Of the last answer.
  std::vector<v1::MemberStop> stopping_;
  absl::Time next_sweep_ = absl::InfinitePast();

  PeerKeys peer_keys_;
  ReplicaCache replicas_;
  const std::unique_ptr<ArtifactStore> store_;  // null: none
  PeerClient peers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  CheckpointShelf shelf_ ABSL_GUARDED_BY(mutex_);
  MemberTable table_ ABSL_GUARDED_BY(mutex_);
  LogShipper logs_ ABSL_GUARDED_BY(mutex_);
  std::map<GangMembers::Id, pid_t> pids_ ABSL_GUARDED_BY(mutex_);
  // UUIDs of the GPUs that ranks use.
  std::map<GangMembers::Id, std::string> gpu_of_ ABSL_GUARDED_BY(mutex_);
  // Ranks whose data are being fetched, and those whose data came.
  std::map<GangMembers::Id, v1::MemberAssignment> fetching_
      ABSL_GUARDED_BY(mutex_);
  std::vector<MemberTable::Actions::Start> fetched_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // News came since the request under way was made.
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  // The call under way, if news may cut it short.
  grpc::ClientContext* held_call_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::unique_ptr<BlobSource> blobs_;
  std::unique_ptr<DatasetCache> cache_;

  // Destroyed first, in this order: their threads call this object.
  std::unique_ptr<GangMembers> processes_;
  std::unique_ptr<CheckpointCopier> copier_;
  std::unique_ptr<ModelUploader> uploader_;
  std::unique_ptr<GpuWatch> gpus_;  // Null: no GPUs.
  std::unique_ptr<DataFetcher> fetcher_;
  std::unique_ptr<MemberPreparer> preparer_;
  std::unique_ptr<PeerServer> peer_server_;  // Null: no copies.
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_WORKER_SESSION_H_
