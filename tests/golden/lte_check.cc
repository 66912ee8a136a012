// Trains the engine's LTE layer as the published one was trained.
//
// A published weight is (outputs, inputs), ours (inputs, outputs); A and B of
// all heads lie side by side here and one behind the other there.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/method_checks.h"
#include "tests/worker/trainer/model/layer_harness.h"
#include "worker/trainer/optimizer/lte_optimizer.h"

namespace comera::golden {
namespace {

using trainer::LayerHarness;
using trainer::Parameter;

constexpr double kTolerance = 1e-5;

struct Dimensions {
  int64_t inputs = 0, outputs = 0, heads = 0, rank = 0;
  int64_t head_rows = 0, merges = 0, merge_every = 0;
  int64_t rows() const { return heads * head_rows; }
};

absl::StatusOr<Dimensions> ReadDimensions(const Safetensors& file) {
  ASSIGN_OR_RETURN(const nlohmann::json json, MetadataObject(file, "dims"));
  Dimensions d;
  d.inputs = json.at("inf").get<int64_t>();
  d.outputs = json.at("outf").get<int64_t>();
  d.heads = json.at("H").get<int64_t>();
  d.rank = json.at("r").get<int64_t>();
  d.head_rows = json.at("b").get<int64_t>();
  d.merges = json.at("periods").get<int64_t>();
  d.merge_every = json.at("k").get<int64_t>();
  return d;
}

// A (inputs, heads * rank) of the published (heads, rank, inputs).
std::vector<float> OurA(const std::vector<float>& published,
                        const Dimensions& d) {
  return Transposed(published, d.heads * d.rank, d.inputs);
}

// B (heads * rank, outputs) of the published (heads, outputs, rank).
std::vector<float> OurB(const std::vector<float>& published,
                        const Dimensions& d) {
  std::vector<float> ours;
  for (int64_t head = 0; head < d.heads; ++head) {
    const std::vector<float> part =
        Transposed(Part(published, head, d.outputs * d.rank), d.outputs,
                   d.rank);
    ours.insert(ours.end(), part.begin(), part.end());
  }
  return ours;
}

class LteRun {
 public:
  LteRun(const Safetensors* file, std::string name, const Dimensions& d,
         Report* report)
      : file_(*file), name_(std::move(name)), d_(d), report_(report) {}

  absl::Status Run(std::unique_ptr<kernels::Backend> backend) {
    RETURN_IF_ERROR(SetUp(std::move(backend)));
    DeviceMemory memory(&layer_->backend());
    RETURN_IF_ERROR(Allocate(&memory));
    ASSIGN_OR_RETURN(const std::vector<float> published,
                     file_.GetFloat(absl::StrCat(name_, ".fwd")));
    for (int64_t t = 1; t <= d_.merges * d_.merge_every; ++t) {
      RETURN_IF_ERROR(SetInput(t - 1));
      ASSIGN_OR_RETURN(const std::vector<float> y, Forward(/*train=*/true));
      report_->CompareTensor(absl::StrCat(name_, ".fwd", t), y,
                             Part(published, t - 1, d_.rows() * d_.outputs),
                             kTolerance);
      RETURN_IF_ERROR(Backward());
      RETURN_IF_ERROR(CompareGradients(t));
      RETURN_IF_ERROR(Step(t));
      if (t % d_.merge_every == 0) {
        RETURN_IF_ERROR(CompareMerge(t / d_.merge_every));
      }
    }
    return absl::OkStatus();
  }

 private:
  const Parameter& At(const std::string& name) const {
    const trainer::ParameterLayout& layout = layer_->layout().parameters;
    return layout[layout.Find("layer." + name)];
  }

  absl::Status SetUp(std::unique_ptr<kernels::Backend> backend) {
    ASSIGN_OR_RETURN(const nlohmann::json json,
                     MetadataObject(file_, absl::StrCat("hyper.", name_)));
    trainer::Factorisation f;
    f.low_rank = {trainer::LowRank::Kind::kLte, d_.rank, d_.heads,
                  json.at("scaling").get<double>()};
    layer_ = LayerHarness::ForLinear(d_.inputs, d_.outputs, f, 0.01f, d_.rows(),
                                     std::move(backend));
    std::vector<trainer::LteHeadRun> runs;
    for (int64_t head = 0; head < d_.heads; ++head) {
      runs.push_back({(head + 1) * d_.head_rows, head});
    }
    layer_->head_runs().Set(runs);
    rate_ = json.at("lr").get<double>();
    descends_ = json.at("opt").get<std::string>() == "sgd";
    trainer::AdamWOptions options;
    options.learning_rate_other = descends_ ? 0 : rate_;
    options.weight_decay = json.at("weight_decay").get<double>();
    if (!descends_) options.epsilon = json.at("eps").get<double>();
    options.clip_norm = 0;
    ASSIGN_OR_RETURN(optimizer_,
                     trainer::LteOptimizer::Create(
                         options, d_.merge_every,
                         {{"layer", d_.heads, f.low_rank.scale}},
                         layer_->layout().parameters, &layer_->backend()));
    const auto set = [&](const std::string& name, std::vector<float> values) {
      std::copy(values.begin(), values.end(), layer_->Parameter(name));
    };
    const std::string init = absl::StrCat(name_, ".init.");
    ASSIGN_OR_RETURN(const auto weight, file_.GetFloat(init + "weight"));
    ASSIGN_OR_RETURN(const auto bias, file_.GetFloat(init + "bias"));
    ASSIGN_OR_RETURN(const auto a, file_.GetFloat(init + "lora_A_weight"));
    ASSIGN_OR_RETURN(const auto b, file_.GetFloat(init + "lora_B_weight"));
    set("weight", Transposed(weight, d_.outputs, d_.inputs));
    set("bias", bias);
    set("a", OurA(a, d_));
    set("b", OurB(b, d_));
    initial_ = layer_->parameters();
    return absl::OkStatus();
  }

  absl::Status Allocate(DeviceMemory* memory) {
    memory_ = memory;
    step_ = layer_->step();
    ASSIGN_OR_RETURN(parameters_, memory->Floats(layer_->parameters()));
    ASSIGN_OR_RETURN(gradients_, memory->Floats(layer_->gradients()));
    step_.parameters = parameters_;
    step_.gradients = gradients_;
    const int64_t moments = layer_->layout().parameters.moments_size();
    ASSIGN_OR_RETURN(first_, memory->Zeros(moments));
    ASSIGN_OR_RETURN(second_, memory->Zeros(moments));
    ASSIGN_OR_RETURN(x_, memory->Zeros(d_.rows() * d_.inputs));
    ASSIGN_OR_RETURN(dy_, memory->Zeros(d_.rows() * d_.outputs));
    ASSIGN_OR_RETURN(y_, memory->Zeros(d_.rows() * d_.outputs));
    return absl::OkStatus();
  }

  absl::Status SetInput(int64_t at) {
    ASSIGN_OR_RETURN(const auto x, file_.GetFloat("x"));
    ASSIGN_OR_RETURN(const auto dy, file_.GetFloat("dy"));
    const auto copy = [&](const std::vector<float>& from, int64_t size,
                          float* to) {
      return layer_->backend().CopyToDevice(to, from.data() + at * size,
                                            size * int64_t{sizeof(float)});
    };
    RETURN_IF_ERROR(copy(x, d_.rows() * d_.inputs, x_));
    return copy(dy, d_.rows() * d_.outputs, dy_);
  }

  absl::StatusOr<std::vector<float>> Forward(bool train) {
    trainer::Step step = step_;
    step.train = train;
    RETURN_IF_ERROR(layer_->linear().Contract(step));
    RETURN_IF_ERROR(layer_->linear().Forward(step, 0,
                                             {x_, d_.rows(), d_.inputs},
                                             {y_, d_.rows(), d_.outputs}));
    return memory_->Read(y_, d_.rows() * d_.outputs);
  }

  absl::Status Backward() {
    kernels::Backend& backend = layer_->backend();
    const int64_t size = layer_->layout().parameters.trained_size();
    RETURN_IF_ERROR(backend.Fill({gradients_, size}, 0));
    RETURN_IF_ERROR(layer_->linear().Backward(
        step_, 0, {x_, d_.rows(), d_.inputs}, {dy_, d_.rows(), d_.outputs},
        {nullptr, d_.rows(), d_.inputs}, false));
    RETURN_IF_ERROR(layer_->linear().FinishBackward(step_));
    // The published bias is frozen, ours is trained.
    const Parameter& bias = At("bias");
    return backend.Fill({gradients_ + bias.offset, bias.size}, 0);
  }

  absl::Status CompareGradients(int64_t t) {
    const std::string prefix = absl::StrCat(name_, ".grad.step", t, ".lora_");
    if (file_.tensors().count(prefix + "A_weight") == 0) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const auto a, file_.GetFloat(prefix + "A_weight"));
    ASSIGN_OR_RETURN(const auto b, file_.GetFloat(prefix + "B_weight"));
    RETURN_IF_ERROR(Compare(prefix + "A_weight", gradients_, "a", OurA(a, d_)));
    return Compare(prefix + "B_weight", gradients_, "b", OurB(b, d_));
  }

  absl::Status Compare(const std::string& what, const float* from,
                       const std::string& name,
                       const std::vector<float>& published) {
    const Parameter& p = At(name);
    ASSIGN_OR_RETURN(const std::vector<float> ours,
                     memory_->Read(from + p.offset, p.size));
    report_->CompareTensor(what, ours, published, kTolerance);
    return absl::OkStatus();
  }

  // The engine has no plain gradient descent: it is done here, and the engine's
  // optimiser follows with gradients of 0 at rate 0, which merges alone.
  absl::Status Step(int64_t t) {
    const trainer::ParameterLayout& layout = layer_->layout().parameters;
    kernels::Backend& backend = layer_->backend();
    const int64_t size = layout.trained_size();
    if (descends_) {
      RETURN_IF_ERROR(backend.Axpy(static_cast<float>(-rate_),
                                   {gradients_, size}, {parameters_, size}));
      RETURN_IF_ERROR(backend.Fill({gradients_, size}, 0));
    }
    const int64_t moments = layout.moments_size();
    return optimizer_
        ->Step(t, 1, {parameters_, layout.size()}, {gradients_, size},
               {{first_, moments}, {second_, moments}, {}})
        .status();
  }

  absl::Status CompareMerge(int64_t merge) {
    const std::string prefix = absl::StrCat(name_, ".merge", merge, ".");
    ASSIGN_OR_RETURN(const auto weight, file_.GetFloat(prefix + "weight"));
    ASSIGN_OR_RETURN(const auto a, file_.GetFloat(prefix + "lora_A_weight"));
    ASSIGN_OR_RETURN(const auto b, file_.GetFloat(prefix + "lora_B_weight"));
    RETURN_IF_ERROR(CompareChange(prefix + "weight", "weight",
                                  Transposed(weight, d_.outputs, d_.inputs)));
    RETURN_IF_ERROR(CompareChange(prefix + "lora_A_weight", "a", OurA(a, d_)));
    RETURN_IF_ERROR(CompareChange(prefix + "lora_B_weight", "b", OurB(b, d_)));
    ASSIGN_OR_RETURN(const auto eval_out, file_.GetFloat(prefix + "eval_out"));
    ASSIGN_OR_RETURN(const auto train_out,
                     file_.GetFloat(prefix + "train_out"));
    ASSIGN_OR_RETURN(const auto evaluated, Forward(/*train=*/false));
    report_->CompareTensor(prefix + "eval_out", evaluated, eval_out,
                           kTolerance);
    ASSIGN_OR_RETURN(const auto trained, Forward(/*train=*/true));
    report_->CompareTensor(prefix + "train_out", trained, train_out,
                           kTolerance);
    return absl::OkStatus();
  }

  absl::Status CompareChange(const std::string& what, const std::string& name,
                             const std::vector<float>& published) {
    const Parameter& p = At(name);
    ASSIGN_OR_RETURN(const std::vector<float> ours,
                     memory_->Read(parameters_ + p.offset, p.size));
    const auto begin = initial_.begin() + p.offset;
    report_->CompareChange(what, std::vector<float>(begin, begin + p.size),
                           ours, published, kTolerance);
    return absl::OkStatus();
  }

  const Safetensors& file_;
  const std::string name_;
  const Dimensions d_;
  Report* const report_;
  std::unique_ptr<LayerHarness> layer_;
  std::unique_ptr<trainer::LteOptimizer> optimizer_;
  double rate_ = 0;
  bool descends_ = false;
  std::vector<float> initial_;
  // In memory of the layer's backend.
  DeviceMemory* memory_ = nullptr;
  trainer::Step step_;
  float *parameters_ = nullptr, *gradients_ = nullptr;
  float *first_ = nullptr, *second_ = nullptr;
  float *x_ = nullptr, *dy_ = nullptr, *y_ = nullptr;
};

}  // namespace

// Biases on the factors (case adamw_lbias) are not offered.
absl::Status CheckLte(const Safetensors& file,
                      const BackendFactory& make_backend, Report* report) {
  ASSIGN_OR_RETURN(const Dimensions d, ReadDimensions(file));
  for (const char* name : {"sgd", "adamw"}) {
    ASSIGN_OR_RETURN(auto backend, make_backend());
    RETURN_IF_ERROR(
        LteRun(&file, name, d, report).Run(std::move(backend)));
  }
  return absl::OkStatus();
}

}  // namespace comera::golden
