// Compares our language models with the published ones: logits, loss,
// gradients, and the parameters after steps of AdamW.

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/golden/decoder_run.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/model_checks.h"
#include "tests/golden/published_decoder.h"

namespace comera::golden {
namespace {

using Values = std::vector<float>;

constexpr double kTolerance = 1e-5;
// AdamW's steps amplify the rounding of gradients that are near zero. How far a
// run of the published code in float32 strays from the file's numbers measures
// that; so many times as far is allowed.
constexpr double kStrays = 5;
// A key's bias has no gradient (softmax is invariant to a constant), so that
// both sides hold rounding noise there, which is measured against this share of
// the largest gradient.
constexpr double kNoiseFloor = 1e-2;

bool IsKeyBias(const trainer::Parameter& p) {
  return absl::EndsWith(p.name, ".attention.key.bias");
}

Values Slice(const Values& values, const trainer::Parameter& p) {
  return {values.begin() + p.offset, values.begin() + p.offset + p.size};
}

// One file's model, parameters and comparisons.
class DecoderCheck {
 public:
  DecoderCheck(const Safetensors* file, Report* report)
      : file_(*file), report_(report) {}

  absl::Status Run(kernels::Backend* backend) {
    ASSIGN_OR_RETURN(config_, PublishedDecoderConfig(file_));
    ASSIGN_OR_RETURN(batch_, PublishedDecoderBatch(file_, "", 0));
    ASSIGN_OR_RETURN(run_, DecoderRun::Create(config_, batch_.size, backend));
    ASSIGN_OR_RETURN(const Values parameters, Published(""));
    RETURN_IF_ERROR(run_->SetParameters(parameters));
    RETURN_IF_ERROR(CompareLogits());
    RETURN_IF_ERROR(CompareGradients());
    if (file_.tensors().count("steps.loss") == 0) return absl::OkStatus();
    return CompareSteps();
  }

 private:
  absl::StatusOr<Values> Published(const std::string& prefix) {
    return PublishedDecoderValues(file_, prefix, config_, run_->layout());
  }

  // At every token but padding, whether it has a label or not.
  absl::Status CompareLogits() {
    ASSIGN_OR_RETURN(const Values ours, run_->Logits(batch_));
    ASSIGN_OR_RETURN(const Values published, file_.GetFloat("logits"));
    if (published.size() != batch_.mask.size() * config_.vocabulary) {
      return absl::DataLossError("logits: not (B, T, vocabulary)");
    }
    Values kept;
    for (size_t row = 0; row < batch_.mask.size(); ++row) {
      if (batch_.mask[row] == 0) continue;
      const Values logits =
          Part(published, static_cast<int64_t>(row), config_.vocabulary);
      kept.insert(kept.end(), logits.begin(), logits.end());
    }
    report_->CompareTensor("logits", ours, kept, kTolerance);
    return absl::OkStatus();
  }

  // The published gradient is that of the mean.
  absl::Status CompareGradients() {
    ASSIGN_OR_RETURN(const trainer::LossTotals totals,
                     run_->AddGradients(batch_));
    ASSIGN_OR_RETURN(Values ours, run_->Gradients());
    ASSIGN_OR_RETURN(const Values published, Published("grad."));
    ASSIGN_OR_RETURN(const Values loss, file_.GetFloat("loss"));
    report_->Check("labels",
                   totals.labels == static_cast<double>(batch_.labels.size()),
                   absl::StrCat(totals.labels, " of ", batch_.labels.size()));
    report_->CompareTensor(
        "loss", {static_cast<float>(totals.loss_sum / totals.labels)}, loss,
        kTolerance);
    double largest = 0;
    for (float& g : ours) g = static_cast<float>(g / totals.labels);
    for (float g : published) {
      largest = std::max(largest, std::fabs(double{g}));
    }
    for (const trainer::Parameter& p : run_->layout().parameters()) {
      report_->CompareTensor(absl::StrCat("grad.", p.name), Slice(ours, p),
                             Slice(published, p), kTolerance,
                             IsKeyBias(p) ? kNoiseFloor * largest : 0);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<trainer::AdamWOptions> ReadOptimizer() {
    ASSIGN_OR_RETURN(const nlohmann::json json,
                     MetadataObject(file_, "optimizer"));
    trainer::AdamWOptions options;
    double rate = 0;
    for (const auto& [key, to] :
         {std::pair{"lr", &rate}, std::pair{"beta1", &options.beta1},
          std::pair{"beta2", &options.beta2},
          std::pair{"eps", &options.epsilon},
          std::pair{"weight_decay", &options.weight_decay},
          std::pair{"clip_global_norm", &options.clip_norm}}) {
      if (!json.contains(key) || !json[key].is_number()) {
        return absl::DataLossError(absl::StrCat("metadata optimizer: ", key));
      }
      *to = json[key].get<double>();
    }
    options.learning_rate_other = rate;
    return options;
  }

  absl::Status CompareSteps() {
    ASSIGN_OR_RETURN(const trainer::AdamWOptions options, ReadOptimizer());
    RETURN_IF_ERROR(run_->SetOptimizer(options));
    for (const trainer::Parameter& p : run_->layout().parameters()) {
      if (!p.table) continue;
      report_->Note(p.name +
                    ": stepped as every other matrix; in training, rows that "
                    "no token has stay as they are");
    }
    ASSIGN_OR_RETURN(const Values loss, file_.GetFloat("steps.loss"));
    ASSIGN_OR_RETURN(const Values norm, file_.GetFloat("steps.grad_norm"));
    Values our_loss, our_norm;
    const auto steps = static_cast<int64_t>(loss.size());
    for (int64_t i = 0; i < steps; ++i) {
      ASSIGN_OR_RETURN(const trainer::Batch batch,
                       PublishedDecoderBatch(file_, "steps.", i));
      RETURN_IF_ERROR(run_->ClearGradients());
      ASSIGN_OR_RETURN(const trainer::LossTotals totals,
                       run_->AddGradients(batch));
      ASSIGN_OR_RETURN(const double measured, run_->Step(totals.labels));
      our_loss.push_back(static_cast<float>(totals.loss_sum / totals.labels));
      our_norm.push_back(static_cast<float>(measured));
      if (i == 0 || i == steps - 1) {
        RETURN_IF_ERROR(CompareParameters(absl::StrCat("after", i + 1)));
      }
    }
    report_->CompareTensor("steps.loss", our_loss, loss, kTolerance);
    report_->CompareTensor("steps.grad_norm", our_norm, norm, kTolerance);
    return absl::OkStatus();
  }

  absl::Status CompareParameters(const std::string& after) {
    ASSIGN_OR_RETURN(const nlohmann::json strays,
                     MetadataObject(file_, "f32_run_vs_f64"));
    if (!strays.contains(after) || !strays[after].is_number()) {
      return absl::DataLossError("metadata f32_run_vs_f64: " + after);
    }
    const double tolerance =
        std::max(kTolerance, kStrays * strays[after].get<double>());
    ASSIGN_OR_RETURN(const Values ours, run_->Parameters());
    ASSIGN_OR_RETURN(const Values published, Published(after + "."));
    for (const trainer::Parameter& p : run_->layout().parameters()) {
      // AdamW turns the rounding noise of its gradient into whole steps.
      if (IsKeyBias(p)) continue;
      report_->CompareTensor(after + "." + p.name, Slice(ours, p),
                             Slice(published, p), tolerance);
    }
    return absl::OkStatus();
  }

  const Safetensors& file_;
  Report* const report_;
  trainer::ModelConfig config_;
  trainer::Batch batch_;
  std::unique_ptr<DecoderRun> run_;
};

}  // namespace

absl::Status CheckDecoder(const Safetensors& file, kernels::Backend* backend,
                          Report* report) {
  return DecoderCheck(&file, report).Run(backend);
}

}  // namespace comera::golden
