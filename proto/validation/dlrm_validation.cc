// Checks a DLRM's tables, layers and click logs.

#include "proto/validation/dlrm_validation.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/validation/data_path_check.h"

namespace comera {
namespace {

constexpr int64_t kMaxColumns = 1024;
constexpr int64_t kMaxTableRows = int64_t{1} << 24;
constexpr int64_t kMaxMlpLayers = 64;
constexpr int64_t kMaxWidth = 65536;
constexpr int64_t kMaxRows = int64_t{1} << 40;
// The limit, because each validation reads all of them.
constexpr int64_t kMaxValidationRows = int64_t{1} << 26;

using Numbers = google::protobuf::RepeatedField<int64_t>;

// Requires 1 to max_count numbers from 1 to `high`.
void CheckNumbers(const std::string& field, const Numbers& numbers,
                  int64_t max_count, int64_t high, SpecChecker& check) {
  check.Range(field, numbers.size(), 1, max_count, "entries");
  for (int i = 0; i < std::min<int64_t>(numbers.size(), max_count); ++i) {
    check.Range(absl::StrCat(field, "[", i, "]"), numbers[i], 1, high);
  }
}

void CheckCriteoTsv(const v1::CriteoTsv& criteo, SpecChecker& check) {
  check.Range("data.criteo_tsv.files", criteo.files_size(), 1, kMaxColumns,
              "entries");
  for (int i = 0; i < std::min<int64_t>(criteo.files_size(), kMaxColumns);
       ++i) {
    CheckDataPath(absl::StrCat("data.criteo_tsv.files[", i, "]"),
                  criteo.files(i), PathKind::kFile, check);
  }
  check.Range("data.criteo_tsv.parts", criteo.parts(), 2, 1000);
  check.Require(criteo.max_table_rows() == 0 ||
                    (criteo.max_table_rows() >= 2 &&
                     criteo.max_table_rows() <= kMaxTableRows),
                "data.criteo_tsv.max_table_rows",
                absl::StrCat("must be 0 or 2 to ", kMaxTableRows, ", not ",
                             criteo.max_table_rows()));
}

void CheckSyntheticClicks(const v1::SyntheticClicks& clicks,
                          SpecChecker& check) {
  check.Range("data.synthetic_clicks.train_rows", clicks.train_rows(), 1,
              kMaxRows);
  check.Range("data.synthetic_clicks.validation_rows", clicks.validation_rows(),
              1, kMaxValidationRows);
  check.Range("data.synthetic_clicks.dense_features", clicks.dense_features(),
              1, kMaxColumns);
  CheckNumbers("data.synthetic_clicks.table_rows", clicks.table_rows(),
               kMaxColumns, kMaxTableRows, check);
}

}  // namespace

void CheckDlrmModel(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::ModelSpec& model = spec.model();
  const std::pair<const char*, bool> other_fields[] = {
      {"model.layers", model.layers() != 0},
      {"model.hidden", model.hidden() != 0},
      {"model.ffn", model.ffn() != 0},
      {"model.heads", model.heads() != 0},
      {"model.max_positions", model.max_positions() != 0},
      {"model.segments", model.segments() != 0},
      {"model.classes", model.classes() != 0},
      {"model.dropout", model.dropout() != 0},
      {"model.dropout_off", model.dropout_off()},
      {"model.tie_output", model.tie_output()},
      {"training.phases", !spec.training().phases().empty()},
  };
  for (const auto& [field, is_set] : other_fields) {
    check.Require(!is_set, field, "is not for DLRM, which takes model.dlrm");
  }
  const v1::DlrmSpec& dlrm = model.dlrm();
  CheckNumbers("model.dlrm.bottom_mlp", dlrm.bottom_mlp(), kMaxMlpLayers,
               kMaxWidth, check);
  CheckNumbers("model.dlrm.top_mlp", dlrm.top_mlp(), kMaxMlpLayers, kMaxWidth,
               check);
  check.Require(
      dlrm.top_mlp().empty() || dlrm.top_mlp(dlrm.top_mlp_size() - 1) == 1,
      "model.dlrm.top_mlp", "must end in 1, the log-odds of a click");
  check.Range("model.dlrm.compressed_tables", dlrm.compressed_tables(), 0,
              kMaxColumns);
  check.Range("model.dlrm.min_compressed_width", dlrm.min_compressed_width(), 0,
              kMaxWidth);
}

void CheckClickLog(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::DataSpec& data = spec.data();
  switch (data.format_case()) {
    case v1::DataSpec::kCriteoTsv:
      CheckCriteoTsv(data.criteo_tsv(), check);
      break;
    case v1::DataSpec::kSyntheticClicks:
      CheckSyntheticClicks(data.synthetic_clicks(), check);
      break;
    default:
      check.Add("data",
                "holds no clicks for DLRM: criteo_tsv and "
                "synthetic_clicks do");
  }
  check.Require(!data.has_tokenizer(), "data.tokenizer", "is not for DLRM");
  check.Require(data.max_length() == 0, "data.max_length", "is not for DLRM");
  check.Require(data.mask_probability() == 0, "data.mask_probability",
                "is for MASKED_LM only");
}

void CheckNothingOfDlrm(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::CompressionSpec& compression = spec.compression();
  const std::pair<const char*, bool> fields[] = {
      {"model.dlrm", spec.model().has_dlrm()},
      {"data.criteo_tsv", spec.data().has_criteo_tsv()},
      {"data.synthetic_clicks", spec.data().has_synthetic_clicks()},
      {"compression.table", compression.has_table()},
      {"compression.mlp", compression.has_mlp()},
  };
  for (const auto& [field, is_set] : fields) {
    check.Require(!is_set, field, "is for DLRM only");
  }
}

}  // namespace comera
