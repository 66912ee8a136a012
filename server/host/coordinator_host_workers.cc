// Answers the calls of workers, and shows workers and what they have sent, for
// a coordinator's host.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "proto/resource_names.h"
#include "server/coordinator/synchronize/synchronize_validation.h"
#include "server/host/coordinator_host.h"
#include "server/host/received_logs.h"

namespace comera::server {

void CoordinatorHost::ConfirmWorkerExit(const WorkerProbe& probe) {
  loop_->Post([this, probe] {
    if (stopping_ || !CheckWritable().ok()) return;
    LOG(INFO) << "worker=" << probe.worker
              << " event=process_gone address=" << probe.address;
    Effects effects;
    mutable_engine()->ConfirmWorkerExit(probe.worker, probe.incarnation, now(),
                                        &effects);
    Commit(std::move(effects));
  });
}

void CoordinatorHost::ListWorkers(Callback<v1::ListWorkersResponse> done) {
  RunQuery<v1::ListWorkersResponse>(
      [](const Coordinator& coordinator, absl::Time now) {
        v1::ListWorkersResponse response;
        for (v1::WorkerSummary& worker : coordinator.Workers(now)) {
          *response.add_workers() = std::move(worker);
        }
        return response;
      },
      std::move(done));
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
    if (stopping_) return done(StoppingError());
    if (absl::Status status = CheckWritable(); !status.ok()) {
      return done(status);
    }
    calls_.Add(call, std::move(done));
    if (request.logs_size() == 0) return RunSynchronize(request, {}, call);
    std::vector<bool> keep;
    for (const v1::LogChunk& chunk : request.logs()) {
      keep.push_back(engine().KeepsLog(chunk, request.worker(), now()));
    }
    io_->Post([this, call, request = std::move(request),
               keep = std::move(keep)]() mutable {
      std::vector<v1::LogAck> acks = AppendLogs(request, keep, &logs_);
      loop_->Post(
          [this, call, request = std::move(request), acks = std::move(acks)] {
            RunSynchronize(request, acks, call);
            for (const v1::LogAck& ack : acks) NotifyChange(ack.job());
          });
    });
  });
  return call;
}

void CoordinatorHost::RunSynchronize(const v1::SynchronizeRequest& request,
                                     const std::vector<v1::LogAck>& log_acks,
                                     int64_t call) {
  if (stopping_) return calls_.Reply(call, StoppingError());
  if (!calls_.Has(call)) return;
  if (absl::Status status = CheckWritable(); !status.ok()) {
    return calls_.Reply(call, status);
  }
  Effects effects;
  mutable_engine()->Synchronize(request, log_acks, call, now(), &effects);
  Commit(std::move(effects));
}

void CoordinatorHost::Abandon(int64_t call) {
  loop_->Post([this, call] {
    mutable_engine()->Abandon(call);
    calls_.Reply(call, absl::CancelledError("the worker hung up"));
  });
}

void CoordinatorHost::CheckUpload(v1::UploadArtifactHeader header,
                                  std::string worker,
                                  Callback<UploadRoom> done) {
  loop_->Post([this, header = std::move(header), worker = std::move(worker),
               done = std::move(done)] {
    if (stopping_) return done(StoppingError());
    absl::Status status = CheckWritable();
    if (status.ok()) status = engine().CheckUpload(header, worker);
    if (!status.ok()) return done(status);
    done(UploadCapacity(header));
  });
}

UploadRoom CoordinatorHost::UploadCapacity(
    const v1::UploadArtifactHeader& header) const {
  const auto ids = ParseArtifactName(header.artifact());
  const JobDirectory::Entry* entry = directory_.Find(JobName(ids->first));
  UploadRoom room;
  room.disk = options_.disk;
  room.limit = options_.model_quota_bytes;
  room.used = directory_.model_bytes() + engine().UploadedBytes(nullptr);
  // A job that is not shown yet has no user's models either.
  if (entry == nullptr) return room;
  room.user = entry->job->user();
  room.user_limit = QuotaOf(room.user).model_bytes;
  room.user_used = directory_.UseOf(room.user).model_bytes +
                   engine().UploadedBytes(&room.user);
  return room;
}

void CoordinatorHost::ArtifactStored(v1::UploadArtifactHeader header,
                                     std::string worker, StatusCallback done) {
  CommitThenReply(
      [header = std::move(header), worker = std::move(worker)](
          Coordinator* coordinator, absl::Time now, Effects* effects) {
        return coordinator->ArtifactStored(header, worker, now, effects);
      },
      std::move(done));
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

}  // namespace comera::server
