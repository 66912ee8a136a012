// The default shape of a DLRM, and of the click logs that it trains on.

#include "proto/dlrm_defaults.h"

#include <algorithm>
#include <cstdint>

namespace comera {
namespace {

constexpr int64_t kMostSyntheticRows = 100000;

}  // namespace

const std::vector<int64_t>& CriteoKaggleRows() {
  static const auto* rows = new std::vector<int64_t>{
      1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
      93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
      2173,  4,    7046547,  18,      15,  286181, 105,     142572};
  return *rows;
}

void FillDlrm(v1::DlrmSpec& dlrm) {
  if (dlrm.bottom_mlp().empty()) {
    for (int64_t width : {512, 256, 64, 16}) dlrm.add_bottom_mlp(width);
  }
  if (dlrm.top_mlp().empty()) {
    for (int64_t width : {512, 256, 1}) dlrm.add_top_mlp(width);
  }
  if (!dlrm.has_compressed_tables()) dlrm.set_compressed_tables(10);
  if (!dlrm.has_min_compressed_width()) dlrm.set_min_compressed_width(128);
}

void FillClickLog(v1::DataSpec& data) {
  if (data.has_criteo_tsv() && !data.criteo_tsv().has_parts()) {
    data.mutable_criteo_tsv()->set_parts(7);
  }
  if (!data.has_synthetic_clicks()) return;
  v1::SyntheticClicks& clicks = *data.mutable_synthetic_clicks();
  if (!clicks.has_dense_features()) clicks.set_dense_features(13);
  if (clicks.table_rows().empty()) {
    for (int64_t rows : CriteoKaggleRows()) {
      clicks.add_table_rows(std::min(rows, kMostSyntheticRows));
    }
  }
}

}  // namespace comera
