// Compares the term of each answer with the highest one seen.
#include "worker/session/leader_fence.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/coordinator_address.h"
#include "common/files.h"
#include "common/log.h"

namespace comera::worker {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

constexpr size_t kMaxName = 64;

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The value of the key; empty: none.
std::string Value(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end()
             ? ""
             : std::string(found->second.data(), found->second.size());
}

// Whether it may be the name of a cluster, as it is to stand in the file.
bool IsName(const std::string& text) {
  return !text.empty() && text.size() <= kMaxName &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

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
    int64_t term = 0;
    if (!absl::SimpleAtoi(Value(*metadata, kTermMetadata), &term)) return;
    const std::string cluster = Value(*metadata, kClusterMetadata);
    if (fence_->Admit(term, IsName(cluster) ? cluster : "")) return;
    LOG(WARNING) << "event=answer_refused term=" << term
                 << " text=\"the coordinator that gave it was replaced\"";
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
  if (!text.ok()) return;
  // "TERM CLUSTER"; files of earlier versions have no cluster.
  const std::vector<std::string> words = absl::StrSplit(
      absl::StripAsciiWhitespace(*text), absl::MaxSplits(' ', 1));
  int64_t term = 0;
  if (!absl::SimpleAtoi(words[0], &term)) return;
  highest_ = term;
  if (words.size() > 1 && IsName(words[1])) cluster_ = words[1];
}

bool LeaderFence::Admit(int64_t term, const std::string& cluster) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool moved =
      !cluster.empty() && !cluster_.empty() && cluster != cluster_;
  if (term < highest_ && !moved) return false;
  const std::string named = cluster.empty() ? cluster_ : cluster;
  if (term == highest_ && named == cluster_) return true;
  if (moved) {
    LOG(WARNING) << "event=moved_to_cluster cluster=" << cluster
                 << " from=" << cluster_;
  }
  highest_ = term;
  cluster_ = named;
  const absl::Status written =
      WriteFileAtomically(path_, absl::StrCat(term, " ", cluster_, "\n"));
  LOG_IF(WARNING, !written.ok())
      << "event=term_not_kept status=\"" << written << "\"";
  return true;
}

std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>
MakeLeaderFence(std::shared_ptr<LeaderFence> fence) {
  return std::make_unique<Factory>(std::move(fence));
}

}  // namespace comera::worker
