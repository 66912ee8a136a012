// Tables that fit the terminal.
#ifndef COMERA_CLIENT_CLI_OUTPUT_TABLE_H_
#define COMERA_CLIENT_CLI_OUTPUT_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

// The first row is the header.
using TableRows = std::vector<std::vector<std::string>>;

struct TableLayout {
  // Columns of the terminal; 0: as wide as the cells are.
  int width = 0;
  bool headers = true;
  // States are painted, headers are bold.
  bool color = false;
  // Only these, in this order, by header whatever its case; empty: all.
  std::vector<std::string> columns;
};

// Columns with two spaces between. Where `layout.width` is too small, columns
// go, those of `dispensable` first (by header, in that order), then from the
// right; the first one and STATE stay. Then the widest cells end with "…", but
// for the first column's, which are names to copy.
// InvalidArgument: `layout.columns` names one that is none.
absl::StatusOr<std::string> FormatTable(
    const TableRows& rows, const TableLayout& layout,
    const std::vector<std::string>& dispensable = {});

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_TABLE_H_
