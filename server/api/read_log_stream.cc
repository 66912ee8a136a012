// Streams a job's log, and follows it while it grows.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/api/training_streams.h"
#include "server/coordinator/job/job_index.h"
#include "server/host/loop_stream.h"

namespace comera::server {
namespace {

constexpr size_t kChunkBytes = 64 << 10;

class ReadLogStream : public LoopStream<v1::ReadLogResponse> {
 public:
  ReadLogStream(CoordinatorHost* host, std::shared_ptr<const Caller> caller,
                const v1::ReadLogRequest& request)
      : LoopStream(host, StillKnown(caller)),
        caller_(std::move(caller)),
        request_(request),
        attempt_(request.attempt()),
        offset_(request.offset()) {}

 private:
  std::shared_ptr<ReadLogStream> Self() {
    return std::static_pointer_cast<ReadLogStream>(shared_from_this());
  }

  void Begin() override {
    if (!ParseJobName(request_.name())) {
      return End(InvalidField("name", "must be jobs/{job}"));
    }
    if (request_.rank() < 0) {
      return End(InvalidField("rank", "must not be negative"));
    }
    if (request_.attempt() < 0) {
      return End(InvalidField("attempt", "must not be negative"));
    }
    if (request_.offset() < 0) {
      return End(InvalidField("offset", "must not be negative"));
    }
    const JobDirectory::Entry* entry = host().directory().Find(request_.name());
    if (entry == nullptr) {
      return End(absl::NotFoundError(absl::StrCat("no job ", request_.name())));
    }
    const absl::Status status =
        caller_->Check(Permission::kView, entry->job->spec().queue());
    if (!status.ok()) return End(status);
    std::weak_ptr<ReadLogStream> weak = Self();
    listener_ = host().AddListener(request_.name(), [weak] {
      if (auto self = weak.lock()) self->Wake();
    });
  }

  void Next() override {
    if (reading_) return;
    const JobDirectory::Entry* entry = host().directory().Find(request_.name());
    if (entry == nullptr) {
      return End(absl::NotFoundError(
          absl::StrCat(request_.name(), " is not kept any more")));
    }
    const v1::Job& job = *entry->job;
    // The newest attempt, once there is one.
    if (attempt_ == 0) attempt_ = job.attempt();
    const bool final = IsFinal(job.state());
    const int64_t changes = host().Changes(request_.name());
    if (changes == seen_changes_ && !more_) return;
    more_ = false;
    reading_ = true;
    host().ReadLog(
        request_.name(), attempt_, request_.rank(), offset_, kChunkBytes,
        [self = Self(), changes, final](absl::StatusOr<std::string> data) {
          self->reading_ = false;
          self->Take(std::move(data), changes, final);
        });
  }

  // `changes` and `final` are from before the read.
  void Take(absl::StatusOr<std::string> data, int64_t changes, bool final) {
    if (ended()) return;
    const bool waits = request_.follow() && !final;
    if (!data.ok() && !(absl::IsNotFound(data.status()) && waits)) {
      if (!absl::IsNotFound(data.status())) return End(data.status());
      return End(absl::NotFoundError(
          absl::StrCat("member ", request_.rank(), " of ", request_.name(),
                       " has no log of attempt ", attempt_)));
    }
    if (data.ok() && !data->empty()) {
      v1::ReadLogResponse response;
      response.set_offset(offset_);
      response.set_attempt(attempt_);
      offset_ += static_cast<int64_t>(data->size());
      response.set_data(*std::move(data));
      more_ = true;
      return Write(std::move(response));
    }
    if (!waits) return End(absl::OkStatus());
    seen_changes_ = changes;
    Wake();
  }

  void Close() override {
    if (listener_ != 0) host().RemoveListener(request_.name(), listener_);
  }

  const std::shared_ptr<const Caller> caller_;
  const v1::ReadLogRequest request_;
  int64_t attempt_;
  int64_t offset_;
  int64_t listener_ = 0;
  bool reading_ = false;
  // The job's changes before the last read that found nothing new.
  int64_t seen_changes_ = -1;
  // There may be more behind what was sent.
  bool more_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::ReadLogResponse>* StartReadLog(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller,
    const v1::ReadLogRequest& request) {
  return ReadLogStream::Start(
      std::make_shared<ReadLogStream>(host, std::move(caller), request));
}

}  // namespace comera::server
