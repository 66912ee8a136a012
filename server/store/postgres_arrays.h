// Columns of values as PostgreSQL's array literals, so that one statement
// carries a whole batch: INSERT ... SELECT * FROM unnest($1::text[], ...).
#ifndef COMERA_SERVER_STORE_POSTGRES_ARRAYS_H_
#define COMERA_SERVER_STORE_POSTGRES_ARRAYS_H_

#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace comera::server {

// An array literal that grows by one element at a time.
//
//   PostgresArray names;
//   names.AddText("jobs/a");
//   tx.exec_params("... unnest($1::text[])", names.literal());
class PostgresArray {
 public:
  void AddNull() { Add("NULL"); }
  void AddNumber(int64_t number) { Add(absl::StrCat(number)); }
  // `text` without NUL bytes.
  void AddText(absl::string_view text) {
    std::string quoted = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    quoted += '"';
    Add(quoted);
  }
  void AddBytes(absl::string_view bytes) {
    Add("\"\\\\x");
    literal_ += absl::BytesToHexString(bytes);
    literal_ += '"';
  }

  bool empty() const { return literal_.size() == 1; }
  std::string literal() const { return literal_ + "}"; }

 private:
  void Add(absl::string_view element) {
    if (!empty()) literal_ += ',';
    absl::StrAppend(&literal_, element);
  }

  std::string literal_ = "{";
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_ARRAYS_H_
