#ifndef COMERA_CLIENT_SEARCH_LABELLED_FILE_H_
#define COMERA_CLIENT_SEARCH_LABELLED_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

// What a file of labelled texts holds: CSV (RFC 4180) or TSV (no quoting) with
// a header line, or JSON lines, as its name ends; plain or .gz.
struct LabelledFile {
  // Columns or fields; an empty label: the rows have none.
  std::string text, second_text, label;
  // The different labels, sorted.
  std::vector<std::string> labels;
};

// Names of columns that the user gave; an empty one is guessed from usual
// names.
struct LabelledColumns {
  std::string text, second_text, label;
};

// Reads the whole file. NotFound, PermissionDenied. InvalidArgument, with the
// file and, where there is one, the line: there is no such column, a row has
// not as many cells as the header, or there are too many labels for classes.
absl::StatusOr<LabelledFile> SurveyLabelledFile(const std::string& path,
                                                const LabelledColumns& columns);

// Whether the file's name is one of such a file.
bool IsLabelledFileName(const std::string& path);

}  // namespace comera::client

#endif  // COMERA_CLIENT_SEARCH_LABELLED_FILE_H_
