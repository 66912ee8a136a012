#ifndef COMERA_TESTS_E2E_CHAOS_TERM_CLIENT_H_
#define COMERA_TESTS_E2E_CHAOS_TERM_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comera/v1/training_service.grpc.pb.h"
#include "tests/e2e/chaos/evidence.h"
#include "worker/session/leader_fence.h"

namespace comera::e2e {

// Asks each coordinator on its own and keeps in which leadership it answered:
// once directly, and once through the fence by which workers refuse the answers
// of a leader that was replaced. Not thread-safe.
class TermClient {
 public:
  // `fence_path`: where the fence keeps its number.
  TermClient(const std::vector<std::string>& coordinators,
             const std::string& fence_path);

  // Asks the coordinator of that number; takes seconds at most.
  void Ask(size_t coordinator);
  // The answers so far, oldest first.
  const std::vector<Answer>& answers() const { return answers_; }

 private:
  using Stub = v1::TrainingService::Stub;
  struct Source {
    std::string address;
    std::unique_ptr<Stub> direct, fenced;
  };
  // Returns whether it answered.
  bool Ask(const Source& source, bool fenced, int64_t* newest);

  const std::shared_ptr<worker::LeaderFence> fence_;
  std::vector<Source> sources_;
  // The highest number received so far, in either way.
  int64_t newest_direct_ = 0, newest_fenced_ = 0;
  std::vector<Answer> answers_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_TERM_CLIENT_H_
