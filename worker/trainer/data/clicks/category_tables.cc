// Maps categorical values to table rows, and saves that map.
#include "worker/trainer/data/clicks/category_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxTables = 1024;
constexpr int64_t kMaxRows = int64_t{1} << 31;

std::string NameOf(int64_t table) { return absl::StrCat("values.", table); }

}  // namespace

absl::StatusOr<CategoryTables> CategoryTables::Create(
    std::vector<Table> tables) {
  CategoryTables all;
  for (const Table& table : tables) {
    const std::string name = absl::StrCat("table ", all.rows_.size());
    const auto own = static_cast<int64_t>(table.own.size());
    if (table.rows < 1 || table.rows >= kMaxRows || own > table.rows) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": ", own, " values of their own in ", table.rows, " rows"));
    }
    auto& rows = all.rows_.emplace_back();
    rows.reserve(table.own.size());
    for (const uint64_t value : table.own) {
      if (!rows.emplace(value, static_cast<int32_t>(rows.size())).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(name, ": a value occurs twice"));
      }
    }
  }
  all.tables_ = std::move(tables);
  return all;
}

int32_t CategoryTables::Row(int64_t table, uint64_t value) const {
  const auto found = rows_[table].find(value);
  if (found != rows_[table].end()) return found->second;
  const int64_t rows = tables_[table].rows;
  const auto own = static_cast<int64_t>(tables_[table].own.size());
  if (own < rows) {
    const auto shared = static_cast<uint64_t>(rows - own);
    return static_cast<int32_t>(own +
                                static_cast<int64_t>(MixBits(value) % shared));
  }
  const auto empty = rows_[table].find(0);
  return empty != rows_[table].end() ? empty->second
                                     : static_cast<int32_t>(rows - 1);
}

absl::Status CategoryTables::Save(const std::string& directory) const {
  Safetensors file;
  std::vector<int64_t> rows;
  for (int64_t t = 0; t < size(); ++t) {
    const std::vector<uint64_t>& own = tables_[t].own;
    const std::vector<int64_t> values(own.begin(), own.end());
    RETURN_IF_ERROR(
        file.AddInt64(NameOf(t), {static_cast<int64_t>(values.size())},
                      values.data(), static_cast<int64_t>(values.size())));
    rows.push_back(tables_[t].rows);
  }
  RETURN_IF_ERROR(file.AddInt64("rows", {size()}, rows.data(), size()));
  file.metadata()["format"] = "comera-categories";
  return file.WriteAtomically(absl::StrCat(directory, "/", kFile));
}

absl::StatusOr<CategoryTables> CategoryTables::Load(
    const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kFile);
  const auto bad = [&](const absl::Status& status) {
    return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
  };
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Read(path));
  const auto rows = file.GetInt64("rows");
  if (!rows.ok()) return bad(rows.status());
  if (static_cast<int64_t>(rows->size()) > kMaxTables) {
    return bad(absl::DataLossError("too many tables"));
  }
  std::vector<Table> tables;
  for (size_t t = 0; t < rows->size(); ++t) {
    const auto values = file.GetInt64(NameOf(static_cast<int64_t>(t)));
    if (!values.ok()) return bad(values.status());
    tables.push_back({{values->begin(), values->end()}, (*rows)[t]});
  }
  absl::StatusOr<CategoryTables> all = Create(std::move(tables));
  if (!all.ok()) return bad(all.status());
  return all;
}

}  // namespace comera::trainer
