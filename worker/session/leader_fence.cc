// Compares the term of each answer with the highest one seen.
#include "worker/session/leader_fence.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/coordinator_address.h"
#include "common/files.h"
#include "common/log.h"

namespace comera::worker {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

class Interceptor : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(LeaderFence* fence) : fence_(fence) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_STATUS)) {
      Check(methods);
    }
    methods->Proceed();
  }

 private:
  void Check(InterceptorBatchMethods* methods) {
    const auto* metadata = methods->GetRecvTrailingMetadata();
    if (metadata == nullptr) return;
    const auto found = metadata->find(kTermMetadata);
    int64_t term = 0;
    if (found == metadata->end() ||
        !absl::SimpleAtoi(
            absl::string_view(found->second.data(), found->second.size()),
            &term) ||
        fence_->Admit(term)) {
      return;
    }
    LOG(WARNING) << "event=answer_refused term=" << term
                 << " text=\"the coordinator that gave it was replaced; if "
                    "this worker was moved here from another cluster, stop it "
                    "and remove leader_term from its --data_dir\"";
    *methods->GetRecvStatus() =
        grpc::Status(grpc::StatusCode::UNAVAILABLE,
                     "the coordinator that answered no longer leads");
  }

  LeaderFence* const fence_;
};

class Factory : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit Factory(std::shared_ptr<LeaderFence> fence)
      : fence_(std::move(fence)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Interceptor(fence_.get());
  }

 private:
  const std::shared_ptr<LeaderFence> fence_;
};

}  // namespace

LeaderFence::LeaderFence(std::string path) : path_(std::move(path)) {
  const auto text = ReadFile(path_);
  int64_t term = 0;
  if (text.ok() && absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &term)) {
    highest_ = term;
  }
}

bool LeaderFence::Admit(int64_t term) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (term <= highest_) return term == highest_;
  highest_ = term;
  const absl::Status written =
      WriteFileAtomically(path_, absl::StrCat(term, "\n"));
  LOG_IF(WARNING, !written.ok())
      << "event=term_not_kept status=\"" << written << "\"";
  return true;
}

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
MakeLeaderFence(std::shared_ptr<LeaderFence> fence) {
  return std::make_unique<Factory>(std::move(fence));
}

}  // namespace comera::worker
