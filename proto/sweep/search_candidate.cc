// Turns candidates of a search into changes of its job.
#include "proto/sweep/search_candidate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/job_defaults.h"
#include "proto/model_family.h"

namespace comera {
namespace {

using Method = v1::CompressionSpec;

// Narrower heads attend to nothing useful.
constexpr int64_t kLeastHeadWidth = 8;

int HeadsFor(int64_t width, const v1::ModelSpec& model) {
  // The entries of a LLaMA's head are turned in pairs.
  const int64_t unit = IsLlama(model) ? 2 : 1;
  for (int h = std::max(1, model.heads()); h > 1; --h) {
    if (width % (h * unit) == 0 && width / h >= kLeastHeadWidth) return h;
  }
  return 1;
}

// The most heads of keys and values, but no more than the job's, that `heads`
// share evenly.
int KvHeadsFor(int heads, int kv_heads) {
  for (int h = std::min(heads, kv_heads); h > 1; --h) {
    if (heads % h == 0) return h;
  }
  return 1;
}

// Makes the model as wide, in the proportions of the job's; fields that the job
// leaves out stay so.
void SetWidth(int64_t width, v1::ModelSpec* model) {
  const int64_t before = std::max<int64_t>(1, model->hidden());
  const int heads = HeadsFor(width, *model);
  model->set_hidden(width);
  model->set_heads(heads);
  if (model->kv_heads() > 0) {
    model->set_kv_heads(KvHeadsFor(heads, model->kv_heads()));
  }
  if (model->ffn() > 0) {
    model->set_ffn(std::max<int64_t>(1, model->ffn() * width / before));
  }
}

void AddField(const std::string& path, const std::string& value,
              v1::SweepPoint* point) {
  v1::FieldValue* field = point->add_fields();
  field->set_path(path);
  field->set_value(value);
}

}  // namespace

v1::SweepPoint ToPoint(const SearchCandidate& candidate,
                       const v1::JobSpec& job) {
  v1::SweepPoint point;
  const v1::ModelSpec& model = job.model();
  point.set_method(candidate.method);
  const bool has_width = model.family() != v1::ModelSpec::DLRM;
  const int64_t width = candidate.width > 0 ? candidate.width : model.hidden();
  std::string label = absl::StrCat(
      "method=", absl::AsciiStrToLower(Method::Method_Name(candidate.method)));
  if (has_width) absl::StrAppend(&label, " width=", width);
  if (has_width && width != model.hidden()) {
    v1::ModelSpec sized = model;
    SetWidth(width, &sized);
    AddField("model.hidden", absl::StrCat(width), &point);
    AddField("model.heads", absl::StrCat(sized.heads()), &point);
    if (sized.kv_heads() > 0) {
      AddField("model.kv_heads", absl::StrCat(sized.kv_heads()), &point);
    }
    if (sized.ffn() > 0) {
      AddField("model.ffn", absl::StrCat(sized.ffn()), &point);
    }
  }
  if (candidate.rank > 0) {
    point.set_ranks(candidate.rank);
    absl::StrAppend(&label, " rank=", candidate.rank);
  }
  if (candidate.tied && !TiesOutput(model)) {
    AddField("model.tie_output", "true", &point);
    absl::StrAppend(&label, " output=tied");
  }
  if (candidate.dense_attention) {
    AddField("compression.attention.dense", "true", &point);
    absl::StrAppend(&label, " attention=dense");
  }
  if (candidate.dense_tokens > 0) {
    AddField("compression.embedding.dense_tokens",
             absl::StrCat(candidate.dense_tokens), &point);
    absl::StrAppend(&label, " dense_tokens=", candidate.dense_tokens);
  }
  const SearchRates& rates = candidate.rates;
  if (!rates.are_defaults()) {
    AddField("optimizer.kind", v1::OptimizerSpec::Kind_Name(rates.kind),
             &point);
    AddField("optimizer.learning_rate_cores", absl::StrCat(rates.cores),
             &point);
    AddField("optimizer.learning_rate_other", absl::StrCat(rates.other),
             &point);
    if (rates.tables > 0) {
      AddField("optimizer.learning_rate_tables", absl::StrCat(rates.tables),
               &point);
    }
    const bool comera = candidate.method == Method::COMERA;
    const bool muon = rates.kind == v1::OptimizerSpec::MUON;
    if (comera != muon) {
      absl::StrAppend(&label, " optimizer=", muon ? "muon" : "adamw");
    }
    absl::StrAppend(&label,
                    " rate=", comera || muon ? rates.cores : rates.other);
  }
  if (candidate.ratio > 0) {
    point.mutable_target()->set_target_ratio(candidate.ratio);
    absl::StrAppend(&label, " shrunk_to=", candidate.ratio);
  }
  point.set_label(std::move(label));
  return point;
}

v1::JobSpec SizedJob(const SearchCandidate& candidate, const v1::JobSpec& job) {
  v1::JobSpec spec = job;
  v1::ModelSpec& model = *spec.mutable_model();
  if (candidate.width > 0 && candidate.width != model.hidden()) {
    SetWidth(candidate.width, &model);
  }
  if (candidate.tied) model.set_tie_output(true);
  if (candidate.dense_attention) {
    spec.mutable_compression()->mutable_attention()->set_dense(true);
  }
  if (candidate.dense_tokens > 0) {
    spec.mutable_compression()->mutable_embedding()->set_dense_tokens(
        candidate.dense_tokens);
  }
  spec.mutable_compression()->set_method(candidate.method);
  if (candidate.method == Method::COLA && candidate.rank > 0) {
    spec.mutable_compression()->mutable_cola()->set_rank(candidate.rank);
  }
  return WithDefaults(std::move(spec));
}

v1::OptimizerSpec UsualOptimizer(Method::Method method, v1::JobSpec job) {
  job.clear_optimizer();
  job.mutable_compression()->set_method(method);
  return WithDefaults(std::move(job)).optimizer();
}

bool LeavesDenseTokens(const v1::JobSpec& job) {
  const v1::LayerCompression& embedding = job.compression().embedding();
  return !embedding.dense() && !embedding.has_dense_tokens();
}

bool LeavesAttention(const v1::JobSpec& job) {
  return !job.compression().has_attention();
}

}  // namespace comera
