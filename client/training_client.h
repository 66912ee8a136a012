// The client library: submits jobs to a coordinator and follows them.
#ifndef COMERA_CLIENT_TRAINING_CLIENT_H_
#define COMERA_CLIENT_TRAINING_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/queue_service.pb.h"
#include "comera/v1/training_service.pb.h"
#include "common/rpc_channel.h"
#include "proto/job_state.h"

namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace comera::client {

// A connection to one coordinator.
//
//   auto client = TrainingClient::Connect("localhost:7400", {});
//   ASSIGN_OR_RETURN(v1::Job job, client->Submit(spec));
//   ASSIGN_OR_RETURN(job, client->Watch(job.name(), {}, {}, print_event));
//
// Connecting is lazy, and the connection survives restarts of the coordinator.
// Every call has a deadline; calls are repeated with growing pauses while the
// coordinator cannot be reached. Repeating is always safe, because jobs are
// created under a request_id.
//
// Thread safety: all methods may be called from any thread.
//
// Statuses are those of training_service.proto, and Unavailable or
// DeadlineExceeded once the time for retries is over, Cancelled after Stop.
class TrainingClient {
 public:
  struct Options {
    // The limit for a call with all its retries.
    absl::Duration timeout = absl::Seconds(30);
    // The limit for one try.
    absl::Duration attempt_timeout = absl::Seconds(10);
    // The pause before the first retry; doubles up to `max_backoff`.
    absl::Duration initial_backoff = absl::Milliseconds(100);
    absl::Duration max_backoff = absl::Seconds(3);
    // How long streams try to reconnect without any success.
    absl::Duration reconnect_timeout = absl::Minutes(5);
    // A stream that lives this long is replaced by a new one at the same
    // position, so that a dead connection is noticed.
    absl::Duration stream_lifetime = absl::Minutes(2);
    // If not OK, no call is made and each returns this status: for a client
    // that could not be set up.
    absl::Status unusable;
    // How this side proves who it is; used by Connect.
    ChannelSecurity security;
  };

  // `address` is host:port, or any gRPC target. For several coordinators, name
  // all, separated by commas, or just one, which redirects the client to the
  // leader.
  static std::unique_ptr<TrainingClient> Connect(const std::string& address,
                                                 const Options& options);
  TrainingClient(std::shared_ptr<grpc::Channel> channel,
                 const Options& options);
  // Calls Stop(); all other calls must have returned.
  ~TrainingClient();

  struct SubmitOptions {
    // Empty means a random one.
    std::string request_id;
    bool validate_only = false;
  };
  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec,
                                 const SubmitOptions& options);
  absl::StatusOr<v1::Job> Submit(const v1::JobSpec& spec);

  // `name`s are resource names: `jobs/{job}`.
  absl::StatusOr<v1::Job> Get(const std::string& name);
  // Returns the jobs of all pages, newest first; at most `limit` (0: all) and
  // only those in `states` (empty: all).
  absl::StatusOr<std::vector<v1::Job>> List(
      const std::vector<v1::JobState>& states, int64_t limit);
  // Returns the jobs that match `filter`, whose page size and token are
  // ignored, with the number of all that match.
  absl::StatusOr<v1::ListJobsResponse> ListMatching(v1::ListJobsRequest filter,
                                                    int64_t limit);
  absl::StatusOr<v1::Job> Cancel(const std::string& name,
                                 const std::string& reason);
  absl::StatusOr<v1::Job> Pause(const std::string& name,
                                const std::string& reason);
  // Removes a finished job with all that is kept of it.
  absl::Status Delete(const std::string& name);
  // `start_over`: the job begins at step 0 again.
  absl::StatusOr<v1::Job> Resume(const std::string& name,
                                 bool start_over = false);
  absl::StatusOr<v1::JobSeries> ReadSeries(
      const v1::ReadSeriesRequest& request);
  // Explains why a job waits, who is ahead of it, and when it may start.
  absl::StatusOr<v1::JobExplanation> Explain(const std::string& name);

  // `name`s are resource names: `workers/{worker}`.
  absl::StatusOr<std::vector<v1::WorkerSummary>> ListWorkers();
  absl::StatusOr<v1::WorkerSummary> GetWorker(const std::string& name);
  // Lets no new members start on the worker. Those that run there move
  // elsewhere, or finish if `wait` is true.
  absl::StatusOr<v1::WorkerSummary> DrainWorker(const std::string& name,
                                                const std::string& reason,
                                                bool wait);
  absl::StatusOr<v1::WorkerSummary> ResumeWorker(const std::string& name);
  // Has the coordinator forget a worker that is gone.
  absl::Status DeleteWorker(const std::string& name);

  // `name`s are resource names: `queues/{queue}`. Errors: queue_service.proto.
  absl::StatusOr<std::vector<v1::Queue>> ListQueues();
  absl::StatusOr<v1::Queue> CreateQueue(const std::string& id,
                                        const v1::Queue& queue);
  // Changes only the named fields.
  absl::StatusOr<v1::Queue> UpdateQueue(const v1::Queue& queue,
                                        const std::vector<std::string>& fields);
  absl::Status DeleteQueue(const std::string& name);
  // Returns the coordinator's version.
  absl::StatusOr<std::string> ServerVersion();

  struct WatchOptions {
    // The sequence number of the last event that the caller already has.
    int64_t after_sequence = 0;
    // The event after which to stop; 0 to follow the job to its end.
    int64_t until_sequence = 0;
    absl::Time deadline = absl::InfiniteFuture();
  };
  using JobCallback = std::function<void(const v1::Job&)>;
  using EventCallback = std::function<void(const v1::JobEvent&)>;
  // Follows the job to its end and returns it in its final state, or in its
  // state at `until_sequence`. `on_job` gets the current job whenever a stream
  // begins; `on_event` gets every event once, in order, across disconnects.
  // Both run on the calling thread and may be empty.
  absl::StatusOr<v1::Job> Watch(const std::string& name,
                                const WatchOptions& options,
                                const JobCallback& on_job,
                                const EventCallback& on_event);

  struct LogOptions {
    int32_t rank = 0;
    int64_t attempt = 0;  // 0: the newest
    int64_t offset = 0;
    bool follow = false;
  };
  // Passes a member's log to `sink` in pieces, every byte once.
  absl::Status ReadLog(const std::string& name, const LogOptions& options,
                       const std::function<void(const std::string&)>& sink);

  // Downloads one file of an artifact to `path`, where it appears whole or not
  // at all. DataLoss: size or checksum differ from those in `file`.
  absl::Status DownloadArtifact(const std::string& artifact,
                                const v1::ArtifactFile& file,
                                const std::string& path);

  // Writes a copy of the coordinator's store to `path`, where it appears whole
  // or not at all, and which only this process's user can read. Requires an
  // administrator's token.
  absl::Status CreateBackup(const std::string& path);

  // Ends all running and later calls with Cancelled.
  void Stop();

 private:
  class Impl;
  explicit TrainingClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// The settings of channels to a coordinator: large answers, quick reconnects.
grpc::ChannelArguments ClientChannelArguments();

// Returns 128 random bits in hexadecimal, fit for a request_id.
std::string RandomId();

}  // namespace comera::client

#endif  // COMERA_CLIENT_TRAINING_CLIENT_H_
