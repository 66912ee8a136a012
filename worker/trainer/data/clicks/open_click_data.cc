// Opens the click data that a job names.
#include "worker/trainer/data/clicks/open_click_data.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/clicks/click_data.h"
#include "worker/trainer/data/clicks/click_table.h"
#include "worker/trainer/data/clicks/criteo_tsv.h"
#include "worker/trainer/data/clicks/synthetic_clicks.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/source/read_limited.h"

namespace comera::trainer {
namespace {

absl::StatusOr<std::unique_ptr<ClickSource>> OpenCriteo(
    const v1::CriteoTsv& spec, const TrainingData::Options& options) {
  std::string key = absl::StrCat("criteo tsv 2\n", spec.parts(), " ",
                                 spec.max_table_rows(), "\n");
  for (const std::string& path : spec.files()) {
    ASSIGN_OR_RETURN(const std::string stamp, FileStamp(path));
    absl::StrAppend(&key, stamp, "\n");
  }
  auto table = std::make_unique<ClickTable>();
  FileCache cache(options.cache_dir, options.on_activity);
  RETURN_IF_ERROR(cache.GetOrBuild(
      "clicks", key,
      [&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const ClickTable read,
                         ReadCriteoTsv(spec, options.on_activity));
        std::string bytes;
        read.Serialize(&bytes);
        return bytes;
      },
      [&](absl::string_view bytes) -> absl::Status {
        ASSIGN_OR_RETURN(*table, ClickTable::Parse(bytes));
        return absl::OkStatus();
      }));
  return table;
}

absl::StatusOr<std::unique_ptr<ClickSource>> OpenSource(
    const v1::DataSpec& data, const TrainingData::Options& options) {
  switch (data.format_case()) {
    case v1::DataSpec::kCriteoTsv:
      return OpenCriteo(data.criteo_tsv(), options);
    case v1::DataSpec::kSyntheticClicks:
      return SyntheticClicks::Create(data.synthetic_clicks());
    default:
      return absl::InvalidArgumentError(
          "data: DLRM needs criteo_tsv or synthetic_clicks");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingData>> OpenClickData(
    const v1::JobSpec& spec, const TrainingData::Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ClickSource> source,
                   OpenSource(spec.data(), options));
  return std::make_unique<ClickData>(spec.training().seed(), std::move(source));
}

}  // namespace comera::trainer
