// Polls job states over gRPC at fixed times.

#include "tests/bench/service/poll_load.h"

#include <condition_variable>
#include <memory>
#include <mutex>

#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/grpc_status.h"

namespace comera::bench {
namespace {

struct Poll {
  grpc::ClientContext context;
  v1::GetJobRequest request;
  v1::Job job;
  absl::Time due;
};

}  // namespace

void PollJobs(const Channels& channels, const std::vector<std::string>& jobs,
              int pollers, absl::Duration duration, PollFigures* figures) {
  if (pollers == 0 || jobs.empty()) return;
  std::vector<std::unique_ptr<v1::TrainingService::Stub>> stubs;
  for (const auto& channel : channels) {
    stubs.push_back(v1::TrainingService::NewStub(channel));
  }
  const absl::Duration gap = absl::Seconds(1) / pollers;
  const int64_t total = duration / gap;
  std::mutex mutex;
  std::condition_variable done;
  int64_t under_way = 0;
  const absl::Time begin = absl::Now() + absl::Milliseconds(50);
  for (int64_t i = 0; i < total; ++i) {
    const absl::Time due = begin + i * gap;
    absl::SleepFor(due - absl::Now());
    const auto poller = static_cast<size_t>(i % pollers);
    auto poll = std::make_shared<Poll>();
    poll->due = due;
    // Spreads neighbouring pollers over jobs that are far apart.
    poll->request.set_name(jobs[poller * 7919 % jobs.size()]);
    {
      std::lock_guard<std::mutex> lock(mutex);
      ++under_way;
    }
    figures->send_delay.Add(absl::Now() - due);
    stubs[poller % stubs.size()]->async()->GetJob(
        &poll->context, &poll->request, &poll->job,
        [poll, figures, &mutex, &done, &under_way](const grpc::Status& status) {
          if (status.ok()) figures->latencies.Add(absl::Now() - poll->due);
          std::lock_guard<std::mutex> lock(mutex);
          if (!status.ok() && figures->failed++ == 0) {
            figures->first_error = FromGrpcStatus(status);
          }
          if (--under_way == 0) done.notify_one();
        });
  }
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&under_way] { return under_way == 0; });
}

}  // namespace comera::bench
