// Joins the members of a job by NCCL or Gloo.
#include "worker/trainer/main/form_gang.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "worker/collective/gloo_communicator.h"
#include "worker/collective/rendezvous.h"
#if COMERA_CUDA
#include "kernels/cuda/cuda_backend.h"
#include "worker/collective/nccl_communicator.h"
#endif

namespace comera::trainer {
namespace {

// Members come when their data are open, some of them many minutes after
// others. The coordinator's watch sees a member that never comes, or that hangs
// in a collective while member 0 loads weights or exports; these limits are for
// when the coordinator is away.
constexpr absl::Duration kArrival = absl::Hours(12);
constexpr absl::Duration kCollective = absl::Minutes(15);

absl::Status AwaitAll(const TrainerTask& task,
                      collective::FileRendezvous* rendezvous) {
  RETURN_IF_ERROR(rendezvous->Set(absl::StrCat("here-", task.rank()), "1"));
  for (int rank = 0; rank < task.world_size(); ++rank) {
    RETURN_IF_ERROR(
        rendezvous->Get(absl::StrCat("here-", rank), kArrival).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> FormOnGpus(
    const TrainerTask& task, const kernels::Backend& backend,
    collective::FileRendezvous rendezvous) {
#if COMERA_CUDA
  collective::NcclOptions options;
  options.rank = task.rank();
  options.world_size = task.world_size();
  options.timeout = kCollective;
  options.api = collective::CreateLinkedNcclApi(/*device=*/0);
  options.backend_stream = kernels::CudaStreamOf(backend);
  return collective::CreateNcclCommunicator(
      options,
      std::make_shared<collective::FileRendezvous>(std::move(rendezvous)));
#else
  return absl::FailedPreconditionError(
      "resources.device: this comera-trainer was built without CUDA "
      "(--config=cuda), so it has no NCCL");
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<collective::Communicator>> FormGang(
    const TrainerTask& task, const kernels::Backend& backend) {
  if (task.world_size() == 1) {
    return std::unique_ptr<collective::Communicator>();
  }
  ASSIGN_OR_RETURN(collective::FileRendezvous rendezvous,
                   collective::FileRendezvous::Open(task.rendezvous_dir()));
  RETURN_IF_ERROR(AwaitAll(task, &rendezvous));
  if (task.device() == v1::ResourceSpec::GPU) {
    return FormOnGpus(task, backend, std::move(rendezvous));
  }
  collective::GlooOptions options;
  options.rank = task.rank();
  options.world_size = task.world_size();
  options.timeout = kCollective;
  if (!task.host().empty()) options.host = task.host();
  return collective::CreateGlooCommunicator(options, &rendezvous);
}

}  // namespace comera::trainer
