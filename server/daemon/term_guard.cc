// Stamps answers with the leadership's number and withholds those that come too
// late.
#include "server/daemon/term_guard.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/coordinator_address.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(int64_t term, std::function<bool()> holds)
      : term_(absl::StrCat(term)), holds_(std::move(holds)) {}

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
        methods->GetSendTrailingMetadata()->emplace(kTermMetadata,
                                                    factory_.term_);
        if (!factory_.holds_()) {
          methods->ModifySendStatus(ToRpcStatus(absl::UnavailableError(
              "this coordinator no longer leads: ask again")));
        }
      }
      methods->Proceed();
    }

   private:
    const Factory& factory_;
  };

  const std::string term_;
  const std::function<bool()> holds_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeTermGuard(int64_t term, std::function<bool()> holds) {
  return std::make_unique<Factory>(term, std::move(holds));
}

}  // namespace comera::server
