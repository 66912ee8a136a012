// Reads the number of the leadership in the trailing metadata of answers.
#include "tests/e2e/chaos/term_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/coordinator_address.h"
#include "grpcpp/grpcpp.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(1);

}  // namespace

TermClient::TermClient(const std::vector<std::string>& coordinators,
                       const std::string& fence_path)
    : fence_(std::make_shared<worker::LeaderFence>(fence_path)) {
  using Interceptors = std::vector<
      std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>;
  for (const std::string& address : coordinators) {
    Interceptors fence;
    fence.push_back(worker::MakeLeaderFence(fence_));
    Source& source = sources_.emplace_back();
    source.address = address;
    source.direct = v1::TrainingService::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    source.fenced = v1::TrainingService::NewStub(
        grpc::experimental::CreateCustomChannelWithInterceptors(
            address, grpc::InsecureChannelCredentials(),
            grpc::ChannelArguments(), std::move(fence)));
  }
}

void TermClient::Ask(size_t coordinator) {
  const Source& source = sources_[coordinator];
  // One that stands still is not waited for twice.
  if (!Ask(source, /*fenced=*/false, &newest_direct_)) return;
  Ask(source, /*fenced=*/true, &newest_fenced_);
}

bool TermClient::Ask(const Source& source, bool fenced, int64_t* newest) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
  v1::ListJobsRequest request;
  request.set_page_size(1);
  v1::ListJobsResponse response;
  // It goes out after all answers that were received so far.
  Answer answer{source.address, 0, *newest, fenced};
  Stub& stub = fenced ? *source.fenced : *source.direct;
  if (!stub.ListJobs(&context, request, &response).ok()) return false;
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto term = metadata.find(kTermMetadata);
  // A coordinator that follows answers by what is stored, in no leadership.
  if (term == metadata.end() ||
      !absl::SimpleAtoi(
          absl::string_view(term->second.data(), term->second.size()),
          &answer.term)) {
    return true;
  }
  *newest = std::max(*newest, answer.term);
  answers_.push_back(std::move(answer));
  return true;
}

}  // namespace comera::e2e
