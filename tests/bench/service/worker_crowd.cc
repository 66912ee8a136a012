// Synchronizes as thousands of workers, through asynchronous stubs.
#include "tests/bench/service/worker_crowd.h"

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "comera/v1/worker_service.grpc.pb.h"
#include "common/grpc_status.h"

namespace comera::bench {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(60);

// Counts what is still under way.
class Countdown {
 public:
  explicit Countdown(size_t left) : left_(left) {}

  void Done(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = status;
    if (--left_ == 0) done_.notify_all();
  }
  absl::Status Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_ == 0; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  size_t left_;
  absl::Status status_;
};

}  // namespace

struct WorkerCrowd::Worker {
  struct Member {
    v1::MemberAssignment assignment;
    int64_t reported = 0;
  };

  void Fill(int slots) {
    request.Clear();
    request.set_worker(name);
    request.set_incarnation("1");
    request.set_host(name);
    for (int i = 0; i < slots; ++i) {
      v1::Slot* slot = request.add_slots();
      slot->set_index(i);
      slot->set_device(v1::ResourceSpec::CPU);
    }
    for (auto& [key, member] : members) {
      v1::MemberStatus* status = request.add_members();
      status->set_job(member.assignment.job());
      status->set_attempt(member.assignment.attempt());
      status->set_rank(member.assignment.rank());
      status->set_slot(member.assignment.slot());
      status->set_phase(v1::MemberStatus::RUNNING);
      status->set_step(member.reported + 1);
      if (member.assignment.rank() != 0) continue;
      v1::ProgressReport* report = request.add_reports();
      report->set_job(member.assignment.job());
      report->set_attempt(member.assignment.attempt());
      report->set_number(++member.reported);
      v1::StepMetrics* metrics = report->mutable_event()->mutable_metrics();
      metrics->set_step(member.reported);
      metrics->set_total_steps(1000000);
      metrics->set_loss(2.5);
    }
  }

  void Apply() {
    std::map<std::string, Member> wanted;
    for (const v1::MemberAssignment& assignment : response.desired()) {
      const std::string key = absl::StrCat(
          assignment.job(), "/", assignment.attempt(), "/", assignment.rank());
      Member& member = wanted[key];
      const auto known = members.find(key);
      if (known != members.end()) member.reported = known->second.reported;
      member.assignment = assignment;
    }
    members = std::move(wanted);
  }

  // Calls as a worker does: again, where the connection ends before the answer,
  // as one does whose end gRPC has not yet noticed.
  void Call(absl::Time deadline,
            const std::function<void(const absl::Status&)>& done) {
    context = std::make_unique<grpc::ClientContext>();
    context->set_wait_for_ready(true);
    context->set_deadline(absl::ToChronoTime(deadline));
    response.Clear();
    stub->async()->Synchronize(
        context.get(), &request, &response,
        [this, deadline, done](const grpc::Status& status) {
          if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
            return Call(deadline, done);
          }
          done(FromGrpcStatus(status));
        });
  }

  std::string name;
  std::unique_ptr<v1::WorkerService::Stub> stub;
  std::unique_ptr<grpc::ClientContext> context;
  v1::SynchronizeRequest request;
  v1::SynchronizeResponse response;
  std::map<std::string, Member> members;
};

WorkerCrowd::WorkerCrowd(const std::string& address, int workers, int slots)
    : slots_(slots) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  for (int i = 0; i < workers; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->name = absl::StrCat("played-", i);
    workers_.back()->stub =
        v1::WorkerService::NewStub(grpc::CreateCustomChannel(
            address, grpc::InsecureChannelCredentials(), arguments));
  }
}

WorkerCrowd::~WorkerCrowd() = default;

int WorkerCrowd::members() const {
  size_t members = 0;
  for (const auto& worker : workers_) members += worker->members.size();
  return static_cast<int>(members);
}

absl::Status WorkerCrowd::Round(Latencies* latencies) {
  Countdown calls(workers_.size());
  for (auto& worker : workers_) worker->Fill(slots_);
  const absl::Time begin = absl::Now();
  for (auto& worker : workers_) {
    worker->Call(begin + kLimit,
                 [&calls, latencies, begin](const absl::Status& status) {
                   if (latencies != nullptr) {
                     latencies->Add(absl::Now() - begin);
                   }
                   calls.Done(status);
                 });
  }
  const absl::Status status = calls.Wait();
  if (!status.ok()) return status;
  for (auto& worker : workers_) worker->Apply();
  return absl::OkStatus();
}

}  // namespace comera::bench
