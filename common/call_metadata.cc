// Adds metadata to the calls of a channel, and reads it on the other side.

#include "common/call_metadata.h"

#include <iterator>
#include <utility>

namespace comera {
namespace {

class Adder : public grpc::experimental::Interceptor {
 public:
  Adder(std::string key, std::string value)
      : key_(std::move(key)), value_(std::move(value)) {}

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::
                PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(key_, value_);
    }
    methods->Proceed();
  }

 private:
  const std::string key_, value_;
};

class AdderFactory
    : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  AdderFactory(std::string key, std::string value)
      : key_(std::move(key)), value_(std::move(value)) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new Adder(key_, value_);
  }

 private:
  const std::string key_, value_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
MakeMetadataAdder(std::string key, std::string value) {
  return std::make_unique<AdderFactory>(std::move(key), std::move(value));
}

std::string MetadataOf(const grpc::ServerContextBase& context,
                       const std::string& key) {
  const auto range = context.client_metadata().equal_range(key);
  if (range.first == range.second || std::next(range.first) != range.second) {
    return "";
  }
  return std::string(range.first->second.data(), range.first->second.size());
}

}  // namespace comera
