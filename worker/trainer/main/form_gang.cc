// Joins the members of a job by NCCL or Gloo.
#include "worker/trainer/main/form_gang.h"

#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/rendezvous.h"
#if COMERA_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "worker/collective/nccl_communicator.h"
#include "worker/trainer/planning/model_plan.h"
#endif

namespace comera::trainer {
namespace {

// Members come when their data are open, some of them many minutes after
// others. The coordinator's watch sees a member that never comes, or that hangs
// in a collective while member 0 loads weights or exports; these limits are for
// when the coordinator is away.
constexpr absl::Duration kArrival = absl::Hours(12);
// How long a member that waits for others may not notice that it is to stop.
constexpr absl::Duration kStopInterval = absl::Milliseconds(200);
constexpr absl::Duration kCollective = absl::Minutes(15);

// What the members of a gang must have in common: how they deal samples, in
// which order they add, in the optimiser too, in how many pieces they sum their
// gradients, and how they connect. Raised with each change of these.
constexpr char kVersion[] = "5";
// Stands behind the version where a member's buckets are not the usual ones.
constexpr char kBuckets[] = " --bucket_mib=";

// Written by member 0, and by the coordinator passed to the workers of the gang
// alone.
constexpr char kGangKey[] = "gang-key";

// A rendezvous whose waits end with Cancelled soon after `stop`: another member
// may have ended before it wrote what it is waited for.
class StoppableRendezvous : public collective::Rendezvous {
 public:
  // `stop` outlives this.
  StoppableRendezvous(collective::FileRendezvous folder,
                      const std::atomic<bool>& stop)
      : folder_(std::move(folder)), stop_(stop) {}

  absl::Status Set(std::string_view key, std::string_view value) override {
    return folder_.Set(key, value);
  }
  absl::StatusOr<std::string> Get(std::string_view key,
                                  absl::Duration timeout) override {
    const absl::Time limit = SteadyNow() + timeout;
    while (true) {
      const absl::Duration left =
          std::max(limit - SteadyNow(), absl::ZeroDuration());
      absl::StatusOr<std::string> value =
          folder_.Get(key, std::min(left, kStopInterval));
      if (!absl::IsDeadlineExceeded(value.status())) return value;
      if (stop_.load()) {
        return absl::CancelledError(absl::StrCat(
            "stopped while \"", std::string(key), "\" was awaited"));
      }
      if (left <= kStopInterval) return value;
    }
  }

 private:
  collective::FileRendezvous folder_;
  const std::atomic<bool>& stop_;
};

// What a member says of itself.
std::string Greeting(int64_t bucket_mib) {
  if (bucket_mib == kUsualBucketMib) return kVersion;
  return absl::StrCat(kVersion, kBuckets, bucket_mib);
}

absl::Status AwaitAll(const TrainerTask& task, int64_t bucket_mib,
                      collective::Rendezvous* rendezvous) {
  const std::string own = Greeting(bucket_mib);
  RETURN_IF_ERROR(rendezvous->Set(absl::StrCat("here-", task.rank()), own));
  for (int rank = 0; rank < task.world_size(); ++rank) {
    ASSIGN_OR_RETURN(const std::string greeting,
                     rendezvous->Get(absl::StrCat("here-", rank), kArrival));
    if (greeting == own) continue;
    const std::string version = greeting.substr(0, greeting.find(kBuckets));
    if (version == kVersion) {
      return absl::UnavailableError(absl::StrCat(
          "member ", rank, " was started with another --bucket_mib than this ",
          "one (", bucket_mib, "): give all members of a gang the same"));
    }
    return absl::UnavailableError(absl::StrCat(
        "member ", rank, " runs another version of comera-trainer (gangs of ",
        version, ", here of ", kVersion,
        "): upgrade the workers that share a gang together"));
  }
  return absl::OkStatus();
}

// The key of this attempt's gang, which member 0 makes.
absl::StatusOr<std::string> GangKey(const TrainerTask& task,
                                    collective::Rendezvous* rendezvous) {
  if (task.rank() == 0) {
    std::string key(collective::GangTls::kKeyBytes, '\0');
    if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()),
                   static_cast<int>(key.size())) != 1) {
      return absl::InternalError(
          "RAND_bytes: no random bytes for a gang's key");
    }
    RETURN_IF_ERROR(rendezvous->Set(kGangKey, key));
    return key;
  }
  ASSIGN_OR_RETURN(const std::string key, rendezvous->Get(kGangKey, kArrival));
  if (key.size() != collective::GangTls::kKeyBytes) {
    return absl::UnavailableError(absl::StrCat(
        "rendezvous key \"", kGangKey, "\" holds ", key.size(),
        " bytes, not the ", collective::GangTls::kKeyBytes, " of a key"));
  }
  return key;
}

// Connections that leave the machine are TLS; on one machine, loopback is as
// safe as the memory that the members share.
absl::StatusOr<std::unique_ptr<collective::Communicator>> FormOnCpus(
    const TrainerTask& task, collective::Rendezvous* rendezvous) {
  collective::GlooOptions options;
  options.rank = task.rank();
  options.world_size = task.world_size();
  options.timeout = kCollective;
  if (!task.host().empty()) {
    options.host = task.host();
    ASSIGN_OR_RETURN(std::string key, GangKey(task, rendezvous));
    options.tls = collective::GangTls{std::move(key)};
  }
  return collective::CreateGlooCommunicator(options, rendezvous);
}

// NCCL has no authentication. So that nothing that is not of the gang is
// waited for or given the id of its communicator, members on several machines
// meet over TLS first; what NCCL itself listens on and sends is protected by
// the network alone (docs/deployment.md).
absl::Status ProveMembership(const TrainerTask& task,
                             collective::Rendezvous* rendezvous) {
  if (task.host().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto members, FormOnCpus(task, rendezvous));
  return members->Barrier();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> FormOnGpus(
    const TrainerTask& task, const kernels::Backend& backend,
    std::shared_ptr<collective::Rendezvous> rendezvous) {
#if COMERA_CUDA
  collective::NcclOptions options;
  options.rank = task.rank();
  options.world_size = task.world_size();
  options.timeout = kCollective;
  options.api = collective::CreateLinkedNcclApi(/*device=*/0);
  options.backend_stream = kernels::CudaStreamOf(backend);
  // Only gradients are reduced on the device.
  options.compress = task.spec().training().compress_gradients();
  return collective::CreateNcclCommunicator(options, std::move(rendezvous));
#else
  return absl::FailedPreconditionError(
      "resources.device: this comera-trainer was built without CUDA "
      "(--config=cuda), so it has no NCCL");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<collective::Communicator>> FormGang(
    const TrainerTask& task, const kernels::Backend& backend,
    int64_t bucket_mib, const std::atomic<bool>& stop) {
  if (task.world_size() == 1) {
    return std::unique_ptr<collective::Communicator>();
  }
  ASSIGN_OR_RETURN(collective::FileRendezvous folder,
                   collective::FileRendezvous::Open(task.rendezvous_dir()));
  const auto rendezvous =
      std::make_shared<StoppableRendezvous>(std::move(folder), stop);
  RETURN_IF_ERROR(AwaitAll(task, bucket_mib, rendezvous.get()));
  if (task.device() == v1::ResourceSpec::GPU) {
    RETURN_IF_ERROR(ProveMembership(task, rendezvous.get()));
    return FormOnGpus(task, backend, rendezvous);
  }
  return FormOnCpus(task, rendezvous.get());
}

}  // namespace comera::trainer
