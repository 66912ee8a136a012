// Collectives between GPUs by NCCL.
#include "worker/collective/nccl_communicator.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/collective/nccl_connection.h"

namespace comera::collective {
namespace {

// What goes through the device at a time, for values in memory of the host.
constexpr int64_t kStageBytes = int64_t{4} << 20;

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(const NcclOptions& options)
      : options_(options), api_(*options.api) {}
  // Order: the connection first, which ends what uses the memory.
  ~NcclCommunicator() override;
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous);

  int rank() const override { return options_.rank; }
  int world_size() const override { return options_.world_size; }
  bool on_device() const override { return true; }

  absl::Status AllReduce(absl::Span<float> values) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Barrier() override;
  absl::Status EnqueueAllReduce(absl::Span<float> values,
                                size_t exact_tail) override;
  absl::Status JoinAllReduces() override;
  absl::Status Replayed(int64_t all_reduces) override;

  void Abort() override { connection_->Abort(); }
  int64_t collectives_done() const override {
    return connection_->collectives_done();
  }

 private:
  // One collective over `bytes` of the host, piece by piece through the device.
  // `send`: this member's bytes go to the device; `receive`: they come back.
  absl::Status Staged(
      absl::Span<char> bytes, bool send, bool receive,
      const std::function<absl::Status(NcclApi::Comm, int64_t piece)>&
          collective);
  absl::Status Sum(void* values, int64_t count, NcclApi::Type type,
                   NcclApi::Comm comm);
  // On stream_, in place.
  absl::Status Reduce(absl::Span<float> values, size_t exact_tail,
                      NcclApi::Comm comm);
  // Room for `count` bfloat16.
  absl::Status ReserveCompressed(int64_t count, bool capturing);

  const NcclOptions options_;
  NcclApi& api_;
  std::unique_ptr<NcclConnection> connection_;
  NcclApi::Stream stream_ = nullptr;
  NcclApi::Event before_ = nullptr, after_ = nullptr;
  // An all-reduce was enqueued since the last JoinAllReduces.
  bool unjoined_ = false;
  void* device_ = nullptr;  // kStageBytes each
  void* host_ = nullptr;
  // The last has room for compressed_count_ bfloat16. The others were outgrown,
  // and stay for sums on their way and for graphs that were recorded with them.
  std::vector<void*> compressed_;
  int64_t compressed_count_ = 0;
};

absl::Status NcclCommunicator::Start(std::shared_ptr<Rendezvous> rendezvous) {
  ASSIGN_OR_RETURN(stream_, api_.CreateStream());
  ASSIGN_OR_RETURN(before_, api_.CreateEvent());
  ASSIGN_OR_RETURN(after_, api_.CreateEvent());
  ASSIGN_OR_RETURN(device_, api_.AllocateDevice(kStageBytes));
  ASSIGN_OR_RETURN(host_, api_.AllocateHost(kStageBytes));
  ASSIGN_OR_RETURN(connection_,
                   NcclConnection::Connect(options_, std::move(rendezvous)));
  return absl::OkStatus();
}

NcclCommunicator::~NcclCommunicator() {
  connection_.reset();
  for (void* memory : compressed_) api_.FreeDevice(memory);
  if (host_ != nullptr) api_.FreeHost(host_);
  if (device_ != nullptr) api_.FreeDevice(device_);
  if (after_ != nullptr) api_.DestroyEvent(after_);
  if (before_ != nullptr) api_.DestroyEvent(before_);
  if (stream_ != nullptr) api_.DestroyStream(stream_);
}

absl::Status NcclCommunicator::Staged(
    absl::Span<char> bytes, bool send, bool receive,
    const std::function<absl::Status(NcclApi::Comm, int64_t)>& collective) {
  RETURN_IF_ERROR(connection_->Begin());
  const auto total = static_cast<int64_t>(bytes.size());
  int64_t at = 0;
  do {
    const int64_t piece = std::min(kStageBytes, total - at);
    char* const own = bytes.data() + at;
    at += piece;
    if (send && piece > 0) std::memcpy(host_, own, piece);
    ASSIGN_OR_RETURN(
        const int64_t ticket,
        connection_->Enqueue(
            [&](NcclApi::Comm comm) -> absl::Status {
              if (piece == 0) return absl::OkStatus();
              if (send) {
                RETURN_IF_ERROR(api_.CopyAsync(device_, host_, piece, stream_));
              }
              RETURN_IF_ERROR(collective(comm, piece));
              if (!receive) return absl::OkStatus();
              return api_.CopyAsync(host_, device_, piece, stream_);
            },
            stream_, /*last=*/at == total));
    RETURN_IF_ERROR(connection_->Wait(ticket));
    if (receive && piece > 0) std::memcpy(own, host_, piece);
  } while (at < total);
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Sum(void* values, int64_t count,
                                   NcclApi::Type type, NcclApi::Comm comm) {
  return connection_->AwaitAccepted(
      comm, api_.AllReduceSum(values, count, type, comm, stream_),
      "ncclAllReduce");
}

absl::Status NcclCommunicator::AllReduce(absl::Span<float> values) {
  return Staged(absl::MakeSpan(reinterpret_cast<char*>(values.data()),
                               values.size() * sizeof(float)),
                /*send=*/true, /*receive=*/true,
                [this](NcclApi::Comm comm, int64_t piece) {
                  return Sum(device_,
                             piece / static_cast<int64_t>(sizeof(float)),
                             NcclApi::Type::kFloat32, comm);
                });
}

absl::Status NcclCommunicator::Broadcast(absl::Span<char> bytes, int root) {
  if (root < 0 || root >= world_size()) {
    return connection_->Refuse(
        absl::InvalidArgumentError(absl::StrCat("no rank ", root)));
  }
  return Staged(bytes, /*send=*/rank() == root, /*receive=*/rank() != root,
                [this, root](NcclApi::Comm comm, int64_t piece) {
                  return connection_->AwaitAccepted(
                      comm, api_.Broadcast(device_, piece, root, comm, stream_),
                      "ncclBroadcast");
                });
}

absl::Status NcclCommunicator::Barrier() {
  float nothing = 0;
  return AllReduce(absl::MakeSpan(&nothing, 1));
}

absl::Status NcclCommunicator::ReserveCompressed(int64_t count,
                                                 bool capturing) {
  if (count <= compressed_count_) return absl::OkStatus();
  if (capturing) {
    return absl::FailedPreconditionError(
        "the first all-reduce of this size must not be recorded in a graph");
  }
  ASSIGN_OR_RETURN(void* const memory, api_.AllocateDevice(count * 2));
  compressed_.push_back(memory);
  compressed_count_ = count;
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Reduce(absl::Span<float> values,
                                      size_t exact_tail, NcclApi::Comm comm) {
  const auto count = static_cast<int64_t>(values.size());
  const int64_t exact =
      options_.compress ? std::min(static_cast<int64_t>(exact_tail), count)
                        : count;
  const int64_t rounded = count - exact;
  if (rounded > 0) {
    void* const bf16 = compressed_.back();
    RETURN_IF_ERROR(api_.ToBfloat16(values.data(), bf16, rounded, stream_));
    RETURN_IF_ERROR(Sum(bf16, rounded, NcclApi::Type::kBfloat16, comm));
    RETURN_IF_ERROR(api_.FromBfloat16(bf16, values.data(), rounded, stream_));
  }
  if (exact == 0) return absl::OkStatus();
  return Sum(values.data() + rounded, exact, NcclApi::Type::kFloat32, comm);
}

absl::Status NcclCommunicator::EnqueueAllReduce(absl::Span<float> values,
                                                size_t exact_tail) {
  const absl::StatusOr<bool> capturing =
      api_.IsCapturing(options_.backend_stream);
  if (!capturing.ok()) return connection_->Refuse(capturing.status());
  if (options_.compress) {
    const absl::Status room = ReserveCompressed(values.size(), *capturing);
    if (!room.ok()) return *capturing ? room : connection_->Refuse(room);
  }
  const auto calls = [&](NcclApi::Comm comm) -> absl::Status {
    if (values.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(api_.RecordEvent(before_, options_.backend_stream));
    RETURN_IF_ERROR(api_.StreamWaitEvent(stream_, before_));
    unjoined_ = true;
    return Reduce(values, exact_tail, comm);
  };
  if (*capturing) return connection_->Record(calls);
  RETURN_IF_ERROR(connection_->Begin());
  return connection_->Enqueue(calls, stream_, /*last=*/true).status();
}

absl::Status NcclCommunicator::JoinAllReduces() {
  if (!unjoined_) return connection_->error();
  unjoined_ = false;
  const absl::StatusOr<bool> capturing =
      api_.IsCapturing(options_.backend_stream);
  if (!capturing.ok()) return connection_->Refuse(capturing.status());
  absl::Status status = api_.RecordEvent(after_, stream_);
  if (status.ok()) {
    status = api_.StreamWaitEvent(options_.backend_stream, after_);
  }
  if (!status.ok()) return *capturing ? status : connection_->Refuse(status);
  return connection_->error();
}

absl::Status NcclCommunicator::Replayed(int64_t all_reduces) {
  if (all_reduces < 1) return connection_->error();
  RETURN_IF_ERROR(connection_->Begin(all_reduces));
  return connection_
      ->Enqueue([](NcclApi::Comm) { return absl::OkStatus(); },
                options_.backend_stream, /*last=*/true)
      .status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(
    const NcclOptions& options, std::shared_ptr<Rendezvous> rendezvous) {
  if (options.world_size < 1 || options.rank < 0 ||
      options.rank >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.world_size));
  }
  if (options.timeout < absl::Milliseconds(1) ||
      options.connect_timeout < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError("time-outs must be at least 1 ms");
  }
  if (options.api == nullptr || rendezvous == nullptr) {
    return absl::InvalidArgumentError("NCCL needs its api and a rendezvous");
  }
  auto communicator = std::make_unique<NcclCommunicator>(options);
  RETURN_IF_ERROR(communicator->Start(std::move(rendezvous)));
  return communicator;
}

}  // namespace comera::collective
