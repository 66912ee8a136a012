// Asks a coordinator's health service, whose messages come without headers.
#include "tests/e2e/chaos/writes_health.h"

#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(1);
constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// HealthCheckRequest{service: "comera.v1.Writes"}.
constexpr char kRequest[] =
    "\x0a\x10"
    "comera.v1.Writes";
// HealthCheckResponse{status: SERVING}.
constexpr char kServing[] = "\x08\x01";

}  // namespace

bool SaysWritable(const std::string& address) {
  grpc::GenericStub stub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
  grpc::CompletionQueue queue;
  const grpc::Slice text{std::string(kRequest)};
  const auto call = stub.PrepareUnaryCall(&context, kMethod,
                                          grpc::ByteBuffer(&text, 1), &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->StartCall();
  call->Finish(&answer, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !answer.Dump(&slices).ok()) return false;
  std::string said;
  for (const grpc::Slice& slice : slices) {
    said.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return said == kServing;
}

}  // namespace comera::e2e
