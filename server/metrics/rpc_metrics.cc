// Counts and times rpcs in an interceptor.
#include "server/metrics/rpc_metrics.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "server/metrics/buckets.h"

namespace comera::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using Clock = std::chrono::steady_clock;

constexpr char kPackage[] = "/comera.v1.";
constexpr char kUnknown[] = "unknown";
// OK to UNAUTHENTICATED.
constexpr size_t kCodes = 17;

std::string CodeName(size_t code) {
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

struct Families {
  explicit Families(prometheus::Registry* registry)
      : seconds(prometheus::BuildHistogram()
                    .Name("comera_rpc_seconds")
                    .Help("Duration of unary calls, by method and status code.")
                    .Register(*registry)),
        streams(prometheus::BuildCounter()
                    .Name("comera_rpc_streams_total")
                    .Help("Streams that ended, by method and status code.")
                    .Register(*registry)),
        open(prometheus::BuildGauge()
                 .Name("comera_rpc_streams_open")
                 .Help("Streams that are open, by method.")
                 .Register(*registry)) {}

  prometheus::Family<prometheus::Histogram>& seconds;
  prometheus::Family<prometheus::Counter>& streams;
  prometheus::Family<prometheus::Gauge>& open;
};

// One method's; metrics are made when they are first needed.
class Method {
 public:
  Method(Families* families, std::string name, bool stream)
      : families_(families),
        name_(std::move(name)),
        open_(stream ? &families->open.Add({{"method", name_}}) : nullptr) {}

  void Begin() {
    if (open_ != nullptr) open_->Increment();
  }

  void End(size_t code, Clock::duration took) {
    if (code >= kCodes) code = static_cast<size_t>(grpc::StatusCode::UNKNOWN);
    if (open_ != nullptr) {
      open_->Decrement();
      families_->streams.Add({{"method", name_}, {"code", CodeName(code)}})
          .Increment();
      return;
    }
    prometheus::Histogram* seconds = seconds_[code];
    if (seconds == nullptr) {
      seconds = &families_->seconds.Add(
          {{"method", name_}, {"code", CodeName(code)}}, CallBuckets());
      seconds_[code] = seconds;
    }
    seconds->Observe(std::chrono::duration<double>(took).count());
  }

 private:
  Families* const families_;
  const std::string name_;
  prometheus::Gauge* const open_;  // Null: unary.
  std::array<std::atomic<prometheus::Histogram*>, kCodes> seconds_ = {};
};

class Observer : public grpc::experimental::Interceptor {
 public:
  explicit Observer(Method* method) : method_(method) { method_->Begin(); }
  // A call may end without a status.
  ~Observer() override { End(grpc::StatusCode::CANCELLED); }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      // Before the caller has it, so that who looks then finds it counted.
      End(methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  void End(grpc::StatusCode code) {
    if (ended_) return;
    ended_ = true;
    method_->End(static_cast<size_t>(code), Clock::now() - begin_);
  }

  Method* const method_;
  const Clock::time_point begin_ = Clock::now();
  bool ended_ = false;
};

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(prometheus::Registry* registry) : families_(registry) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!absl::StartsWith(info->method(), kPackage)) return nullptr;
    return new Observer(
        Find(info->method(),
             info->type() != grpc::experimental::ServerRpcInfo::Type::UNARY));
  }

 private:
  Method* Find(const std::string& path, bool stream) {
    {
      std::shared_lock<std::shared_mutex> lock(mutex_);
      const auto it = methods_.find(path);
      if (it != methods_.end()) return it->second.get();
    }
    // "TrainingService.CancelJob". Only names that exist are kept: others can
    // be invented without end.
    std::string key = path;
    std::string name = absl::StrReplaceAll(
        std::string_view(path).substr(sizeof(kPackage) - 1).data(),
        {{"/", "."}});
    if (google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
            "comera.v1." + name) == nullptr) {
      key = name = kUnknown;
    }
    std::unique_lock<std::shared_mutex> lock(mutex_);
    std::unique_ptr<Method>& method = methods_[key];
    if (method == nullptr) {
      method = std::make_unique<Method>(&families_, name, stream);
    }
    return method.get();
  }

  Families families_;
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Method>> methods_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeRpcMetrics(prometheus::Registry* registry) {
  return std::make_unique<Factory>(registry);
}

}  // namespace comera::server
