// Fuzzes config.json of published models, whose weights a job is to start from.
// The first byte chooses the architecture of the job's model.
#include <string>

#include "common/json.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/model/config/config_json.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/weights/published_config.h"

namespace comera::trainer {
namespace {

// What files hold that nobody should see.
constexpr char kSecret[] = "hunter";

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

// A job's model; the seeds of the corpus are of its size.
ModelConfig JobsModel(bool llama) {
  ModelConfig config;
  config.family = v1::ModelSpec::CAUSAL_LM;
  config.architecture = llama ? v1::ModelSpec::LLAMA : v1::ModelSpec::GPT2;
  config.vocabulary = 30;
  config.layers = 2;
  config.hidden = 12;
  config.ffn = 20;
  config.heads = 3;
  config.kv_heads = llama ? 1 : 3;
  config.segments = 0;
  config.max_positions = 6;
  config.length = 5;
  config.tie_output = !llama;
  config.layer_norm_epsilon = 1e-5f;
  return config;
}

// A configuration of ours that was read is the same when it is written and read
// again.
void Ours(const std::string& text) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_object()) return;
  const absl::StatusOr<ModelConfig> config =
      ModelConfigFromJson(json.value("model", nlohmann::json()));
  if (!config.ok()) {
    Check(absl::IsDataLoss(config.status()), "not the file's error");
    return;
  }
  const nlohmann::json written = ModelConfigToJson(*config);
  const absl::StatusOr<ModelConfig> again = ModelConfigFromJson(written);
  Check(again.ok() && ModelConfigToJson(*again) == written,
        "a model that is another one when read again");
}

}  // namespace
}  // namespace comera::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::trainer;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  const bool llama = input.Choose(2) == 1;
  const std::string text = input.Rest();
  comera::NamedFuzzFile("config.json", text);
  const absl::Status status =
      CheckPublishedConfig(comera::FuzzFolder(), JobsModel(llama));
  Check(status.ok() || absl::IsInvalidArgument(status) ||
            absl::IsDataLoss(status),
        "not the file's error");
  Check(status.message().find(kSecret) == absl::string_view::npos,
        "an error that quotes the file");
  Ours(text);
  return 0;
}
