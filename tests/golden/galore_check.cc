// Runs the engine's GaLore on the gradients that the published one was given.
//
// A published weight is (outputs, inputs), ours (inputs, outputs): the matrices
// go in transposed.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/method_checks.h"
#include "worker/trainer/model/plan/parameter_layout.h"
#include "worker/trainer/optimizer/galore.h"
#include "worker/trainer/optimizer/singular_vectors.h"

namespace comera::golden {
namespace {

using trainer::Parameter;
using trainer::ParameterKind;

constexpr double kTolerance = 1e-5;
// Singular vectors from eigenvectors of the Gram matrix, against LAPACK's in
// float32.
constexpr double kVectorTolerance = 1e-5;
constexpr int64_t kSteps = 20;

struct Hyper {
  double rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0, scale = 0;
  int64_t rank = 0, gap = 0;
  bool corrects_bias = false;
  // Singular vectors have the signs that our code gives them.
  bool canonical = false;
};

absl::StatusOr<Hyper> ReadHyper(const Safetensors& file,
                                const std::string& name) {
  ASSIGN_OR_RETURN(const nlohmann::json json,
                   MetadataObject(file, absl::StrCat("hyper.", name)));
  Hyper hyper;
  hyper.rate = json.at("lr").get<double>();
  hyper.beta1 = json.at("betas").at(0).get<double>();
  hyper.beta2 = json.at("betas").at(1).get<double>();
  hyper.epsilon = json.at("eps").get<double>();
  hyper.decay = json.at("weight_decay").get<double>();
  hyper.scale = json.at("scale").get<double>();
  hyper.rank = json.at("rank").get<int64_t>();
  hyper.gap = json.at("update_proj_gap").get<int64_t>();
  hyper.corrects_bias = json.at("correct_bias").get<bool>();
  hyper.canonical = json.at("sign").get<std::string>() == "canon";
  return hyper;
}

bool IsMatrix(const Parameter& p) { return p.projection_rank > 0; }

class GaloreRun {
 public:
  GaloreRun(const Safetensors* file, std::string name, const Hyper& hyper,
            kernels::Backend* backend, Report* report)
      : file_(*file),
        name_(std::move(name)),
        hyper_(hyper),
        backend_(backend),
        report_(report),
        memory_(backend) {
    layout_.Add("w_wide", {20, 12}, ParameterKind::kDense, false, hyper.rank);
    layout_.Add("w_tall", {10, 24}, ParameterKind::kDense, false, hyper.rank);
    // A row, since the published group decays its vector too.
    layout_.Add("vec", {1, 16}, ParameterKind::kDense, false);
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(initial_, Flat("init.", -1));
    ASSIGN_OR_RETURN(float* const parameters, memory_.Floats(initial_));
    ASSIGN_OR_RETURN(float* const first, memory_.Zeros(layout_.moments_size()));
    ASSIGN_OR_RETURN(float* const second,
                     memory_.Zeros(layout_.moments_size()));
    ASSIGN_OR_RETURN(float* const projectors,
                     memory_.Zeros(layout_.projectors_size()));
    state_ = {{first, layout_.moments_size()},
              {second, layout_.moments_size()},
              {projectors, layout_.projectors_size()}};
    ASSIGN_OR_RETURN(float* const gradients, memory_.Zeros(layout_.size()));
    for (int64_t t = 1; t <= kSteps; ++t) {
      ASSIGN_OR_RETURN(const std::vector<float> gradient, Flat("grad.", t - 1));
      RETURN_IF_ERROR(backend_->CopyToDevice(
          gradients, gradient.data(), layout_.size() * int64_t{sizeof(float)}));
      const bool refresh = (t - 1) % hyper_.gap == 0;
      if (refresh) RETURN_IF_ERROR(CompareSingularVectors(t, gradients));
      if (refresh && !hyper_.canonical) {
        RETURN_IF_ERROR(UsePublishedProjectors(t));
      }
      RETURN_IF_ERROR(Step(t, {parameters, layout_.size()}, gradients));
      if (t == 1 && !hyper_.canonical) RETURN_IF_ERROR(UsePublishedSigns());
      RETURN_IF_ERROR(Compare(t, parameters));
    }
    return CompareMoments();
  }

 private:
  // The tensors `prefix`NAME of all parameters in our layout; part `step` of
  // each, -1: all of it.
  absl::StatusOr<std::vector<float>> Flat(const std::string& prefix,
                                          int64_t step) {
    std::vector<float> flat;
    for (const Parameter& p : layout_.parameters()) {
      ASSIGN_OR_RETURN(std::vector<float> values,
                       file_.GetFloat(absl::StrCat(prefix, p.name)));
      if (step >= 0) values = Part(values, step, p.size);
      values = Transposed(values, p.shape[1], p.shape[0]);
      flat.insert(flat.end(), values.begin(), values.end());
    }
    return flat;
  }

  // P (short side, rank) of step t.
  absl::StatusOr<std::vector<float>> Projector(int64_t t, const Parameter& p) {
    ASSIGN_OR_RETURN(
        std::vector<float> values,
        file_.GetFloat(absl::StrCat(name_, ".proj.step", t, ".", p.name)));
    // The published right singular vectors are rows.
    if (p.shape[1] > p.shape[0]) {
      values = Transposed(values, hyper_.rank, p.shape[0]);
    }
    return values;
  }

  absl::Status CompareSingularVectors(int64_t t, const float* gradients) {
    for (const Parameter& p : layout_.parameters()) {
      if (!IsMatrix(p)) continue;
      ASSIGN_OR_RETURN(const std::vector<float> published, Projector(t, p));
      ASSIGN_OR_RETURN(float* const memory,
                       memory_.Zeros(static_cast<int64_t>(published.size())));
      RETURN_IF_ERROR(trainer::LeadingSingularVectors(
          {gradients + p.offset, p.shape[0], p.shape[1]}, hyper_.rank, backend_,
          {memory, p.projector_size / hyper_.rank, hyper_.rank}));
      ASSIGN_OR_RETURN(std::vector<float> ours,
                       memory_.Read(memory, p.projector_size));
      if (!hyper_.canonical) ours = WithSigns(ours, Signs(ours, published));
      report_->CompareTensor(absl::StrCat(name_, ".proj.step", t, ".", p.name),
                             ours, published, kVectorTolerance);
    }
    return absl::OkStatus();
  }

  // Per column of both, whether they point the same way.
  std::vector<float> Signs(const std::vector<float>& a,
                           const std::vector<float>& b) const {
    std::vector<float> products(hyper_.rank);
    for (size_t i = 0; i < a.size(); ++i) {
      products[i % hyper_.rank] += a[i] * b[i];
    }
    for (float& product : products) product = product < 0 ? -1.0f : 1.0f;
    return products;
  }
  std::vector<float> WithSigns(std::vector<float> values,
                               const std::vector<float>& signs) const {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= signs[i % hyper_.rank];
    }
    return values;
  }

  // LAPACK's signs are its own, so the published projectors stand in for ours.
  absl::Status UsePublishedProjectors(int64_t t) {
    for (const Parameter& p : layout_.parameters()) {
      if (!IsMatrix(p)) continue;
      ASSIGN_OR_RETURN(const std::vector<float> published, Projector(t, p));
      RETURN_IF_ERROR(Write(published, state_.projectors, p.projector_offset));
    }
    return absl::OkStatus();
  }

  // Step 1 took our projectors, which moves W alike whatever their signs; the
  // moments are turned to the published ones.
  absl::Status UsePublishedSigns() {
    for (const Parameter& p : layout_.parameters()) {
      if (!IsMatrix(p)) continue;
      ASSIGN_OR_RETURN(const std::vector<float> published, Projector(1, p));
      ASSIGN_OR_RETURN(
          const std::vector<float> ours,
          memory_.Read(state_.projectors.data + p.projector_offset,
                       p.projector_size));
      ASSIGN_OR_RETURN(
          const std::vector<float> moment,
          memory_.Read(state_.first_moment.data + p.moment_offset,
                       p.moment_size));
      RETURN_IF_ERROR(Write(WithSigns(moment, Signs(ours, published)),
                            state_.first_moment, p.moment_offset));
    }
    return UsePublishedProjectors(1);
  }

  absl::Status Write(const std::vector<float>& values, kernels::Vector to,
                     int64_t offset) {
    return backend_->CopyToDevice(to.data + offset, values.data(),
                                  values.size() * sizeof(float));
  }

  // An optimiser keeps nothing of its own, so that one may be made for each
  // step, with what is different in it.
  absl::Status Step(int64_t t, kernels::Vector parameters,
                    const float* gradients) {
    // The factor of the rate without bias correction, which ours always does.
    const double time = static_cast<double>(t);
    const double factor = hyper_.corrects_bias
                              ? 1
                              : (1 - std::pow(hyper_.beta1, time)) /
                                    std::sqrt(1 - std::pow(hyper_.beta2, time));
    trainer::GaloreOptions options;
    options.adamw.learning_rate_other = hyper_.rate;
    options.adamw.weight_decay = hyper_.decay / factor;
    options.adamw.beta1 = hyper_.beta1;
    options.adamw.beta2 = hyper_.beta2;
    options.adamw.epsilon = hyper_.epsilon;
    options.adamw.clip_norm = 0;
    options.scale = hyper_.scale;
    options.refresh_every_steps = hyper_.canonical ? hyper_.gap : kSteps;
    ASSIGN_OR_RETURN(const auto galore,
                     trainer::Galore::Create(options, layout_, backend_));
    return galore
        ->Step(t, factor, parameters, {gradients, layout_.trained_size()},
               state_)
        .status();
  }

  absl::Status Compare(int64_t t, const float* parameters) {
    const std::string prefix = absl::StrCat(name_, ".step", t, ".");
    if (file_.tensors().count(absl::StrCat(prefix, "vec")) == 0) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<float> ours,
                     memory_.Read(parameters, layout_.size()));
    ASSIGN_OR_RETURN(const std::vector<float> published, Flat(prefix, -1));
    for (const Parameter& p : layout_.parameters()) {
      const auto slice = [&](const std::vector<float>& values) {
        const auto begin = values.begin() + p.offset;
        return std::vector<float>(begin, begin + p.size);
      };
      report_->CompareChange(absl::StrCat(prefix, p.name), slice(initial_),
                             slice(ours), slice(published), kTolerance);
    }
    return absl::OkStatus();
  }

  // The engine's beta is a float32, so that 1 - beta, and a moment with it, is
  // another number in the fifth place, for 0.999. The bias correction takes the
  // same beta, so that steps do not see it: moments are compared corrected.
  static double Correction(double beta) {
    const double rounded = static_cast<float>(beta);
    return (1 - std::pow(beta, kSteps)) / (1 - std::pow(rounded, kSteps));
  }

  absl::Status CompareMoments() {
    for (const Parameter& p : layout_.parameters()) {
      for (auto [what, buffer] :
           {std::pair{"exp_avg", state_.first_moment},
            std::pair{"exp_avg_sq", state_.second_moment}}) {
        const std::string name =
            absl::StrCat(name_, ".", what, ".step", kSteps, ".", p.name);
        ASSIGN_OR_RETURN(std::vector<float> published, file_.GetFloat(name));
        // Ours are (long side, rank).
        if (IsMatrix(p) && p.shape[1] < p.shape[0]) {
          published = Transposed(published, hyper_.rank, p.shape[0]);
        }
        ASSIGN_OR_RETURN(
            std::vector<float> ours,
            memory_.Read(buffer.data + p.moment_offset, p.moment_size));
        const double correction = Correction(
            buffer.data == state_.first_moment.data ? hyper_.beta1
                                                    : hyper_.beta2);
        for (float& value : ours) {
          value = static_cast<float>(value * correction);
        }
        report_->CompareTensor(name, ours, published, kTolerance);
      }
    }
    return absl::OkStatus();
  }

  const Safetensors& file_;
  const std::string name_;
  const Hyper hyper_;
  kernels::Backend* const backend_;
  Report* const report_;
  DeviceMemory memory_;
  trainer::ParameterLayout layout_;
  std::vector<float> initial_;
  trainer::OptimizerState state_;
};

}  // namespace

absl::Status CheckGalore(const Safetensors& file,
                         const BackendFactory& make_backend, Report* report) {
  ASSIGN_OR_RETURN(const auto backend, make_backend());
  for (const char* name : {"a", "a_canon", "b", "c"}) {
    ASSIGN_OR_RETURN(const Hyper hyper, ReadHyper(file, name));
    RETURN_IF_ERROR(
        GaloreRun(&file, name, hyper, backend.get(), report).Run());
  }
  return absl::OkStatus();
}

}  // namespace comera::golden
