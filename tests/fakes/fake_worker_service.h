#ifndef COMERA_TESTS_FAKES_FAKE_WORKER_SERVICE_H_
#define COMERA_TESTS_FAKES_FAKE_WORKER_SERVICE_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace comera {

// A coordinator's worker service on loopback. It wants what the test says,
// keeps what it receives, and acknowledges it unless the test forbids that.
class FakeWorkerService : public v1::WorkerService::Service {
 public:
  using Key = std::tuple<std::string, int64_t, int32_t>;

  // Everything received so far.
  struct State {
    int calls = 0;
    int refused_calls = 0;  // calls answered with SetError's error
    int seen_calls = 0;     // calls with seen_version up to date
    v1::SynchronizeRequest last;
    std::map<Key, v1::MemberStatus> ranks;
    // How often each member was reported as EXITED.
    std::map<Key, int> exits_reported;
    std::vector<v1::ProgressReport> reports;
    int repeated_reports = 0;
    std::map<Key, std::string> logs;
    std::map<std::string, std::string> rendezvous;
    // The contents by artifact and file; complete files only.
    std::map<std::string, std::string> files;
    std::map<std::string, v1::ArtifactFile> headers;
    int uploads = 0;
    std::map<std::string, int> uploads_of;  // by job
  };

  FakeWorkerService();
  ~FakeWorkerService() override;

  // The address to connect to; it stays the same over Stop and Start.
  const std::string& address() const { return address_; }
  void Start();
  void Stop();

  // Changes what is wanted or how calls are answered.
  void Want(std::vector<v1::MemberAssignment> desired);
  void SetAcknowledging(bool on);
  void SetForgetting(bool on);
  void SetError(absl::Status status);
  // `term`: of the leadership that answers uploads; 0: SetTerm's.
  void SetUploadError(absl::Status status, int64_t term = 0);
  // How uploads of one job end; OK: as the others.
  void SetUploadErrorOf(const std::string& job, absl::Status status);
  // The leadership in which it answers from now on; 0: says nothing of it.
  void SetTerm(int64_t term);
  void Offer(const v1::RendezvousEntry& entry);
  // Wants nothing any more, and these members to be killed soon.
  void Kill(std::vector<v1::MemberKey> ranks);

  // Waits until `done` holds; returns false if it does not within 20 s.
  bool WaitFor(const std::function<bool(const State&)>& done);
  State state();

  grpc::Status Synchronize(grpc::ServerContext* context,
                           const v1::SynchronizeRequest* request,
                           v1::SynchronizeResponse* response) override;
  grpc::Status UploadArtifact(
      grpc::ServerContext* context,
      grpc::ServerReader<v1::UploadArtifactRequest>* reader,
      v1::UploadArtifactResponse* response) override;

 private:
  // With mutex_ held.
  void AddTerm(int64_t term, grpc::ServerContext* context);
  void Record(const v1::SynchronizeRequest& request,
              v1::SynchronizeResponse* response);

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // The last report of each attempt.
  std::map<std::pair<std::string, int64_t>, int64_t> last_reports_;
  State state_;
  std::vector<v1::MemberAssignment> desired_;
  std::vector<v1::RendezvousEntry> offered_;
  std::vector<v1::MemberKey> kill_;
  int64_t version_ = 1;
  int64_t term_ = 0;
  int64_t upload_term_ = 0;
  bool acknowledging_ = true;
  bool forgetting_ = true;
  bool stopping_ = false;
  absl::Status error_;
  absl::Status upload_error_;
  std::map<std::string, absl::Status> upload_errors_;  // by job
};

}  // namespace comera

#endif  // COMERA_TESTS_FAKES_FAKE_WORKER_SERVICE_H_
