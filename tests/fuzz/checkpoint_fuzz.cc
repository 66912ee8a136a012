// Fuzzes checkpoints: the file with its checksum, and the training state
// inside.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/state/checkpoint.h"

namespace {

class OneFile : public comera::trainer::CheckpointFiles {
 public:
  explicit OneFile(std::string contents) : contents_(std::move(contents)) {}
  absl::StatusOr<std::vector<std::string>> List() override {
    return std::vector<std::string>{"step-000000000007.checkpoint"};
  }
  absl::StatusOr<std::string> Read(const std::string& name) override {
    return contents_;
  }
  absl::Status Write(const std::string& name, std::string_view) override {
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& name) override {
    return absl::OkStatus();
  }

 private:
  const std::string contents_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using comera::trainer::TrainingState;
  comera::FuzzInput input(data, size);
  const bool with_checksum = input.Choose(2) == 1;
  const std::string bytes = input.Rest();
  if (with_checksum) {
    comera::trainer::CheckpointStore store(std::make_unique<OneFile>(bytes),
                                           {});
    store.LoadNewest("fingerprint").status().IgnoreError();
    return 0;
  }
  auto state = TrainingState::Parse(bytes);
  if (!state.ok()) return 0;
  auto written = state->Serialize();
  if (!written.ok() || !TrainingState::Parse(*written).ok()) {
    comera::FuzzFailure("a state that was read cannot be written");
  }
  return 0;
}
