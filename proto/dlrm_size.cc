// Adds up the parameters of a DLRM's tables and perceptrons.

#include "proto/dlrm_size.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace comera {
namespace {

constexpr int kCriteoIntegers = 13;
constexpr int kCriteoCategories = 26;
constexpr double kMostTableRows = 1 << 24;

bool Compresses(const v1::JobSpec& spec, const v1::LayerCompression& layer) {
  return spec.compression().method() == v1::CompressionSpec::COMERA &&
         !layer.dense();
}

double EmbeddingWidth(const v1::JobSpec& spec) {
  return static_cast<double>(*spec.model().dlrm().bottom_mlp().rbegin());
}

// The rows of every table; `unknown` for tables whose size only the data tell.
std::vector<double> TableRows(const v1::JobSpec& spec, double unknown) {
  if (!spec.data().has_synthetic_clicks()) {
    return std::vector<double>(kCriteoCategories, unknown);
  }
  const auto& rows = spec.data().synthetic_clicks().table_rows();
  return std::vector<double>(rows.begin(), rows.end());
}

// The weights and biases of a perceptron; `smallest` leaves out the weights of
// compressed layers.
double MlpParameters(const v1::JobSpec& spec, double inputs,
                     const google::protobuf::RepeatedField<int64_t>& widths,
                     bool smallest) {
  const auto narrow =
      static_cast<double>(spec.model().dlrm().min_compressed_width());
  double total = 0;
  for (int64_t width : widths) {
    const auto outputs = static_cast<double>(width);
    const bool goes = smallest && Compresses(spec, spec.compression().mlp()) &&
                      inputs > narrow && outputs > narrow;
    total += (goes ? 0 : inputs * outputs) + outputs;
    inputs = outputs;
  }
  return total;
}

double BothMlps(const v1::JobSpec& spec, bool smallest) {
  const v1::DlrmSpec& dlrm = spec.model().dlrm();
  const v1::DataSpec& data = spec.data();
  const double features = data.has_synthetic_clicks()
                              ? data.synthetic_clicks().dense_features()
                              : kCriteoIntegers;
  const double vectors = 1.0 + TableRows(spec, 1).size();
  const double interaction = EmbeddingWidth(spec) + vectors * (vectors - 1) / 2;
  return MlpParameters(spec, features, dlrm.bottom_mlp(), smallest) +
         MlpParameters(spec, interaction, dlrm.top_mlp(), smallest);
}

}  // namespace

double SmallestDlrmParameters(const v1::JobSpec& spec) {
  std::vector<double> rows = TableRows(spec, 1);
  if (Compresses(spec, spec.compression().table())) {
    std::sort(rows.begin(), rows.end(), std::greater<double>());
    rows.erase(rows.begin(),
               rows.begin() +
                   std::min<int64_t>(spec.model().dlrm().compressed_tables(),
                                     static_cast<int64_t>(rows.size())));
  }
  double total = BothMlps(spec, /*smallest=*/true);
  for (double count : rows) total += count * EmbeddingWidth(spec);
  return total;
}

double LargestDlrmParameters(const v1::JobSpec& spec) {
  const int64_t limit = spec.data().criteo_tsv().max_table_rows();
  double total = BothMlps(spec, /*smallest=*/false);
  for (double count : TableRows(
           spec, limit > 0 ? static_cast<double>(limit) : kMostTableRows)) {
    total += count * EmbeddingWidth(spec);
  }
  return total;
}

}  // namespace comera
