// Stamps answers with the leadership's number and withholds those that come too
// late.
#include "server/daemon/term_guard.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/coordinator_address.h"
#include "server/daemon/no_answer.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(int64_t term, std::string cluster, std::function<bool()> holds,
          std::function<bool()> leaves)
      : term_(absl::StrCat(term)),
        cluster_(std::move(cluster)),
        holds_(std::move(holds)),
        leaves_(std::move(leaves)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new Guard(this);
  }

 private:
  class Guard : public grpc::experimental::Interceptor {
   public:
    explicit Guard(const Factory* factory) : factory_(*factory) {}

    void Intercept(InterceptorBatchMethods* methods) override {
      if (methods->QueryInterceptionHookPoint(
              InterceptionHookPoints::PRE_SEND_STATUS)) {
        auto* const metadata = methods->GetSendTrailingMetadata();
        metadata->emplace(kTermMetadata, factory_.term_);
        metadata->emplace(kClusterMetadata, factory_.cluster_);
        if (!factory_.holds_()) {
          metadata->emplace(kNoAnswerMetadata, kWithheld);
          methods->ModifySendStatus(ToRpcStatus(absl::UnavailableError(
              "this coordinator no longer leads: ask again")));
        } else if (factory_.leaves_() &&
                   methods->GetSendStatus().error_code() ==
                       grpc::StatusCode::UNAVAILABLE) {
          metadata->emplace(kNoAnswerMetadata, kWithheld);
        }
      }
      methods->Proceed();
    }

   private:
    const Factory& factory_;
  };

  const std::string term_;
  const std::string cluster_;
  const std::function<bool()> holds_;
  const std::function<bool()> leaves_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTermGuard(int64_t term, std::string cluster, std::function<bool()> holds,
              std::function<bool()> leaves) {
  return std::make_unique<Factory>(term, std::move(cluster), std::move(holds),
                                   std::move(leaves));
}

}  // namespace comera::server
