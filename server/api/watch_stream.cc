// Streams a job's state and then its events.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/resource_names.h"
#include "server/api/training_streams.h"
#include "server/host/loop_stream.h"

namespace comera::server {
namespace {

constexpr int kBackfillPage = 200;

class WatchStream : public LoopStream<v1::WatchJobResponse> {
 public:
  WatchStream(CoordinatorHost* host, std::shared_ptr<const Caller> caller,
              const v1::WatchJobRequest& request)
      : LoopStream(host, StillKnown(caller)),
        caller_(std::move(caller)),
        request_(request) {}

 private:
  std::shared_ptr<WatchStream> Self() {
    return std::static_pointer_cast<WatchStream>(shared_from_this());
  }

  void Begin() override {
    if (!ParseJobName(request_.name())) {
      return End(InvalidField("name", "must be jobs/{job}"));
    }
    if (request_.after_sequence() < 0) {
      return End(InvalidField("after_sequence", "must not be negative"));
    }
    const JobDirectory::Entry* entry = host().directory().Find(request_.name());
    if (entry == nullptr) {
      return End(absl::NotFoundError(absl::StrCat("no job ", request_.name())));
    }
    const absl::Status status =
        caller_->Check(Permission::kView, entry->job->spec().queue());
    if (!status.ok()) return End(status);
    std::weak_ptr<WatchStream> weak = Self();
    auto wake = [weak] {
      if (auto self = weak.lock()) self->Wake();
    };
    subscription_ = host().hub().Subscribe(*entry->job, entry->last_sequence,
                                           request_.after_sequence(), wake);
    listener_ = host().AddListener("", wake);
  }

  void Next() override {
    if (std::optional<v1::WatchJobResponse> item = subscription_->Pop()) {
      return Write(*std::move(item), /*more=*/!subscription_->Idle());
    }
    if (subscription_->NeedsBackfill()) return ReadPage();
    if (subscription_->Finished()) End(absl::OkStatus());
  }

  void ReadPage() {
    if (reading_) return;
    reading_ = true;
    host().store()->ReadEvents(
        request_.name(), subscription_->backfill_after(),
        subscription_->backfill_last(), kBackfillPage,
        [self = Self()](absl::StatusOr<std::vector<v1::JobEvent>> events) {
          self->host().loop().Post([self, events = std::move(events)] {
            self->reading_ = false;
            if (self->ended()) return;
            if (!events.ok()) return self->End(events.status());
            self->subscription_->AddBackfill(*events);
            self->Wake();
          });
        });
  }

  void Close() override {
    subscription_.reset();
    if (listener_ != 0) host().RemoveListener("", listener_);
  }

  const std::shared_ptr<const Caller> caller_;
  const v1::WatchJobRequest request_;
  std::unique_ptr<Subscription> subscription_;
  int64_t listener_ = 0;
  bool reading_ = false;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchJobResponse>* StartWatch(
    CoordinatorHost* host, std::shared_ptr<const Caller> caller,
    const v1::WatchJobRequest& request) {
  return WatchStream::Start(
      std::make_shared<WatchStream>(host, std::move(caller), request));
}

}  // namespace comera::server
