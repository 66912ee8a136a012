// Formats tables that fit the terminal.
#ifndef COMERA_CLIENT_CLI_OUTPUT_TABLE_H_
#define COMERA_CLIENT_CLI_OUTPUT_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

// The rows of a table; the first is the header.
using TableRows = std::vector<std::vector<std::string>>;

struct TableLayout {
  // The columns of the terminal; 0 for tables as wide as their cells.
  int width = 0;
  bool headers = true;
  // Whether states are coloured and headers bold.
  bool color = false;
  // The columns to show, in this order, by header in any case; empty for all.
  std::vector<std::string> columns;
};

// Formats columns with two spaces between them. If `layout.width` is too small,
// columns are left out: first those of `dispensable` (by header, in that
// order), then from the right, but never the first one and STATE. Then the
// widest cells are cut and end in "…", except the first column's, which are
// names to copy. InvalidArgument: `layout.columns` names an unknown column.
absl::StatusOr<std::string> FormatTable(
    const TableRows& rows, const TableLayout& layout,
    const std::vector<std::string>& dispensable = {});

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_TABLE_H_
